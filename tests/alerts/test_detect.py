"""Steps of a series: real ones are found early, what merely looks like one is not, and doubt is told."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from bench.detectors.sets import GOAL_NULLS, drifting, gaussian, spikes, two_modes
from benchapp.alerts.detect import Change, detect, spread

ROOT = Path(__file__).parents[2]


def series(seed: int, *, draw=gaussian, n: int = 200, **steps: float) -> np.ndarray:
    """A seeded series; `at_150=1.05` multiplies it from point 150 on."""
    values = draw(np.random.default_rng(seed), n)
    for name, factor in steps.items():
        values[int(name.removeprefix("at_")) :] *= factor
    return values


def certain(changes: list[Change]) -> list[int]:
    return [change.index for change in changes if change.certain]


@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_a_step_of_five_percent_is_certain_six_points_later(factor):
    (change,) = detect(series(21, at_194=factor))
    assert change.index == 194
    assert change.certain
    assert change.worse == (factor > 1)
    assert (change.n_before, change.n_after) == (194, 6)
    assert change.low < factor < change.high
    assert change.ratio == pytest.approx(change.after / change.before)
    assert change.confidence > 0.99


def test_throughput_is_worse_when_it_falls():
    values = series(1, at_150=0.9)
    assert [change.worse for change in detect(values)] == [False]
    assert [change.worse for change in detect(values, lower_is_better=False)] == [True]


def test_a_step_that_recovered_stays_listed_with_both_edges():
    up, down = detect(series(2, at_100=1.08, at_110=1 / 1.08))
    assert (up.index, down.index) == (100, 110)
    assert up.worse and not down.worse
    assert up.certain and down.certain


def test_levels_are_those_of_the_segments_between_steps():
    first, second = detect(series(3, at_60=1.1, at_140=1.1))
    assert first.after == second.before == pytest.approx(110, rel=0.01)
    assert second.after == pytest.approx(121, rel=0.01)
    assert first.n_after == second.n_before == 80


@pytest.mark.parametrize("name", GOAL_NULLS)
def test_series_without_a_step_stay_silent(name):
    found = [certain(detect(series(seed, draw=GOAL_NULLS[name]))) for seed in range(60)]
    assert sum(map(len, found)) <= 3


def test_steps_of_five_percent_are_mostly_certain_three_points_later():
    found = [certain(detect(series(seed, at_197=1.05))) for seed in range(60)]
    assert sum(any(abs(at - 197) <= 3 for at in points) for points in found) >= 54


def test_a_step_within_what_a_case_moves_by_itself_is_none():
    """5 % is a step at 1 % of noise, and every second run of a machine with two modes."""
    assert certain(detect(series(4, at_190=1.05)))
    assert detect(series(4, draw=two_modes, at_190=1.05)) == []


def test_the_spread_of_a_series_can_be_overridden():
    values = series(5, at_190=1.05)
    assert certain(detect(values, spread=0.01)) == [190]
    assert detect(values, spread=0.1) == []


def test_a_step_under_the_smallest_effect_is_none():
    values = series(6, at_100=1.03)
    assert certain(detect(values))
    assert detect(values, min_effect=0.05) == []


def test_one_newest_point_far_outside_is_a_suspect_and_no_more():
    (change,) = detect(series(7, at_199=1.15))
    assert (change.index, change.certain, change.n_after) == (199, False, 1)
    assert change.confidence <= 0.5


def test_a_spike_in_the_past_is_no_change():
    values = series(8)
    values[120] *= 1.5
    assert detect(values) == []


def test_a_spike_like_those_before_is_no_suspect():
    values = series(9, draw=spikes)
    values[-1] = 114.0
    assert max(values[:-1]) > 114
    assert all(change.index != 199 for change in detect(values))


def test_with_little_history_a_step_stays_uncertain():
    values = series(10, n=60, at_6=1.3)
    (change,) = detect(values)
    assert (change.index, change.certain) == (6, False)
    assert certain(detect(values, minimum_history=5)) == [6]


def test_one_run_a_version_gives_suspects_only():
    """Sampling from logits, as recorded over five versions of FlashInfer: 10.31 ms became 5.93 ms."""
    (change,) = detect(
        [10.31, 10.29, 5.93, 5.95, 5.94], groups=["0.5.3", "0.6.3", "0.6.9", "0.6.13", "0.6.18"]
    )
    assert (change.index, change.certain, change.worse) == (2, False, False)
    (change,) = detect([10.31, 5.93])
    assert not change.certain
    assert change.ratio == pytest.approx(0.575, abs=0.001)


def test_versions_a_few_percent_apart_are_no_suspects():
    assert detect([10.0, 10.3, 9.8, 10.2, 10.1]) == []


def test_a_run_that_was_measured_badly_is_no_suspect():
    values = [10.0, 10.05, 9.95, 10.0, 13.0]
    steady = [[value * 0.999, value, value * 1.001] * 10 for value in values]
    assert [change.index for change in detect(values, steady)] == [4]
    assert detect(values, [*steady[:4], [8.0, 13.0, 20.0]]) == []


def test_a_step_that_could_lie_anywhere_lies_where_the_stack_changed():
    """Two points half-way between the levels leave the place open."""
    values = series(11, n=120, at_60=1.1)
    values[59:61] = values[:59].mean() * np.sqrt(1.1)
    for border in (59, 60, 61):
        groups = ["old"] * border + ["new"] * (120 - border)
        assert certain(detect(values, groups=groups)) == [border]


def test_a_change_of_stack_elsewhere_moves_nothing():
    values = series(12, n=120, at_60=1.1)
    assert certain(detect(values, groups=["old"] * 40 + ["new"] * 80)) == [60]


def test_missing_and_impossible_values_keep_the_indices():
    values = [None, *series(13, n=100, at_50=1.2)]
    values[20:20] = [float("nan"), 0.0, -5.0, float("inf")]
    (change,) = detect(values)
    assert change.index == 55
    assert (change.n_before, change.n_after) == (50, 50)


@pytest.mark.parametrize("values", [[], [5.0], [None, None], [float("nan")] * 30, [3.0] * 250, [0.0] * 50])
def test_nothing_to_compare_gives_nothing(values):
    assert detect(values) == []


def test_a_unit_that_changed_is_one_step():
    (change,) = detect(series(14, at_120=1000))
    assert (change.index, change.certain) == (120, True)
    assert change.ratio == pytest.approx(1000, rel=0.01)


def test_a_long_series_is_cut_in_windows_at_once_and_in_little_memory():
    values = series(15, n=5_000, at_1700=1.05, at_4001=0.9)
    tracemalloc.start()
    found = detect(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert certain(found) == [1700, 4001]
    assert peak < 40 * values.nbytes


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"samples": [[1.0]]}, "samples: expected one for each of 3 values, got 1"),
        ({"groups": ["a"]}, "groups: expected one for each of 3 values, got 1"),
        ({"minimum_history": 0}, "minimum_history: expected 1 or more, got 0"),
        ({"spread": 0.0}, "spread: expected a share between 0 and 1"),
        ({"min_effect": -0.1}, "min_effect: expected a share from 0 to 10"),
    ],
)
def test_what_cannot_be_is_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        detect([1.0, 2.0, 3.0], **wrong)


@pytest.mark.parametrize(("draw", "expected"), [(gaussian, 0.01), (two_modes, 0.055), (drifting, 0.01)])
def test_the_spread_shown_is_that_of_one_run(draw, expected):
    found = [spread(series(seed, draw=draw)) or 0 for seed in range(20)]
    assert np.median(found) == pytest.approx(expected, rel=0.35)


def test_steps_and_spikes_hardly_widen_the_spread():
    assert spread(series(16, at_100=2.0)) == pytest.approx(spread(series(16)), rel=0.1)
    assert spread(series(16, draw=spikes)) == pytest.approx(0.01, rel=0.35)
    assert spread([5.0]) is None


def test_the_module_loads_neither_django_nor_celery():
    code = (
        "import sys, benchapp.alerts.detect, benchapp.alerts.detection_csv; "
        "sys.exit(sorted({'django', 'celery', 'psycopg', 'scipy'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
