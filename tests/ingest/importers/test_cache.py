"""A FlashInfer cache directory: candidates, and what was really compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchapp.ingest.importers.base import Claims, Imported, ImportFault
from benchapp.ingest.importers.flashinfer_cache import read
from tests.ingest.importers.files import UNIT, cache, unit
from tests.ingest.importers.tactic_lists import lookup


def imported(path: Path, claims: Claims | None = None) -> Imported:
    return read(path, claims or Claims(), lookup)


def fault(path: Path, claims: Claims | None = None) -> str:
    with pytest.raises(ImportFault) as raised:
        imported(path, claims)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def counts(result: Imported) -> dict[str, int]:
    found: dict[str, int] = {}
    for finding in result.findings:
        assert finding.passed
        assert finding.source == "imported"
        found[finding.stage] = found.get(finding.stage, 0) + 1
    return found


@pytest.mark.parametrize("prefix", ["", "120_"], ids=["named after the source", "with its folder before it"])
def test_objects_that_ninja_finished_are_compiled_with_their_wall_seconds(tmp_path: Path, prefix: str):
    result = imported(cache(tmp_path, prefix=prefix))
    assert counts(result) == {"candidate": 8, "compiled": 4}
    compiled = [finding for finding in result.findings if finding.stage == "compiled"]
    assert {finding.tile for finding in compiled} == {(128, 128, 128)}
    assert all(f.tier == "full" and f.cpu_seconds is None and f.object_bytes == 400 for f in compiled)
    assert "built in 41.2 s of wall time (.ninja_log), an object of 400 bytes" in (compiled[0].detail or "")
    assert "M128_BS_group0.generated.cu line 4" in (compiled[0].detail or "")
    assert (result.arch, result.stack) == ("sm120", {"flashinfer": "0.6.3"})


def test_generated_sources_alone_make_candidates_and_the_notes_say_so(tmp_path: Path):
    result = imported(cache(tmp_path) / "generated")
    assert counts(result) == {"candidate": 8}
    assert result.notes[0] == (
        "Generated sources are what FlashInfer searches, not what survives: of 2 sources 0 were compiled."
    )


def test_an_object_that_ninja_does_not_call_finished_is_not_compiled(tmp_path: Path):
    space = cache(tmp_path)
    (space / "cached_ops" / ".ninja_log").unlink()
    result = imported(space)
    assert counts(result) == {"candidate": 8}
    assert "2 objects that .ninja_log does not call finished" in " ".join(result.notes)


def test_a_ninja_log_of_unknown_version_proves_nothing_and_is_named(tmp_path: Path):
    space = cache(tmp_path)
    (space / "cached_ops" / ".ninja_log").write_text("# ninja log v99\n1\t2\t3\tx\ty\n")
    result = imported(space)
    assert counts(result) == {"candidate": 8}
    assert "expected a header of version 5, 6, 7" in " ".join(result.notes)


def test_the_whole_cache_or_any_folder_on_the_way_may_be_named(tmp_path: Path):
    cache(tmp_path)
    for path in (tmp_path, tmp_path / ".cache", tmp_path / ".cache" / "flashinfer" / "0.6.3"):
        assert imported(path).findings[0].tile == (128, 128, 128)


def test_sources_of_the_package_need_their_version(tmp_path: Path):
    folder = (
        tmp_path / "csrc" / "nv_internal" / "tensorrt_llm" / "cutlass_instantiations" / "120" / "gemm_grouped"
    )
    folder.mkdir(parents=True)
    (folder / f"{UNIT.format(m=256, group=0)}.cu").write_text(unit(256, 128, 128))
    assert "--stack flashinfer=VERSION" in fault(tmp_path)
    result = imported(tmp_path, Claims(stack={"flashinfer": "0.5.2"}))
    assert (result.arch, counts(result)) == ("sm120", {"candidate": 4})


def test_an_old_cache_without_sources_says_what_is_missing(tmp_path: Path):
    space = cache(tmp_path, "0.5.2")
    for source in space.rglob("*.cu"):
        source.unlink()
    assert "the objects' sources are not in this cache" in fault(space)


def test_path_and_person_at_odds_are_refused(tmp_path: Path):
    space = cache(tmp_path)
    assert fault(space, Claims(stack={"flashinfer": "0.5.2"})) == (
        "the path says flashinfer 0.6.3, but --stack says 0.5.2"
    )
    assert "(sm120), but --gpu says sm121" in fault(space, Claims(gpu="sm121", arch="sm121"))


def test_several_caches_are_not_mixed(tmp_path: Path):
    cache(tmp_path, "0.6.3")
    cache(tmp_path, "0.6.7")
    assert "holds several caches (0.6.3/sm120, 0.6.7/sm120)" in fault(tmp_path)


def test_a_cache_built_for_two_architectures_asks_for_one(tmp_path: Path):
    space = cache(tmp_path, arch="100a_120a")
    assert fault(space) == "was built for sm100, sm120: name one with --gpu"
    assert imported(space, Claims(gpu="sm120", arch="sm120")).arch == "sm120"


def test_unknown_layouts_files_and_missing_paths_are_one_sentence(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    assert "a layout unknown here" in fault(tmp_path / "empty")
    assert "expected a directory" in fault(tmp_path / "file")
    assert fault(tmp_path / "missing") == "No such file or directory"
    assert "no path" in fault(tmp_path / "nul\x00byte")


def test_links_are_never_followed(tmp_path: Path):
    space = cache(tmp_path)
    (space / "generated" / "loop").symlink_to(space)
    (space / "cached_ops" / "away").symlink_to("/")
    source = space / "generated" / "cutlass_instantiations" / f"{UNIT.format(m=64, group=9)}.cu"
    source.symlink_to("/etc/passwd")
    result = imported(space)
    assert counts(result) == {"candidate": 8, "compiled": 4}
    assert "3 symbolic links not followed." in result.notes


def test_a_link_to_itself_is_no_directory(tmp_path: Path):
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert "symbolic links" in fault(tmp_path / "self")


def test_what_cannot_be_read_is_named_and_the_rest_kept(tmp_path: Path):
    space = cache(tmp_path)
    folder = next(space.rglob("*M128*.cu")).parent
    os.mkfifo(folder / f"{UNIT.format(m=512, group=0)}.cu")
    (folder / f"{UNIT.format(m=64, group=1)}.cu").write_text("/* never closed " * 1000)
    (folder / f"{UNIT.format(m=64, group=2)}.cu").write_bytes(b"x" * 2_000_000)
    (folder / f"{UNIT.format(m=64, group=3)}.cu").write_text(unit(64, 32, 128).replace("32", "9" * 5000))
    (folder / f"{UNIT.format(m=64, group=4)}.cu").write_bytes(b"\xff\x00")
    result = imported(space)
    assert counts(result) == {"candidate": 8, "compiled": 4}
    said = " ".join(result.notes)
    assert "M64_BS_group1.generated.cu (a comment does not end)" in said
    assert "M64_BS_group2.generated.cu (larger than 1,048,576 bytes" in said
    assert "M64_BS_group3.generated.cu (Exceeds the limit" in said
    assert "1 generated source of other architectures or input types" in said


def test_markup_in_a_file_name_stays_text(tmp_path: Path):
    space = cache(tmp_path)
    folder = space / "generated" / "<script>alert(1)<"
    folder.mkdir()
    next(space.rglob("*M128*.cu")).rename(folder / f"{UNIT.format(m=128, group=0)}.cu")
    details = [finding.detail for finding in imported(space).findings]
    assert any("generated/<script>alert(1)</" in (detail or "") for detail in details)


def test_thousands_of_files_are_read_and_more_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    space = cache(tmp_path)
    many = space / "cached_ops" / "many"
    many.mkdir()
    for number in range(3_000):
        (many / f"{number}.o").touch()
    assert counts(imported(space)) == {"candidate": 8, "compiled": 4}
    monkeypatch.setattr("benchapp.ingest.importers.cache_tree.MOST_ENTRIES", 1_000)
    assert "holds more than 1,000 files" in fault(space)
