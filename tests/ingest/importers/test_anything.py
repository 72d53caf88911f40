"""Whatever a file holds, an importer gives a result or its own error."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.ingest.importers import (
    autotuner_keys,
    cutlass_profiler,
    flashinfer_autotuner,
    flashinfer_blocklist,
    flashinfer_cache,
    flashinfer_log,
    ninja,
    profiler_names,
)
from benchapp.ingest.importers.base import Claims, Importer, ImportFault, printable
from tests.ingest.importers.files import HEADER, METADATA, SHAPES, UNIT, autotuner, blocklist, key, skip, unit
from tests.ingest.importers.tactic_lists import lookup

CLAIMS = Claims(stack={"flashinfer": "0.6.3", "cutlass": "4.2.1"}, arch="sm120", gpu="sm120")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    st.sampled_from([key(1), key(2, 64), key(1, shapes=SHAPES.replace("3072", "x")), "_records"]) | st.text()
)
METADATAS = st.dictionaries(st.sampled_from(sorted(METADATA)), JSON, max_size=4)


def survives(importer: Importer, body: bytes, name: str = "file") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        try:
            result = importer.read(path, CLAIMS, lookup)
        except ImportFault as fault:
            assert str(fault)
            assert "\n" not in str(fault)
        else:
            assert result.findings


@pytest.mark.parametrize(
    "importer",
    [
        flashinfer_autotuner.IMPORTER,
        flashinfer_blocklist.IMPORTER,
        flashinfer_log.IMPORTER,
        cutlass_profiler.IMPORTER,
    ],
    ids=lambda importer: importer.name,
)
@settings(max_examples=40, deadline=None)
@given(body=st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes(importer: Importer, body: bytes):
    survives(importer, body)


@settings(max_examples=40, deadline=None)
@given(entries=st.dictionaries(KEYS, JSON, max_size=4), metadata=METADATAS)
def test_any_autotuner_cache(entries: dict[str, object], metadata: dict[str, object]):
    survives(flashinfer_autotuner.IMPORTER, autotuner(entries, metadata))


@settings(max_examples=40, deadline=None)
@given(
    invalid=st.dictionaries(st.sampled_from(["trtllm::fused_moe::gemm1::MoERunner", "x"]), JSON) | JSON,
    metadata=METADATAS,
)
def test_any_blocklist(invalid: dict[str, object], metadata: dict[str, object]):
    survives(flashinfer_blocklist.IMPORTER, blocklist(invalid, metadata))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.integers(-5, 10**12).map(skip) | st.text(max_size=60).map(lambda why: skip(3, why)), max_size=5
    )
)
def test_any_skipped_tactics(lines: list[str]):
    survives(flashinfer_log.IMPORTER, "\n".join(lines).encode("utf-8", "replace"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(max_size=20), max_size=6), max_size=5))
def test_any_rows_of_a_csv(rows: list[list[str]]):
    text = "\n".join([HEADER, *(",".join(row) for row in rows)])
    survives(cutlass_profiler.IMPORTER, text.encode("utf-8", "replace"))


@settings(max_examples=40, deadline=None)
@given(source=st.binary(max_size=200), log=st.binary(max_size=200))
def test_any_file_of_a_cache(source: bytes, log: bytes):
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder) / "0.6.3" / "120a" / "cached_ops"
        space.mkdir(parents=True)
        (space / f"{UNIT.format(m=128, group=0)}.cu").write_bytes(unit(128, 128, 128).encode())
        (space / f"{UNIT.format(m=64, group=0)}.cu").write_bytes(source)
        (space / ".ninja_log").write_bytes(b"# ninja log v6\n" + log)
        (space / f"{UNIT.format(m=128, group=0)}.cuda.o").write_bytes(b"o")
        assert len(flashinfer_cache.read(Path(folder), CLAIMS, lookup).findings) >= 4


@given(st.text(max_size=200))
def test_pure_parsers_take_any_text(text: str):
    autotuner_keys.parse(text)
    autotuner_keys.operation_of(text)
    profiler_names.parse(text)
    assert printable(text).isprintable()
    try:
        assert all(seconds >= 0 for _, seconds in ninja.durations(text))
    except ninja.NinjaFault as fault:
        assert str(fault)


@given(st.text(alphabet="()[]{},'-+~1 torch.uint8\\\n", max_size=300))
def test_a_key_is_never_evaluated_nor_followed_too_deep(text: str):
    autotuner_keys.parse(f"('trtllm::fused_moe::gemm1', 'MoERunner', {text})")


@given(
    st.tuples(*[st.integers(1, 512)] * 3),
    st.integers(0, 20),
    st.sampled_from(["", "_pingpong_o_vs16", "_warpspecialized_cooperative_epi_tma"]),
)
def test_a_name_says_back_what_it_was_made_of(tile: tuple[int, int, int], stages: int, schedule: str):
    shape = "x".join(map(str, tile))
    found = profiler_names.parse(
        f"cutlass3x_sm120_bstensorop_gemm_ue4m3xe2m1_ue4m3xe2m1_f32_void_bf16_{shape}_1x1x1_{stages}_tnn_align32{schedule}"
    )
    assert found is not None
    assert (found.tile, found.stages or 0, found.cluster) == (tile, stages, (1, 1, 1))
