"""Trends and siblings: the arithmetic of drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.kinds import drift_stats

FEW = settings(max_examples=40, deadline=None)
levels = st.dictionaries(st.integers(0, 30).map(str), st.floats(1e-6, 1.0), max_size=10)


@FEW
@given(levels, st.floats(1e-3, 1e3))
def test_siblings_are_judged_alike_in_any_unit_and_the_fastest_is_never_slow(of, unit):
    found = drift_stats.slower_than_siblings(of)
    again = drift_stats.slower_than_siblings({name: level * unit for name, level in of.items()})
    for name, ratio in found.items():
        assert ratio > 1 + drift_stats.LEAST and of[name] > min(of.values())
        assert name not in again or again[name] == pytest.approx(ratio)
    if len(of) < 3:
        assert not found


@FEW
@given(st.integers(3, 12), st.floats(1.08, 3.0), st.floats(1e-6, 1.0))
def test_one_slow_gpu_among_equal_ones_is_found_alone(many, slower, level):
    gpus = {str(i): level for i in range(many)} | {"slow": level * slower}
    assert set(drift_stats.slower_than_siblings(gpus)) == {"slow"}


values = st.lists(st.floats(1e-6, 1e-1), min_size=14, max_size=40)


@FEW
@given(values, st.floats(1e-3, 1e3))
def test_a_trend_has_no_unit_and_lies_in_its_interval(of, unit):
    days = list(range(len(of)))
    found = drift_stats.trend(days, of)
    assert found.low <= found.ratio * (1 + 1e-9) and found.ratio <= found.high * (1 + 1e-9)
    scaled = drift_stats.trend([day + 20_000.25 for day in days], [each * unit for each in of])
    assert scaled.ratio == pytest.approx(found.ratio) and scaled.low == pytest.approx(found.low)


@FEW
@given(st.floats(0.001, 0.02), st.integers(14, 60))
def test_steady_growth_is_found_with_its_size_and_shrinking_never(growth, many):
    grown = [(1 + growth) ** day for day in range(many)]
    found = drift_stats.trend(range(many), grown)
    assert found.ratio == pytest.approx((1 + growth) ** (many - 1))
    assert found.is_drift == (found.low > 1.02)
    assert not drift_stats.trend(range(many), grown[::-1]).is_drift


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_noise_hardly_ever_drifts(rho):
    """1 % a night, and neighbours that resemble each other: at most 1 series of 100."""
    generator = np.random.default_rng(7)
    drifts = 0
    for _ in range(200):
        level, logs = 0.0, []
        for step in generator.normal(0, 0.01 * math.sqrt(1 - rho**2), 45):
            level = rho * level + step
            logs.append(level)
        drifts += drift_stats.trend(range(45), np.exp(logs).tolist()).is_drift
    assert drifts <= 2


@pytest.mark.parametrize(("days", "many"), [(range(13), 13), ([i / 10 for i in range(40)], 40), ([], 0)])
def test_too_few_nights_show_no_trend(days, many):
    assert drift_stats.trend(days, [1.0] * many) is None
