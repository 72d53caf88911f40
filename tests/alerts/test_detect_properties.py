"""Whatever a series holds: detection answers, and its answers hang together."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.detectors.sets import gaussian
from benchapp.alerts.detect import detect
from benchapp.alerts.detection_split import optimal_partition, rank_sum

anything = st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=60)
levels = st.lists(
    st.tuples(st.integers(1, 25), st.sampled_from([1.0, 1.04, 1.5, 0.7])), min_size=1, max_size=4
)


def steps(drawn, seed: int) -> np.ndarray:
    values = np.concatenate([np.full(n, 10.0 * factor) for n, factor in drawn])
    return values * gaussian(np.random.default_rng(seed), len(values)) / 100


@settings(max_examples=80, deadline=None)
@given(anything)
def test_any_floats_are_answered(values):
    for change in detect(values):
        assert values[change.index] > 0
        assert change.low <= change.high
        assert 0 <= change.confidence <= 1


@settings(max_examples=60, deadline=None)
@given(levels, st.integers(0, 1000))
def test_changes_hang_together(drawn, seed):
    values = steps(drawn, seed)
    found = detect(values)
    bounds = [0, *(change.index for change in found), len(values)]
    assert bounds == sorted(set(bounds))
    for i, change in enumerate(found):
        before, after = values[bounds[i] : bounds[i + 1]], values[bounds[i + 1] : bounds[i + 2]]
        assert (change.n_before, change.n_after) == (len(before), len(after))
        assert change.before == pytest.approx(np.median(before))
        assert change.after == pytest.approx(np.median(after))
        assert change.low < change.ratio < change.high
        assert change.worse == (change.ratio > 1)


@settings(max_examples=40, deadline=None)
@given(levels, st.integers(0, 1000), st.integers(-40, 40))
def test_the_unit_changes_nothing_but_the_levels(drawn, seed, power):
    values = steps(drawn, seed)
    once, scaled = detect(values), detect(values * 10.0**power)
    assert [change.index for change in once] == [change.index for change in scaled]
    assert [change.ratio for change in once] == pytest.approx([change.ratio for change in scaled])


@settings(max_examples=40, deadline=None)
@given(levels, st.integers(0, 1000))
def test_the_other_direction_swaps_worse_and_nothing_else(drawn, seed):
    values = steps(drawn, seed)
    other = detect(values, lower_is_better=False)
    assert detect(values) == [dataclasses.replace(each, worse=not each.worse) for each in other]


@settings(max_examples=40, deadline=None)
@given(levels, st.integers(0, 1000), st.lists(st.integers(0, 60), max_size=8))
def test_missing_runs_move_indices_only(drawn, seed, holes):
    values = steps(drawn, seed).tolist()
    with_holes = list(values)
    for hole in holes:
        with_holes.insert(min(hole, len(with_holes)), None)
    where = [i for i, value in enumerate(with_holes) if value is not None]
    expected = [dataclasses.replace(each, index=where[each.index]) for each in detect(values)]
    assert detect(with_holes) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=5)
)
def test_rank_sums_are_those_of_all_orders(before, after):
    """Against every way to deal the ranks, where no two values are the same."""
    order = np.argsort(np.argsort(np.array(before + after), kind="stable")).astype(float)
    few, many = order[: len(before)], order[len(before) :]
    above = sum(float(a > b) for a in few for b in many)
    u = min(above, len(few) * len(many) - above)
    least = len(few) * (len(few) - 1) / 2
    dealt = [sum(chosen) - least for chosen in itertools.combinations(range(len(order)), len(few))]
    assert rank_sum(few, many) == pytest.approx(np.mean([each <= u for each in dealt]))


def test_large_rank_sums_meet_the_exact_ones():
    random = np.random.default_rng(1)
    few, many = random.random(20), random.random(60) + 0.25
    exact = rank_sum(few, many)
    normal = rank_sum(np.append(few, 0.5), many)
    assert normal == pytest.approx(exact, rel=0.9)


def test_a_partition_is_the_cheapest_there_is():
    """Against every partition of a short series."""
    values = np.array([1.0, 1.1, 0.9, 3.0, 3.1, 2.9, 3.2, 1.0, 1.1])
    penalty = 0.5

    def cost(cuts):
        bounds = [0, *cuts, len(values)]
        parts = [values[a:b] for a, b in itertools.pairwise(bounds)]
        return sum(((part - part.mean()) ** 2).sum() + penalty for part in parts)

    every = [cuts for k in range(4) for cuts in itertools.combinations(range(1, len(values)), k)]
    assert optimal_partition(values, penalty, shortest=1) == list(min(every, key=cost))
