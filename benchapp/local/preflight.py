"""Does this machine have what `make setup` needs? Plain Python, old ones too, before any environment exists.

    python3 benchapp/local/preflight.py

Prints one sentence and exits 1 where something is missing.
"""

import importlib.util
import platform
import shutil
import sys
from typing import List, Tuple  # noqa: UP035 - must run on Pythons that it refuses

NEEDED_PYTHON = (3, 11)
APT_LINE = "apt-get install -y make python3-venv g++ git"


def complaint(version: Tuple[int, ...], missing: List[str]) -> str:  # noqa: UP006
    """The sentence for a Python of `version` and `missing` Debian packages; empty where all is well."""
    if version < NEEDED_PYTHON:
        found = ".".join(map(str, version))
        return f"Tilewatch needs Python 3.11 or newer and this is {found}: try `make run PYTHON=python3.11`."
    if missing:
        return f"Tilewatch needs {' and '.join(missing)}, missing here: run `{APT_LINE}` as root."
    return ""


def missing_packages() -> List[str]:  # noqa: UP006
    """Debian names of the packages that are missing."""
    missing = [name for name in ("make", "g++", "git") if not shutil.which(name)]
    # Debian's python3 has `venv` without `ensurepip`, which then fails half way.
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        missing.append("python3-venv")
    return missing


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit(f"Tilewatch runs on Linux, and this is {platform.system()}.")
    sentence = complaint(sys.version_info[:3], missing_packages())
    if sentence:
        sys.exit(sentence)
