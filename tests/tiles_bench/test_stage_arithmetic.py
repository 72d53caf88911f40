"""CUTLASS's own stage count, against what compilers said of shipped kernels and what must always hold."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.tiles import arches, stage_arithmetic
from workers.bench.tiles.probe_lines import Kernel

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "sm120_grouped_smem_0.6.3.csv"
CAPACITY = 101_376
BASE: dict[str, Any] = {
    "cutlass": "4.2.1",
    "inputs": "nvfp4xnvfp4",
    "tile": (128, 256, 128),
    "epilogue_bytes": 17_408,
    "capacity_bytes": CAPACITY,
    "arch": "sm120",
}
VERSIONS = st.sampled_from(["4.2.1", "4.4.2", "4.5.0"])
INPUTS = st.sampled_from(["nvfp4xnvfp4", "mxfp8xmxfp4"])
TILES = st.tuples(*[st.integers(1, 4).map(lambda blocks: blocks * 128)] * 3)


def predict(**changes: Any) -> stage_arithmetic.Prediction:
    found = stage_arithmetic.predict(**{**BASE, **changes})
    assert found is not None
    return found


# CUTLASS, inputs, tile, carveout, stages: as nvcc reported them of FlashInfer 0.6.3 and 0.7.4
COMPILED = [
    ("4.2.1", "nvfp4xnvfp4", (128, 256, 128), 17_408, 3),
    ("4.2.1", "nvfp4xnvfp4", (128, 256, 128), 18_432, 2),
    ("4.5.0", "nvfp4xnvfp4", (128, 256, 128), 18_432, 2),
    ("4.5.0", "nvfp4xnvfp4", (128, 32, 128), 13_312, 7),
    ("4.5.0", "nvfp4xnvfp4", (128, 32, 128), 14_336, 6),
    ("4.5.0", "nvfp4xnvfp4", (128, 64, 256), 14_336, 3),
    ("4.5.0", "nvfp4xnvfp4", (128, 64, 256), 17_408, 2),
    ("4.5.0", "mxfp8xmxfp4", (128, 32, 128), 13_312, 4),
    ("4.5.0", "mxfp8xmxfp4", (128, 32, 128), 17_408, 3),
]


@pytest.mark.parametrize(("cutlass", "inputs", "tile", "carveout", "stages"), COMPILED)
def test_the_stages_of_shipped_kernels(
    cutlass: str, inputs: str, tile: tuple[int, int, int], carveout: int, stages: int
) -> None:
    assert predict(cutlass=cutlass, inputs=inputs, tile=tile, epilogue_bytes=carveout).stages == stages


def test_every_stage_count_of_0_6_3() -> None:
    if not FACTS.is_file():
        pytest.skip("the facts, ../shared/facts/sm120_grouped_smem_0.6.3.csv, are not on this machine")
    with FACTS.open(newline="") as source:
        for row in csv.DictReader(source):
            found = predict(
                cutlass=row["cutlass"],
                inputs=row["inputs"],
                tile=tuple(int(extent) for extent in row["tile_mnk_elems"].split("x")),
                epilogue_bytes=int(row["epilogue_bytes"]),
            )
            assert found.stages == int(row["stages"])
            padding = int(row["shared_storage_bytes"]) - found.need_bytes
            assert 0 < padding <= 2048, "what alignment adds in 4.2, where nothing is reserved"


def test_the_overflow_of_0_6_3_was_promised_to_fit() -> None:
    found = predict()
    # 8,192 + 16,384 of operands, 1,024 + 2,048 of scales, 16 of barriers
    assert found == stage_arithmetic.Prediction(stages=3, stage_bytes=27_664, need_bytes=100_400)
    assert found.need_bytes <= CAPACITY < 102_400


def test_later_versions_reserve_first() -> None:
    grouped, dense = (predict(cutlass="4.5.0", grouped=kind) for kind in (True, False))
    assert grouped.need_bytes - dense.need_bytes == 432 - 96
    assert grouped.stage_bytes == 27_776


@pytest.mark.parametrize(
    "changes",
    [
        {"cutlass": "4.3.5"},
        {"cutlass": "4.20.1"},
        {"cutlass": "of no known version"},
        {"inputs": "bf16xbf16"},
        {"arch": "sm90"},
        {"tile": (64, 128, 128)},
        {"tile": (128, 32, 128)},  # 4.2 divides N by 128 and gets no scales at all
        {"tile": (128, 128, 96)},
        {"tile": (128, 128, 64), "inputs": "mxfp8xmxfp4"},
        {"tile": (0, 128, 128)},
    ],
)
def test_nothing_is_said_where_the_rule_is_unknown(changes: dict[str, Any]) -> None:
    assert stage_arithmetic.predict(**{**BASE, **changes}) is None


@given(VERSIONS, INPUTS, TILES, st.integers(0, 300_000), st.integers(0, 300_000), st.integers(0, 100_000))
def test_more_room_never_means_fewer_stages(
    cutlass: str, inputs: str, tile: tuple[int, int, int], epilogue: int, capacity: int, more: int
) -> None:
    given_ = {"cutlass": cutlass, "inputs": inputs, "tile": tile}
    less = predict(**given_, epilogue_bytes=epilogue, capacity_bytes=capacity)
    roomier = predict(**given_, epilogue_bytes=epilogue, capacity_bytes=capacity + more)
    fatter = predict(**given_, epilogue_bytes=epilogue + more, capacity_bytes=capacity)
    assert fatter.stages <= less.stages <= roomier.stages
    assert less.stage_bytes == roomier.stage_bytes > 0
    assert less.stages == 0 or less.need_bytes <= capacity < less.need_bytes + less.stage_bytes


@given(VERSIONS, INPUTS, TILES)
def test_m_and_n_may_change_places(cutlass: str, inputs: str, tile: tuple[int, int, int]) -> None:
    m, n, k = tile
    assert predict(cutlass=cutlass, inputs=inputs, tile=tile) == predict(
        cutlass=cutlass, inputs=inputs, tile=(n, m, k)
    )


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=8))
def test_any_text_gives_an_answer_or_none(cutlass: str, inputs: str, arch: str) -> None:
    stage_arithmetic.predict(**{**BASE, "cutlass": cutlass, "inputs": inputs, "arch": arch})


def test_a_kernel_tells_its_own_carveout() -> None:
    fields: dict[str, Any] = dict.fromkeys(Kernel.__dataclass_fields__)
    fields |= {"inputs": "nvfp4xnvfp4", "tile": (128, 256, 128), "line": "epilogue=16896 carveout=17408"}
    kernel, silent = Kernel(**fields), Kernel(**fields | {"line": "epilogue=16896"})
    arch = arches.find("sm120")
    found = stage_arithmetic.of_kernel(kernel, cutlass="4.2.1", arch=arch)
    assert found == predict()
    assert stage_arithmetic.of_kernel(silent, cutlass="4.2.1", arch=arch) is None
