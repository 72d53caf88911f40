"""FlashInfer's tactics blocklist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchapp.ingest.importers.base import Claims, ImportFault
from benchapp.ingest.importers.flashinfer_blocklist import read
from tests.ingest.importers.files import METADATA, blocklist
from tests.ingest.importers.tactic_lists import lookup

GEMM2 = "trtllm::fused_moe::gemm2::MoERunner"


def written(tmp_path: Path, body: bytes) -> Path:
    path = tmp_path / "blocklist.json"
    path.write_bytes(body)
    return path


def test_listed_tactics_do_not_initialise(tmp_path: Path):
    body = blocklist({GEMM2: [15, 14, 15], "flashinfer::trtllm_fp4_block_scale_moe::MoERunner": [[8, 34]]})
    result = read(written(tmp_path, body), Claims(output="f16"), lookup)
    assert [(f.tile, f.fusion, f.stage, f.passed, f.reason, f.output) for f in result.findings] == [
        ((128, 256, 128), "finalize", "initialised", False, "init_failed", "f16"),
        ((256, 128, 128), "finalize", "initialised", False, "init_failed", "f16"),
    ]
    detail = result.findings[1].detail or ""
    assert "blocklist.json: invalid_tactics 'trtllm::fused_moe::gemm2::MoERunner' names tactic 15" in detail
    assert detail.endswith("Assumed, since the file does not tell: nvfp4xnvfp4.")
    assert result.notes == (
        "1 tactic of other operations (flashinfer::trtllm_fp4_block_scale_moe::MoERunner): not stored.",
    )


@pytest.mark.parametrize(
    ("invalid", "words"),
    [
        ({GEMM2: [99]}, "tactic 99 is out of range"),
        ({GEMM2: 15}, "expected a list"),
        ({GEMM2: [[1, 2]]}, "expected a number as a fused MoE tactic, found a list"),
        ({}, "names no fused MoE tactic"),
        ({"other::Runner": [1]}, "names no fused MoE tactic. 1 tactic of other operations (other::Runner)"),
        ([], "expected an object 'invalid_tactics'"),
    ],
)
def test_a_list_that_cannot_be_decoded_is_refused(tmp_path: Path, invalid: Any, words: str):
    with pytest.raises(ImportFault) as raised:
        read(written(tmp_path, blocklist(invalid)), Claims(), lookup)
    assert words in str(raised.value)


def test_input_types_that_the_survey_does_not_list_are_asked_for(tmp_path: Path):
    path = written(tmp_path, blocklist({GEMM2: [15]}))
    with pytest.raises(ImportFault, match="lists no tactics of bf16xbf16, only of nvfp4xnvfp4"):
        read(path, Claims(inputs="bf16xbf16"), lookup)


def test_a_wildcard_in_the_metadata_is_no_version(tmp_path: Path):
    path = written(tmp_path, blocklist({GEMM2: [15]}, {**METADATA, "flashinfer_version": "*"}))
    with pytest.raises(ImportFault, match="names no flashinfer version"):
        read(path, Claims(), lookup)
