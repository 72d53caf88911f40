"""cutlass_profiler's CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.ingest.importers import profiler_names
from benchapp.ingest.importers.base import Claims, Imported, ImportFault
from benchapp.ingest.importers.cutlass_profiler import read
from tests.ingest.importers.files import HEADER, operation, profiled
from tests.ingest.importers.tactic_lists import lookup

SAMPLE = (
    Path(__file__).parents[4]
    / "shared"
    / "samples"
    / "cutlass_profiler"
    / "cutlass_profiler_issue_fixture.csv"
)
SAID = Claims(stack={"cutlass": "4.2.1"})


def imported(tmp_path: Path, body: bytes, claims: Claims = SAID) -> Imported:
    path = tmp_path / "results.csv"
    path.write_bytes(body)
    return read(path, claims, lookup)


def fault(tmp_path: Path, body: bytes, claims: Claims = SAID) -> str:
    with pytest.raises(ImportFault) as raised:
        imported(tmp_path, body, claims)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_name_tells_tile_cluster_types_stages_and_schedule(tmp_path: Path):
    (finding,) = imported(
        tmp_path, profiled((operation("256x128x128", "cooperative_o_vs16"), "passed", "success"))
    ).findings
    assert (finding.family, finding.inputs, finding.output) == ("profiled_gemm", "nvfp4xnvfp4", "bf16")
    assert (finding.tile, finding.cluster, finding.schedule) == (
        (256, 128, 128),
        (1, 1, 1),
        "cooperative_o_vs16",
    )
    assert (finding.stage, finding.passed, finding.stages) == ("correct", True, None)


@pytest.mark.parametrize(
    ("name", "inputs", "output", "tile", "stages", "schedule"),
    [
        (
            "cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_tnn_align8_warpspecialized_pingpong_epi_tma",
            "f16xf16", "f16", (128, 128, 64), None, "ws_pingpong_epi_tma",
        ),
        (
            "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_64x128x64_1x1x1_4_nnn_align8",
            "bf16xbf16", "bf16", (64, 128, 64), 4, "nnn_auto",
        ),
        (
            "cutlass3x_sm120_bstensorop_gemm_ue8m0xe4m3_ue8m0xe2m1_f32_f16_f16_128x64x128_1x1x1_0_tnn_align128_cooperative_q",
            "mxfp8xmxfp4", "f16", (128, 64, 128), None, "cooperative_q",
        ),
    ],
)  # fmt: skip
def test_names_of_other_kinds(
    name: str, inputs: str, output: str, tile: tuple[int, int, int], stages: int | None, schedule: str
):
    found = profiler_names.parse(name)
    assert found is not None
    assert (found.inputs, found.output, found.tile, found.stages, found.schedule) == (
        inputs, output, tile, stages, schedule,
    )  # fmt: skip


def test_one_incorrect_problem_of_six_decides_whatever_its_status_and_speed(tmp_path: Path):
    rows = [(operation(), "passed", "success")] * 5 + [(operation(), "incorrect", "success")]
    (finding,) = imported(tmp_path, profiled(*rows)).findings
    assert (finding.stage, finding.passed, finding.reason) == ("correct", False, "incorrect")
    assert "line 7 problem 6: of its problems 1/6 incorrect, 5/6 verified correct" in (finding.detail or "")


@pytest.mark.parametrize(
    ("disposition", "status", "stage", "passed", "reason"),
    [
        ("passed", "success", "correct", True, None),
        ("not_verified", "success", "ran", True, None),
        ("failed", "success", "ran", False, "launch_failed"),
        ("failed", "internal", "initialised", False, "init_failed"),
        ("failed", "misaligned_operand", "initialised", False, "not_supported"),
        ("not_supported", "not_supported", "initialised", False, "not_supported"),
        ("Not Verified", "Success", "ran", True, None),
    ],
)
def test_each_disposition_stands_for_its_rung(
    tmp_path: Path, disposition: str, status: str, stage: str, passed: bool, reason: str | None
):
    (finding,) = imported(tmp_path, profiled((operation(), disposition, status))).findings
    assert (finding.stage, finding.passed, finding.reason) == (stage, passed, reason)


def test_what_says_nothing_is_counted_and_told(tmp_path: Path):
    result = imported(
        tmp_path,
        profiled(
            (operation(), "passed", "success"),
            (operation("128x128x256"), "not_run", "success"),
            (operation("128x128x256"), "invalid_problem", "invalid_problem"),
            (operation("128x128x256"), "dreamt", "success"),
            ("cutlass_tensorop_s16816gemm_f16_256x128_32x3_tn_align8", "passed", "success"),
        ),
    )
    assert len(result.findings) == 1
    said = " ".join(result.notes)
    assert "1 row not_run: not stored" in said
    assert "1 row invalid_problem: not stored" in said
    assert "1 row of unknown disposition" in said
    assert "1 row whose operation is no CUTLASS 3.x GEMM" in said
    assert said.endswith("Times of cutlass_profiler are not imported.")


def test_pivot_tags_and_missing_columns_do_not_matter(tmp_path: Path):
    body = f"Tag,Operation,Status,Disposition\nnightly,{operation()},success,passed\n".encode()
    assert imported(tmp_path, body).findings[0].stage == "correct"


def test_faults_are_one_sentence(tmp_path: Path):
    good = profiled((operation(), "passed", "success"))
    assert "--stack cutlass=VERSION" in fault(tmp_path, good, Claims())
    both_named = Claims(stack={"cutlass": "4.2.1", "flashinfer": "0.6.3"})
    assert "speaks of a CUTLASS release" in fault(tmp_path, good, both_named)
    assert "'four' is no version of cutlass" in fault(tmp_path, good, Claims(stack={"cutlass": "four"}))
    assert "built for sm120, but --gpu says sm90 (sm90)" in fault(
        tmp_path, good, Claims(stack={"cutlass": "4.2.1"}, gpu="sm90", arch="sm90")
    )
    assert fault(tmp_path, b"") == "the file is empty"
    assert "names no column Disposition, Status" in fault(tmp_path, b"Operation,x\n1,2\n")
    assert "NUL" in fault(tmp_path, HEADER.encode() + b"\n\x00")
    assert "holds no CUTLASS 3.x GEMM that was run" in fault(tmp_path, HEADER.encode())
    assert "is no CSV" in fault(tmp_path, HEADER.encode() + b'\n"' + b"x" * 2_000_000)
    both = profiled(
        (operation(), "passed", "success"), (operation().replace("sm120", "sm100"), "passed", "success")
    )
    assert "built for sm100, sm120: name one with --gpu" in fault(tmp_path, both)


def test_a_tag_of_cutlass_is_the_release_of_that_version(tmp_path: Path):
    good = profiled((operation(), "passed", "success"))
    assert imported(tmp_path, good, Claims(stack={"cutlass": "v4.2.1"})).stack == {"cutlass": "4.2.1"}


@pytest.mark.skipif(not SAMPLE.exists(), reason="needs the public sample beside the checkout")
def test_a_real_file_of_a_kernel_before_3x_is_told_and_not_stored():
    with pytest.raises(ImportFault, match=r"1 row whose operation is no CUTLASS 3\.x GEMM"):
        read(SAMPLE, SAID, lookup)
