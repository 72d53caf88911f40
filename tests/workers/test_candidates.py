"""A candidate as pip installs it: under a version of its own, that its environment tells."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from workers.candidates import for_pip
from workers.failure import Failure

VERSION = "0.7.0+candidate.1a2b3c4d5e6f"


def wheel(path: Path, *, without: str = "") -> Path:
    """What a build backend makes of a package of one module."""
    about = "flashinfer_python-0.7.0.dist-info"
    files = {
        "flashinfer/__init__.py": '__version__ = "0.7.0"\n',
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: flashinfer-python\nVersion: 0.7.0\n\nVersion: 1\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(body.encode()).digest()).decode().rstrip('=')},"
        for name, body in files.items()
    ]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(path, "w") as members:
        for name, body in files.items():
            if not without or not name.endswith(without):
                members.writestr(name, body)
    return path


def test_pip_installs_it_under_its_own_version(tmp_path):
    made = for_pip(wheel(tmp_path / "abc.whl"), VERSION, tmp_path / "links")
    assert made.name == f"flashinfer_python-{VERSION}-py2.py3-none-any.whl"
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-input", "--disable-pip-version-check"]
    links = ["--find-links", str(made.parent), "--target", str(target)]
    subprocess.run([*pip, *links, f"flashinfer-python=={VERSION}"], check=True, capture_output=True)
    told = "import importlib.metadata as m, flashinfer; print(m.version('flashinfer-python'))"
    said = subprocess.run(
        [sys.executable, "-c", told],
        env={"PYTHONPATH": str(target)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == VERSION
    found = next(target.glob("*.dist-info/METADATA")).read_text()
    assert found.endswith("\n\nVersion: 1\n"), "only the header is another one"


@pytest.mark.parametrize("without", ["WHEEL", "RECORD", "METADATA"])
def test_sources_alone_are_refused_with_what_to_do(tmp_path, without):
    with pytest.raises(Failure, match="its wheel must be registered"):
        for_pip(wheel(tmp_path / "abc.whl", without=without), VERSION, tmp_path / "links")


def test_what_is_no_wheel_is_refused(tmp_path):
    (tmp_path / "abc.whl").write_bytes(b"no zip")
    with pytest.raises(Failure, match="cannot be read"):
        for_pip(tmp_path / "abc.whl", VERSION, tmp_path / "links")
    assert not (tmp_path / "links").exists()


@pytest.mark.parametrize(
    "old, new",
    [
        ("Tag: py2-none-any", "Tag: ../../../x-none-any"),
        ("Tag: py2-none-any", "Tag: py2-none-any-more"),
        ("flashinfer_python-0.7.0.dist-info/METADATA", "../../x-0.7.0.dist-info/METADATA"),
        ("flashinfer_python-0.7.0.dist-info/METADATA", "a b-0.7.0.dist-info/METADATA"),
    ],
)
def test_no_word_of_a_wheel_leads_out_of_its_folder(tmp_path, old, new):
    whole = wheel(tmp_path / "abc.whl")
    hostile = tmp_path / "hostile.whl"
    about, other = (name.rpartition("/")[0] for name in (old, new))
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(hostile, "w") as target:
        for name in source.namelist():
            text = source.read(name).decode().replace(old, new)
            target.writestr(name.replace(about, other) if about else name, text)
    folder = tmp_path / "a" / "b" / "links"
    try:
        made = for_pip(hostile, VERSION, folder)
    except Failure as failure:
        assert "cannot be read" in failure.sentence
    else:
        assert made.name == f"flashinfer_python-{VERSION}-py3-none-any.whl"
    outside = {path for path in tmp_path.rglob("*.whl") if folder not in path.parents}
    assert outside == {whole, hostile}


def test_a_packed_member_that_cannot_be_unpacked_is_told(tmp_path):
    body = bytearray(wheel(tmp_path / "abc.whl").read_bytes())
    for at in [match.start() for match in re.finditer(b"PK\x01\x02", body)]:
        body[at + 8] |= 1  # packed with a password, it says
    (tmp_path / "abc.whl").write_bytes(body)
    with pytest.raises(Failure, match="cannot be read"):
        for_pip(tmp_path / "abc.whl", VERSION, tmp_path / "links")
