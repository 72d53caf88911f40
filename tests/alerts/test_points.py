"""The order of a series' observations, and the steps in it; no database."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.alerts import importance
from benchapp.alerts.points import Point, in_order, stack_order, stacks_in_order
from benchapp.alerts.stepping import seen_side_by_side, steps
from tests.alerts.nights import FIRST, noisy

#: A machine with other work on it draws slowly, which is no fault.
calmly = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
STACKS = {
    1: {"flashinfer": "0.5.3", "torch": "2.11.0"},
    2: {"flashinfer": "0.6.3", "torch": "2.11.0"},
    3: {"flashinfer": "0.6.9", "torch": "2.11.0"},
    4: {"flashinfer": "0.6.18.post1", "torch": "2.11.0"},
    5: {"flashinfer": "0.6.18.post1", "torch": "2.12.0"},
}


def point(day: float, stack: int, median: float = 1e-3, *, doubtful: bool = False, number: int = 0) -> Point:
    at = FIRST + dt.timedelta(days=day)
    return Point(at, number or int(day * 100) + 1, None, 1, stack, median, doubtful, False)


def order(*points: tuple[float, int]) -> list[tuple[float, int]]:
    found = in_order([point(day, stack) for day, stack in points], STACKS)
    return [((p.at - FIRST) / dt.timedelta(days=1), p.stack_id) for p in found]


def test_upgrades_and_nights_are_ordered_by_time():
    assert order((3, 4), (1, 2), (2, 3), (4, 4)) == [(1, 2), (2, 3), (3, 4), (4, 4)]


def test_a_backfill_is_ordered_by_version_and_by_time_within_one():
    assert order((1, 1), (2, 4), (3, 2), (4, 3), (5, 4)) == [(1, 1), (3, 2), (4, 3), (2, 4), (5, 4)]


def test_below_its_own_library_a_stack_is_ordered_by_what_lies_under_it():
    assert order((1, 5), (2, 4), (3, 5)) == [(2, 4), (1, 5), (3, 5)]
    assert stack_order({"flashinfer": "0.6.9"}) < stack_order({"flashinfer": "0.6.10"})
    assert stack_order({"torch": "2.9"}) != stack_order({"vllm": "main"})


def test_a_component_that_only_some_stacks_name_puts_none_before_another():
    stacks = {1: {"flashinfer": "0.6.9", "driver": "580"}, 2: STACKS[3] | {"cudnn": "9.1", "driver": "580"}}
    for old, new in ((1, 2), (2, 1)):
        found = in_order([point(1, old), point(2, new)], stacks)
        assert [p.stack_id for p in found] == [old, new]
    rolled_back = in_order([point(1, 1), point(2, 2)], stacks | {1: stacks[1] | {"driver": "590"}})
    assert [p.stack_id for p in rolled_back] == [2, 1]


def test_of_doubled_moments_the_one_taken_in_last_counts():
    found = in_order(
        [point(1, 2, 5e-3, number=7), point(1, 2, 6e-3, number=9), point(1, 3, number=8)], STACKS
    )
    assert [(p.stack_id, p.median) for p in found] == [(3, 1e-3), (2, 6e-3)] or [
        (p.stack_id, p.median) for p in found
    ] == [(2, 6e-3), (3, 1e-3)]


@calmly
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(sorted(STACKS))), max_size=30))
def test_nothing_is_lost_and_each_stack_stays_in_time(drawn):
    points = [point(day, stack) for day, stack in drawn]
    found = in_order(points, STACKS)
    assert {(p.at, p.stack_id) for p in found} == {(p.at, p.stack_id) for p in points}
    for stack in STACKS:
        times = [p.at for p in found if p.stack_id == stack]
        assert times == sorted(times)
    if found:
        assert stacks_in_order(found)[0] == found[0].stack_id


def test_each_upgrade_of_a_series_with_a_run_a_version_is_judged_by_itself():
    """Sampling on an H200, in ms: two of three upgrades made it faster."""
    points = [point(day, day + 1, ms) for day, ms in enumerate([10.311, 5.933, 5.887, 1.911])]
    found = steps(points, spread=None)
    assert [step.index for step in found] == [1, 3]
    assert [step.ratio for step in found] == pytest.approx([0.575, 0.325], rel=0.01)
    assert not any(step.certain or step.worse for step in found)


def test_a_machine_that_slowed_while_two_stacks_took_turns_is_no_upgrade():
    levels = {day: 1e-3 if day < 12 else 1.3e-3 for day in range(24)}
    turns = [
        point(day + stack / 10, stack, noisy(levels[day], (day, stack))) for day in levels for stack in (2, 3)
    ]
    points = in_order(turns, STACKS)
    found = steps(points, spread=None)
    assert len(found) == 2, "each stack slowed once"
    assert all(points[step.index - 1].stack_id == points[step.index].stack_id for step in found)
    assert not seen_side_by_side(points, 24, 1 / 1.3)


def test_an_upgrade_that_is_slower_in_the_same_days_is_seen():
    turns = [
        point(day + stack / 10, stack, noisy(1e-3 if stack == 2 else 1.3e-3, (day, stack)))
        for day in range(12)
        for stack in (2, 3)
    ]
    (step,) = steps(in_order(turns, STACKS), spread=None)
    assert (step.index, step.worse) == (12, True)


def test_a_step_into_doubtful_points_alone_is_not_certain():
    calm = [point(day, 2, noisy(1e-3, day)) for day in range(12)]
    for doubtful in (False, True):
        later = [point(day, 3, noisy(1.2e-3, day), doubtful=doubtful) for day in range(12, 18)]
        (step,) = steps([*calm, *later], spread=None)
        assert step.certain is not doubtful


@pytest.mark.parametrize("values", [[], [1e-3], [1e-3] * 30, [0.0, 1e-3], [float("nan"), 1e-3, 1e-3]])
def test_nothing_is_found_where_there_is_nothing(values):
    assert steps([point(day, 2, value) for day, value in enumerate(values)], spread=None) == []


# -- importance -------------------------------------------------------------------------------------------


def test_whole_models_weigh_more_than_kernels_and_those_more_than_ceilings():
    model = importance.weight("decode", {"model": "GLM-5"}, 0.02)
    product = {"m": 16, "n": 4096, "k": 7168, "dtype": "bf16", "layout": "nt"}
    kernel = importance.weight("gemm", product, 2e-5)
    assert model > kernel > importance.weight("copy", {"bytes": 1}, 1e-3)
    assert importance.weight("gemm", {"m": 16}, 1e-5) == importance.KERNEL, (
        "an imported case may lack its sizes"
    )


def test_a_kernel_weighs_by_the_time_that_a_decode_step_spends_in_it():
    norm = {"tokens": 64, "hidden": 4096, "dtype": "bf16"}
    weights = [importance.weight("rmsnorm", norm, seconds) for seconds in (1e-7, 1e-5, 1.0)]
    assert weights == sorted(weights)
    assert weights[-1] in (1.0, 3.0)


def test_together_more_series_weigh_more():
    assert importance.together([2.0] * 10) == pytest.approx(4.0)
    assert importance.together([]) == 0
