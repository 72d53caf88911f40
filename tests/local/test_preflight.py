"""The check before any environment exists: one sentence, on Pythons too old to run Tilewatch as well."""

import ast
import subprocess
import sys
from pathlib import Path

from benchapp.local import preflight

SCRIPT = Path(preflight.__file__)


def test_it_can_be_read_by_the_python_that_it_refuses():
    ast.parse(SCRIPT.read_text(), feature_version=(3, 9))


def test_an_old_python_is_refused_first():
    sentence = preflight.complaint((3, 9, 2), ["g++"])
    assert sentence == (
        "Tilewatch needs Python 3.11 or newer and this is 3.9.2: try `make run PYTHON=python3.11`."
    )


def test_what_is_missing_is_named_with_the_line_that_brings_it():
    sentence = preflight.complaint((3, 11, 0), ["g++", "python3-venv"])
    assert sentence.startswith("Tilewatch needs g++ and python3-venv, missing here: run `apt-get install")
    assert preflight.complaint((3, 11, 0), []) == ""


def test_a_machine_without_compiler_fails_in_one_line(tmp_path):
    for name in ("make", "git"):
        (tmp_path / name).symlink_to("/bin/true")
    done = subprocess.run(
        [sys.executable, SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Tilewatch needs g++, missing here: run `{preflight.APT_LINE}` as root.\n"
