"""Ends of axes, whatever a document claims: they are numbers that can be drawn."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.trends.axes import round_down, round_up, value_axis
from tests.trends.gemms import gemm, store
from workers.bench.document import Readings


@given(values=st.lists(st.floats(min_value=0), min_size=1), is_share=st.booleans())
def test_an_axis_of_any_values_has_ends(values, is_share):
    axis = value_axis("Throughput", "TFLOP/s", values, is_share=is_share)
    assert 0 <= axis["min"] < axis["max"] < math.inf
    assert axis["type"] == "linear" or axis["min"] > 0


@given(number=st.floats(min_value=1e-9, max_value=1e20))
def test_ends_are_rounded_outwards_and_not_far(number):
    assert number * 0.5 <= round_down(number) <= number * (1 + 1e-6)
    assert number * (1 - 1e-6) <= round_up(number) <= number * 1.1


@pytest.mark.django_db
@pytest.mark.parametrize("view", ["batch", "versions", "time", "roofline"])
def test_a_page_draws_work_and_clocks_that_nothing_has(client, view):
    for flops, clock in ((5e-324, 1e5), (1e18, 5e-324), (0.0, 1.0)):
        store(_claims(flops, clock))
        for metric in ("tflops", "peak_measured"):
            assert client.get(f"/trends/?view={view}&metric={metric}").status_code == 200


def _claims(flops, clock):
    return dataclasses.replace(gemm(16, 20e-6), flops=flops, readings=Readings(sm_clock_mhz_median=clock))
