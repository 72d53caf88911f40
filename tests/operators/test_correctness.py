"""What passes for a right product, and what must not."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.bench.operators.correctness import TOLERANCE

FORMATS = ["bf16", "fp16", "fp32", "fp8", "fp8_block", "mxfp8", "mxfp4", "nvfp4"]
FEW = settings(max_examples=15, deadline=None)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("m", [1, 400])
def test_a_product_rounded_once_is_right(torch_says, dtype, m):
    told = torch_says("judge", dtype=dtype, m=m, n=96, k=256, fault="none")
    assert told["passes"] and told["cosine"] > 0.99999 and told["nan_count"] == 0
    assert 0 < told["max_relative_error"] < told["tolerance"]
    assert told["elements"] == m * 96
    assert ("rows" in told["reference"]) == (m == 400)  # a part is said to be one


@pytest.mark.parametrize("dtype", FORMATS)
def test_an_output_of_zeros_is_incorrect(torch_says, dtype):
    told = torch_says("judge", dtype=dtype, m=17, n=96, k=256, fault="zeros")
    assert not told["passes"] and told["zero_count"] == told["elements"]


@FEW
@given(st.sampled_from(FORMATS), st.integers(1, 1500), st.data())
def test_one_row_of_zeros_is_found_wherever_it_lies(torch_says, dtype, m, data):
    row = data.draw(st.integers(0, m - 1))
    told = torch_says("judge", dtype=dtype, m=m, n=64, k=128, fault="zero_row", amount=row)
    assert not told["passes"] and told["zero_count"] >= 64


@FEW
@given(st.sampled_from(FORMATS), st.integers(1, 1000), st.integers(0, 10**6))
def test_one_nan_is_found_wherever_it_lies(torch_says, dtype, m, at):
    told = torch_says("judge", dtype=dtype, m=m, n=64, k=128, fault="nan", amount=at)
    assert not told["passes"] and told["nan_count"] == 1


@FEW
@given(st.sampled_from(FORMATS), st.floats(0.0, 0.99), st.integers(2, 300))
def test_another_product_is_incorrect_however_alike(torch_says, dtype, cosine, m):
    told = torch_says("judge", dtype=dtype, m=m, n=64, k=128, fault="cosine", amount=cosine)
    assert not told["passes"] and told["cosine"] < 0.999


@pytest.mark.parametrize("dtype", ["fp8", "fp8_block", "mxfp8"])
def test_one_eight_bit_format_taken_for_the_other_is_incorrect(torch_says, dtype):
    assert not torch_says("judge", dtype=dtype, m=32, n=64, k=256, fault="e5m2")["passes"]


@pytest.mark.parametrize("dtype", ["mxfp8", "mxfp4", "nvfp4"])
def test_scales_in_the_wrong_layout_are_incorrect(torch_says, dtype):
    """Random values have scales so alike that the cosine stays near 1: a limit of 0.97 would let it pass."""
    told = torch_says("judge", dtype=dtype, m=128, n=64, k=512, fault="unswizzled")
    assert not told["passes"] and told["cosine"] > 0.5


@FEW
@given(
    st.sampled_from(["bf16", "fp8_block", "nvfp4"]), st.integers(1, 6), st.integers(1, 300),
    st.sampled_from([1, 4, 128]),
)  # fmt: skip
def test_groups_are_compared_each_with_its_own_weight(torch_says, dtype, groups, m, align):
    told = torch_says("grouped", dtype=dtype, groups=groups, m=m, align=align, fault="none")
    assert told["passes"] and told["nan_count"] == 0  # rows between groups stay NaN and count for nothing
    assert told["elements"] == m * 128
    assert all(start % align == 0 for start in told["starts"]) and told["rows"] == told["starts"][-1]
    if groups > 1:
        assert not torch_says(
            "grouped", dtype=dtype, groups=groups, m=m, align=align, fault="other_weight"
        )["passes"]  # fmt: skip


@FEW
@given(st.integers(1, 6), st.integers(1, 500))
def test_the_scales_of_each_group_begin_where_the_kernel_looks(torch_says, groups, m):
    told = torch_says("scales_by_group", groups=groups, m=m, align=4)
    for group, (start, begins) in enumerate(zip(told["starts"], told["begins"], strict=False)):
        assert (start + group * 127) // 128 * 128 in begins


def test_the_docs_state_the_limits():
    text = (Path(__file__).resolve().parents[2] / "docs" / "gemm-bench.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z0-9_, ]+) \| (0\.\d+) \|$", text, re.M)
    assert {name: float(limit) for names, limit in rows for name in names.split(", ")} == TOLERANCE
