import zipfile
from pathlib import Path

import pytest

from workers.bench.document import BenchError
from workers.bench.tiles import archive


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    "member",
    ["../out.h", "/etc/out.h", "a/../../out.h", "a\\..\\out.h", link("a.h"), "x" * 300 + ".h"],
)
def test_paths_that_lead_outside_and_links_are_refused(tmp_path: Path, member: str | zipfile.ZipInfo) -> None:
    path = tmp_path / "bad.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("good.h", "x")
        wheel.writestr(member, "y")
    with pytest.raises(BenchError) as caught:
        archive.unpack(path, tmp_path / "into", lambda name: True)
    assert caught.value.code == "broken_wheel"
    assert not list(tmp_path.glob("out*")) and not Path("/etc/out.h").exists()


def test_a_file_where_a_folder_must_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a", "x")
        wheel.writestr("a/b", "y")
    with pytest.raises(BenchError, match="no file can have"):
        archive.unpack(path, tmp_path / "into", lambda name: True)


@pytest.mark.parametrize("cut", [0, 1, 100, 5_000])
def test_truncated_wheels_are_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a.h", bytes(10_000))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BenchError, match="not a whole wheel"):
        archive.unpack(path, tmp_path / "into", lambda name: True)


def test_a_name_that_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("é.h", "x")
    path.write_bytes(path.read_bytes().replace("é.h".encode(), b"\xff\xfe.h"))
    with pytest.raises(BenchError, match="not a whole wheel"):
        archive.unpack(path, tmp_path / "into", lambda name: True)


def test_damaged_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a.h", b"A" * 10_000)
    path.write_bytes(path.read_bytes().replace(b"AAAA", b"AABA", 1))
    with pytest.raises(BenchError, match="not a whole wheel"):
        archive.unpack(path, tmp_path / "into", lambda name: True)


def test_only_what_is_wanted_is_written(tmp_path: Path) -> None:
    path = tmp_path / "good.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a/b.h", "x")
        wheel.writestr("a/c.cu", "y")
    digests = archive.unpack(path, tmp_path / "into", lambda name: name.endswith(".h"))
    assert list(digests) == ["a/b.h"]
    assert [p.name for p in (tmp_path / "into").rglob("*") if p.is_file()] == ["b.h"]
