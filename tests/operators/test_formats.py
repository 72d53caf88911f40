"""Number formats, against their definitions."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

#: E2M1 by its bits: codes 0 to 7
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
FINITE = st.floats(-1e4, 1e4, width=32)
FEW = settings(max_examples=40, deadline=None)


def nearest_e2m1(x: float) -> float:
    code = min(range(8), key=lambda code: (abs(E2M1[code] - abs(x)), code % 2))
    return math.copysign(E2M1[code], x)


def test_every_finite_e4m3_comes_back_as_the_code_it_was(torch_says):
    assert torch_says("every_e4m3") == [True] * 254


@FEW
@given(st.lists(FINITE, min_size=1, max_size=50))
def test_e4m3_saturates_and_is_within_half_a_step(torch_says, values):
    for x, held in zip(values, torch_says("e4m3", values=values), strict=True):
        if abs(x) >= 448:
            assert abs(held) == 448
        else:
            assert abs(held - x) <= max(abs(x) * 2**-4, 2**-10)


@FEW
@given(st.lists(FINITE, min_size=2, max_size=64).filter(lambda values: len(values) % 2 == 0))
def test_e2m1_is_the_nearest_and_of_two_as_near_the_even_one(torch_says, values):
    halves = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0]
    assert torch_says("e2m1", values=values + halves) == [nearest_e2m1(x) for x in values + halves]


@FEW
@given(st.lists(st.floats(2.0**-60, 2.0**60, width=32), min_size=1, max_size=30), st.sampled_from([2, 8]))
def test_e8m0_is_the_power_of_two_that_ocp_says(torch_says, values, emax):
    expected = [2.0 ** (math.frexp(x)[1] - 1 - emax) for x in values]
    assert torch_says("e8m0", values=values, emax=emax) == expected


@FEW
@given(
    st.sampled_from(["fp8", "fp8_block", "mxfp8", "mxfp4", "nvfp4"]),
    st.integers(1, 200), st.sampled_from([128, 384]), st.booleans(), st.sampled_from([1e-3, 1.0, 300.0]),
)  # fmt: skip
def test_quantised_values_stay_near_the_values_they_came_from(torch_says, dtype, rows, k, weight, size):
    told = torch_says("round_trip", dtype=dtype, rows=rows, k=k, weight=weight, size=size)
    # Half a step of E4M3 is 1/28 of the largest and of E2M1 1/6; MX scales, always rounded down, saturate
    # up to 1/8 (448 of 512) and 1/4 (6 of 8); nvfp4's own scales are rounded by up to 2^-4.
    of_block = {"mxfp8": 1 / 8, "mxfp4": 1 / 4, "nvfp4": 1 / 6 + 1 / 16}
    if dtype in of_block:
        assert told["of_block"] <= of_block[dtype]
    assert told["of_tensor"] <= of_block.get(dtype, 1 / 28)
    blocks = {"fp8": [], "fp8_block": [rows, k // 128], "mxfp8": [rows, k // 32], "mxfp4": [rows, k // 32]}
    expected = blocks.get(dtype, [rows, k // 16])
    if dtype == "fp8_block" and weight:
        expected = [math.ceil(rows / 128), k // 128]
    assert told["scales"] == expected


@FEW
@given(st.integers(1, 300), st.integers(1, 20))
def test_swizzled_scales_lie_where_cublas_says(torch_says, rows, columns):
    told = torch_says("swizzled", rows=rows, columns=columns)
    high, wide = math.ceil(rows / 128) * 128, math.ceil(columns / 4) * 4
    assert told["shape"] == [high, wide]
    expected = [0] * (high * wide)
    for row in range(rows):
        for column in range(columns):
            tile = (row // 128) * (wide // 4) + column // 4
            within = (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4
            expected[tile * 512 + within] = (row * columns + column) % 251 + 1
    assert told["flat"] == expected


@FEW
@given(st.integers(1, 40), st.integers(1, 9), st.sampled_from([1, 4]))
def test_column_major_scales_keep_their_values(torch_says, rows, columns, multiple):
    told = torch_says("column_major", rows=rows, columns=columns, multiple=multiple)
    assert told == {
        "equal": True, "shape": [rows, columns], "stride": [1, math.ceil(rows / multiple) * multiple]
    }  # fmt: skip
