"""Server logs: tactics that failed while the autotuner tried them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from benchapp.ingest.importers.base import Claims, Imported, ImportFault
from benchapp.ingest.importers.flashinfer_log import read
from tests.ingest.importers.files import INIT, RUNNER, TRACE, skip
from tests.ingest.importers.tactic_lists import lookup

SAID = Claims(stack={"flashinfer": "0.5.2"}, arch="sm120", gpu="sm120")


def imported(tmp_path: Path, lines: list[str] | bytes, claims: Claims = SAID) -> Imported:
    path = tmp_path / "server.log"
    path.write_bytes(lines if isinstance(lines, bytes) else "\n".join([*lines, ""]).encode())
    return read(path, claims, lookup)


def fault(tmp_path: Path, lines: list[str] | bytes, claims: Claims = SAID) -> str:
    with pytest.raises(ImportFault) as raised:
        imported(tmp_path, lines, claims)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_tactic_15_of_0_5_2_is_the_large_tile_with_finalize_and_without_swap(tmp_path: Path):
    result = imported(tmp_path, ["INFO up", skip(15), TRACE.format(version="0.5.2", arch="120a")], Claims())
    (finding,) = result.findings
    assert (finding.tile, finding.fusion, finding.swap_ab) == ((256, 128, 128), "finalize", False)
    assert (finding.stage, finding.passed, finding.reason) == ("initialised", False, "init_failed")
    assert "server.log line 2: tactic 15 (GEMM2 256x128x128 FINALIZE no swap)" in (finding.detail or "")
    assert "Assumed, since a log does not tell: nvfp4xnvfp4, output bf16" in (finding.detail or "")
    assert (result.arch, result.stack) == ("sm120", {"flashinfer": "0.5.2"})
    assert result.excerpt.startswith("line 2: ")
    assert INIT in result.excerpt


def test_repeated_lines_are_one_finding_with_their_count(tmp_path: Path):
    result = imported(tmp_path, [skip(15), skip(14), skip(15), skip(15)])
    assert [f.detail.split(":")[0] for f in result.findings if f.detail] == [
        "server.log line 1 and 2 more lines",
        "server.log line 2",
    ]


def test_colours_carriage_returns_and_bytes_that_are_no_utf8_do_not_hide_a_line(tmp_path: Path):
    line = (
        skip(15).replace("[Autotuner]", "\x1b[1;33m[Autotuner]\x1b[0m").replace("tactic", "tactic").encode()
    )
    result = imported(tmp_path, b"\xff\xfe\x00\x00 junk\r\n" + line + b"\xff\x00\r\n")
    assert result.findings[0].tile == (256, 128, 128)
    assert result.excerpt.isprintable()


@pytest.mark.parametrize(
    ("why", "stage", "reason"),
    [
        (
            "Assertion failed: Failed to run cutlass TMA WS grouped gemm. Error: Error Internal",
            "ran",
            "launch_failed",
        ),
        (
            "Grouped GEMM kernel will fail for params. Error: Misaligned Operand",
            "initialised",
            "not_supported",
        ),
        ("Unsupported tile shape config 128256 for MoE gemm.", "dispatched", "no_dispatch"),
    ],
)
def test_each_message_stands_for_its_rung(tmp_path: Path, why: str, stage: str, reason: str):
    (finding,) = imported(tmp_path, [skip(3, why)]).findings
    assert (finding.stage, finding.reason) == (stage, reason)


def test_wordings_of_other_versions_are_known(tmp_path: Path):
    debug = (
        f"[Autotuner]: Failed when profiling {RUNNER} 15, shapes=[torch.Size([16])]. Error occurred: {INIT}"
    )
    ranking = f"[Autotuner]: Skipping tactic {RUNNER} 14 while ranking trtllm::fused_moe::gemm2: {INIT}"
    assert [f.tile for f in imported(tmp_path, [debug, ranking]).findings] == [
        (256, 128, 128),
        (128, 256, 128),
    ]


def test_what_says_nothing_of_a_tile_is_counted_and_told(tmp_path: Path):
    other = RUNNER.replace("get_cutlass_fused_moe_module", "get_trtllm_moe_sm100_module")
    lost = "CUDA error: an illegal instruction was encountered"
    result = imported(
        tmp_path,
        [
            skip(15),
            skip("[8, 34]", runner=other),
            skip(3, "out of coffee"),
            skip(2, lost),
            skip(14),
            skip(-1),
        ],
    )
    assert len(result.findings) == 1
    said = " ".join(result.notes)
    assert "1 failed tactic of other runners" in said
    assert "2 failed tactics whose message says nothing certain of the tile" in said
    assert "1 failed tactic after the CUDA error at line 4, which may be its consequence" in said


def test_a_log_that_only_counts_says_how_to_get_the_names(tmp_path: Path):
    said = fault(
        tmp_path, ["[Autotuner]: Skipped 20 unsupported tactic(s) for trtllm::fused_moe::gemm1 (enable"]
    )
    assert "20 skipped tactics only counted in the log: FlashInfer names them with" in said


def test_log_and_claimed_version_at_odds_name_both(tmp_path: Path):
    said = fault(tmp_path, [skip(15), "INFO FlashInfer version: 0.6.3"])
    assert said == "the log at line 2 says flashinfer 0.6.3, but --stack says 0.5.2"


@pytest.mark.parametrize(
    "line",
    [
        "flashinfer-python==0.5.2",
        "FlashInfer version: 0.5.2",
        '"flashinfer_version": "0.5.2",',
        TRACE.format(version="0.5.2", arch="120a"),
    ],
)
def test_the_log_may_name_its_version_itself(tmp_path: Path, line: str):
    result = imported(tmp_path, [line, skip(15)], Claims(arch="sm120", gpu="sm120"))
    assert result.stack == {"flashinfer": "0.5.2"}


def test_other_faults_are_one_sentence(tmp_path: Path):
    assert "several FlashInfer versions (0.5.2 at line 1, 0.6.3 at line 2)" in fault(
        tmp_path, ["flashinfer==0.5.2", "flashinfer==0.6.3", skip(15)]
    )
    assert "line 1: tactic 99 is out of range: FlashInfer 0.5.2 on sm120 has ids 0 to 23" in fault(
        tmp_path, [skip(99)]
    )
    assert "names no flashinfer version" in fault(tmp_path, [skip(15)], Claims(arch="sm120", gpu="sm120"))
    assert "names no architecture" in fault(tmp_path, [skip(15)], Claims(stack={"flashinfer": "0.5.2"}))
    assert "(sm121), but --gpu says sm120" in fault(
        tmp_path, [skip(15), TRACE.format(version="0.5.2", arch="121a")]
    )
    assert fault(tmp_path, ["nothing here"]) == "names no fused MoE tactic that failed"
    assert fault(tmp_path, b"") == "the file is empty"
    with pytest.raises(ImportFault, match="found a directory"):
        read(tmp_path, SAID, lookup)


def test_a_large_log_with_endless_lines_is_read_in_little_memory(tmp_path: Path):
    path = tmp_path / "huge.log"
    filler = (
        b"INFO 02-03 04:05:06 [loggers.py:127] Engine 000: Avg prompt throughput: 12.3 tokens/s\n" * 10_000
    )
    with path.open("wb") as out:
        for _ in range(17):
            out.write(filler)
        out.write(b"x" * 15_000_000 + skip(15).encode() + b"y" * 1_000_000 + b"\n")
        out.write(skip(14).encode() + b"\n")
    tracemalloc.start()
    result = read(path, SAID, lookup)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 30_000_000
    assert [f.detail.split(":")[0] for f in result.findings if f.detail] == [
        "huge.log line 170,001",
        "huge.log line 170,002",
    ]
    assert peak < 8_000_000


@pytest.mark.parametrize("before", range(1_048_576 - 400, 1_048_576 + 10, 37))
def test_a_line_longer_than_a_block_is_counted_once_wherever_it_is_cut(tmp_path: Path, before: int):
    result = imported(
        tmp_path, b"x" * before + skip(15).encode() + b"z" * 1_100_000 + b"\n" + skip(14).encode()
    )
    assert [f.detail.split(":")[0] for f in result.findings if f.detail] == [
        "server.log line 1",
        "server.log line 2",
    ]
