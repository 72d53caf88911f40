"""What a lock says of a recipe that mixes an old library with newer parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers import lockfile

GOT = {"nvidia-cutlass-dsl": "4.8.1", "apache-tvm-ffi": "0.1.15", "numpy": "2.4.6", "cuda-tile": "1.7.0"}


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("nvidia-cutlass-dsl>=4.2.1", "flashinfer 0.5.3 asks for nvidia-cutlass-dsl>=4.2.1 and got 4.8.1"),
        ("apache_tvm_ffi<0.2,>=0.1", "flashinfer 0.5.3 asks for apache_tvm_ffi<0.2,>=0.1 and got 0.1.15"),
        ("nvidia-cutlass-dsl>=4.8.1", ""),
        ("nvidia-cutlass-dsl==4.8.1", ""),
        ("numpy", ""),
        ('nvidia-cutlass-dsl>=4.2.1; extra == "cu12"', ""),
        ('cuda-tile>=1.4; python_version < "3"', ""),
        ("absent>=1", ""),
        ("no requirement at all", ""),
    ],
)
def test_a_requirement_open_above_says_what_it_got(requirement: str, said: str):
    assert lockfile.mixed("flashinfer 0.5.3", [requirement], GOT) == ([said] if said else [])


_RELEASE = st.tuples(*[st.integers(0, 30)] * 3)


@given(_RELEASE, _RELEASE)
def test_a_sentence_is_said_exactly_where_the_version_is_above_the_floor(
    floor: tuple[int, ...], got: tuple[int, ...]
):
    asked, found = (".".join(map(str, each)) for each in (floor, got))
    assert bool(lockfile.mixed("x", [f"dsl>={asked}"], {"dsl": found})) == (got > floor)


def test_of_an_index_only_its_host_is_kept(tmp_path: Path):
    report = tmp_path / "report.json"
    url = "https://reader:secret@index.example/a/Some_Thing-1.0%2Bcpu-py3-none-any.whl"
    item = {
        "metadata": {"name": "Some_Thing", "version": "1.0+cpu"},
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": "0" * 64}}},
    }
    report.write_text(json.dumps({"install": [item]}))
    assert lockfile.wheels([report]) == {
        "some-thing": {
            "wheel": "Some_Thing-1.0+cpu-py3-none-any.whl",
            "sha256": "0" * 64,
            "from": "index.example",
        }
    }
