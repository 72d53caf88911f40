"""FlashInfer's autotuner cache: what was chosen for which shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchapp.ingest.importers.base import Claims, Imported, ImportFault
from benchapp.ingest.importers.flashinfer_autotuner import read
from tests.ingest.importers.files import GPU, METADATA, autotuner, key, new_key
from tests.ingest.importers.tactic_lists import lookup

SAID = Claims(stack={"flashinfer": "0.6.3"}, arch="sm120", gpu="sm120")


def imported(tmp_path: Path, body: bytes, claims: Claims = SAID) -> Imported:
    path = tmp_path / "tuned.json"
    path.write_bytes(body)
    return read(path, claims, lookup)


def fault(tmp_path: Path, body: bytes, claims: Claims = SAID) -> str:
    with pytest.raises(ImportFault) as raised:
        imported(tmp_path, body, claims)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_choice_is_a_variant_that_ran_with_its_shapes_in_words(tmp_path: Path):
    result = imported(tmp_path, autotuner({key(2, 16): ["MoERunner", 15], key(2, 64): ["MoERunner", 15]}))
    (finding,) = result.findings
    assert (finding.tile, finding.fusion, finding.swap_ab) == ((256, 128, 128), "finalize", False)
    assert (finding.stage, finding.passed, finding.source) == ("ran", True, "imported")
    assert finding.chosen_for == "GEMM2 at 16, 64 tokens (hidden 6,144, 256 experts, FC1 4,096 wide)"
    assert "tuned.json" in (finding.detail or "")
    assert key(2, 16) in (finding.detail or "")
    assert "bf16 is assumed" in (finding.detail or "")
    assert (result.arch, result.stack["flashinfer"], result.stack["toolkit"]) == ("sm120", "0.6.3", "13.0")


def test_keys_of_four_fields_tell_the_output_type(tmp_path: Path):
    (finding,) = imported(
        tmp_path, autotuner({new_key(1, 1, output="torch.float16"): ["MoERunner", 3]})
    ).findings
    assert (finding.inputs, finding.output, finding.tile) == ("nvfp4xnvfp4", "f16", (256, 128, 128))
    assert "assumed" not in (finding.detail or "")
    assert (finding.chosen_for or "").startswith("GEMM1 at 1 token (")


def test_the_same_key_with_ranks_in_it_reads_the_same(tmp_path: Path):
    with_ranks = new_key().replace("8, 1, 1, 1, False", "8, 1, 0, 1, 0, 1, 0, False")
    (finding,) = imported(tmp_path, autotuner({with_ranks: ["MoERunner", 3]})).findings
    assert (finding.output, finding.tile) == ("bf16", (256, 128, 128))


def test_what_is_not_stored_is_counted_and_told(tmp_path: Path):
    result = imported(
        tmp_path,
        autotuner(
            {
                key(1): ["MoERunner", 0],
                key(1, 32): ["MoERunner", -1],
                key(1, 64, shapes="(({tokens}, 6144), (256, 4096, 6144), (0,), (256, 6144, 2048), (0,))"): [
                    "MoERunner",
                    1,
                ],
                new_key(2, 8, fused=False): ["MoERunner", 9],
                "('flashinfer::trtllm_fp4_block_scale_moe', 'MoERunner', ((1, 7168),))": [
                    "MoERunner",
                    [8, 34],
                ],
                "('fp4_gemm', 'CudnnFp4GemmRunner', ((4, 7168), ...))": ["CudnnFp4GemmRunner", 3],
                "_generation": "abc",
                "nonsense": ["MoERunner", 3],
            }
        ),
    )
    said = " ".join(result.notes)
    assert len(result.findings) == 1
    assert "1 entry not tuned (-1)" in said
    assert "1 entry whose key does not tell the input types" in said
    assert "1 entry tuned without fused finalize" in said
    assert "1 entry of unknown form" in said
    assert "2 entries of other operations (flashinfer::trtllm_fp4_block_scale_moe, fp4_gemm)" in said


@pytest.mark.parametrize(
    ("entries", "metadata", "words"),
    [
        ({key(1): ["MoERunner", 8]}, METADATA, "tactic 8 is out of range: GEMM1 of FlashInfer 0.6.3 on"),
        ({key(1): ["MoERunner", 8]}, METADATA, "sm120 has ids 0 to 7"),
        ({key(2): ["MoERunner", 24]}, METADATA, "has ids 8 to 23 for nvfp4xnvfp4"),
        (
            {key(1): ["MoERunner", 3]}, {**METADATA, "flashinfer_version": "0.6.8"},
            "_metadata says flashinfer 0.6.8, but --stack says 0.6.3",
        ),
        (
            {key(1): ["MoERunner", 3]}, {**METADATA, "gpu": "NVIDIA B200"},
            "_metadata says NVIDIA B200 (sm100), but --gpu says sm120",
        ),
        ({"('fp4_gemm', 'X', ((1, 2),))": ["X", 1]}, METADATA, "holds no choice of a fused MoE tactic"),
        ({}, METADATA, "holds no choice of a fused MoE tactic"),
        ({key(1): ["MoERunner", 10**30]}, METADATA, "is out of range"),
    ],
)  # fmt: skip
def test_a_file_at_odds_is_refused_in_one_sentence(
    tmp_path: Path, entries: dict[str, Any], metadata: dict[str, Any], words: str
):
    assert words in fault(tmp_path, autotuner(entries, metadata))


def test_a_version_that_was_never_surveyed_names_the_command(tmp_path: Path):
    body = autotuner({key(1): ["MoERunner", 3]}, {**METADATA, "flashinfer_version": "9.9.9"})
    said = fault(tmp_path, body, Claims())
    assert "manage.py survey --flashinfer 9.9.9 --arch sm120" in said


def test_a_file_without_metadata_needs_version_and_gpu(tmp_path: Path):
    body = autotuner({key(1): ["MoERunner", 3]}, None)
    assert "--stack flashinfer=VERSION" in fault(tmp_path, body, Claims())
    assert "--gpu" in fault(tmp_path, body, Claims(stack={"flashinfer": "0.6.3"}))
    assert len(imported(tmp_path, body).findings) == 1


def test_the_gpu_of_the_metadata_gives_the_architecture(tmp_path: Path):
    result = imported(tmp_path, autotuner({key(1): ["MoERunner", 3]}), Claims())
    assert result.arch == "sm120"
    assert GPU in (result.findings[0].detail or "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the file is empty"),
        (b'{"_metadata": {"flashinfer_version": "0.6.3"', "not whole JSON"),
        (b"[1, 2]", "expected a JSON object"),
        (b'{"a": 1, "a": 2}', "stands there twice"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "a number of 5,000 digits"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": 1\x00}', "NUL"),
        (b'{"_metadata": 3}', "_metadata: expected an object"),
    ],
)
def test_broken_json_is_refused_in_one_sentence(tmp_path: Path, body: bytes, words: str):
    assert words in fault(tmp_path, body)


def test_a_deep_key_is_counted_not_followed(tmp_path: Path):
    deep = f"('trtllm::fused_moe::gemm1', 'MoERunner', {'(' * 5000}{')' * 5000})"
    signs = f"('trtllm::fused_moe::gemm1', 'MoERunner', {'-' * 5000}1)"
    result = imported(
        tmp_path, autotuner({key(1): ["MoERunner", 0], deep: ["MoERunner", 1], signs: ["MoERunner", 1]})
    )
    assert "2 entries of unknown form" in result.notes[0]


def test_a_directory_is_no_file(tmp_path: Path):
    with pytest.raises(ImportFault, match="expected a file, found a directory"):
        read(tmp_path, SAID, lookup)
