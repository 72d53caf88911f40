import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.tiles import probe_lines
from workers.bench.tiles.probe_lines import Kernel

KEYS = (
    *("a", "b", "sf", "output", "finalize", "swap", "m", "n", "k", "cm", "cn", "ck", "stages", "threads"),
    *("need", "smem_a", "smem_b", "smem_sfa", "smem_sfb", "mainloop", "epilogue", "pipelines"),
    *("scheduler", "tensormaps", "carveout", "arch", "blocks", "nosmem"),
)
VALUES = dict.fromkeys(KEYS, 1) | {
    "a": 2, "b": 1, "sf": 6, "output": 4, "finalize": 0, "swap": 0, "m": 128, "n": 64, "k": 256,
    "need": 1000, "smem_a": 400, "smem_b": 200, "smem_sfa": 40, "smem_sfb": 20, "mainloop": 660,
    "epilogue": 100, "pipelines": 50, "scheduler": 0, "tensormaps": 90,
    "arch": 120, "nosmem": 0,
}  # fmt: skip


def line(**changes: int) -> str:
    return "\t// tilewatch " + " ".join(f"{k}={v}" for k, v in (VALUES | changes).items())


def test_a_line_is_read_whole() -> None:
    (kernel,) = probe_lines.parse(f".visible .entry k(\n{line()}\n\tret;\n")
    assert (kernel.inputs, kernel.output, kernel.tile) == ("mxfp8xmxfp4", "bf16", (128, 64, 256))
    assert (kernel.fusion, kernel.swap_ab, kernel.need_bytes) == ("none", False, 1000)
    assert kernel.parts == {
        "operand_a": 400, "operand_b": 200, "scales_a": 40, "scales_b": 20,
        "epilogue": 100, "pipelines": 50, "tensor_maps": 90, "padding": 100,
    }  # fmt: skip


def test_swapped_operands_are_told_as_activation_and_weight() -> None:
    (kernel,) = probe_lines.parse(line(a=1, b=2, swap=1))
    assert (kernel.inputs, kernel.swap_ab) == ("mxfp8xmxfp4", True)


def test_two_blocks_of_sm100_that_share_a_tile_are_told_as_the_generator_does() -> None:
    (kernel,) = probe_lines.parse(line(arch=100, m=256, blocks=2, cm=0, cn=0, ck=0))
    assert (kernel.tile[0], kernel.cluster, kernel.schedule) == (128, (2, 1, 1), "tma_dynamic")
    (kernel,) = probe_lines.parse(line(arch=100, nosmem=1))
    assert kernel.schedule == "nosmem"


def test_three_k_tiles_of_sm103_are_one_of_its_launcher() -> None:
    (kernel,) = probe_lines.parse(line(arch=103, k=768))
    assert (kernel.tile[2], kernel.schedule) == (256, "sm103_tma")


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        ({"a": 2, "b": 2, "sf": 0}, "fp8xfp8"),
        ({"a": 2, "b": 2, "sf": 6}, "mxfp8xmxfp8"),
        ({"a": 4, "b": 4, "sf": 0}, "bf16xbf16"),
        ({"a": 1, "b": 1, "sf": 5}, "nvfp4xnvfp4"),
    ],
)
def test_input_types_are_named_by_elements_and_scales(changes: dict[str, int], inputs: str) -> None:
    assert [kernel.inputs for kernel in probe_lines.parse(line(**changes))] == [inputs]


def test_unknown_elements_are_not_taken_for_known_ones() -> None:
    (kernel,) = probe_lines.parse(line(a=99, sf=0))
    assert kernel.inputs == "unknownxe2m1"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks need"):
        probe_lines.parse(line().replace(" need=1000", ""))


SIZES = {key: st.integers(0, 200_000) for key in KEYS}


@given(st.fixed_dictionaries(SIZES | {"blocks": st.integers(1, 2)}))
def test_parts_always_sum_to_the_need(values: dict[str, int]) -> None:
    (kernel,) = probe_lines.parse(line(**values))
    assert sum(kernel.parts.values()) == kernel.need_bytes
    assert all(size >= 0 for size in kernel.parts.values())
    assert Kernel.from_json(json.loads(json.dumps(dataclasses.asdict(kernel)))) == kernel


@given(st.text())
def test_any_ptx_parses(text: str) -> None:
    assert probe_lines.parse(text) == []
