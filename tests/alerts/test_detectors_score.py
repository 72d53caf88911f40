"""What the bench of detectors counts, and the bounds it gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.detectors.child import DETECTORS as CALLS
from bench.detectors.peers import DETECTORS, HERE, OURS
from bench.detectors.score import hit, points_per_series, poisson_upper, share, strays
from bench.detectors.sets import GOAL_NULLS, LENGTH, STEPS, recorded


def test_bounds_are_the_textbook_ones():
    assert poisson_upper(0) == pytest.approx(2.996, abs=0.001)
    assert poisson_upper(10) == pytest.approx(16.962, abs=0.001)
    assert share(95, 100) == pytest.approx((0.95, 0.8999), abs=0.002)
    assert share(0, 50)[1] == 0


def test_points_that_come_in_pairs_have_a_wider_bound():
    one_by_one, in_pairs = [1] * 20 + [0] * 80, [2] * 10 + [0] * 90
    assert points_per_series(one_by_one)[0] == points_per_series(in_pairs)[0] == 0.2
    assert points_per_series(in_pairs)[1] > points_per_series(one_by_one)[1]


def test_a_hit_needs_a_point_near_every_step():
    assert hit([97, 140], [100]) and not hit([96], [100])
    assert not hit([100], [100, 110]) and hit([101, 112], [100, 110])
    assert strays([97, 140, 5], [100]) == 2


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_steps_are_where_the_sets_say(step):
    drawn = step.series(np.random.default_rng(1), LENGTH)
    without = step.draw(np.random.default_rng(1), LENGTH)
    moved = np.flatnonzero(np.diff((drawn / without).round(9))) + 1
    assert moved.tolist() == step.at()


def test_null_sets_are_as_noisy_as_the_goals_say():
    spread = {name: np.std(draw(np.random.default_rng(1), 20_000)) for name, draw in GOAL_NULLS.items()}
    assert list(spread.values()) == pytest.approx([1.0, 5.7, 2.75, 1.0], rel=0.1)


def test_every_detector_can_be_called_and_its_environment_is_pinned():
    assert {each.name for each in DETECTORS} == set(CALLS)
    for each in DETECTORS:
        if each != OURS:
            lines = (HERE / "requirements" / f"{each.environment}.txt").read_text().splitlines()
            assert all("==" in line for line in lines if not line.startswith("#"))


def test_recorded_series_are_read_where_they_are(tmp_path):
    assert list(recorded(tmp_path)) == []
    (tmp_path / "real_series.json").write_text(json.dumps([1.0, 2.0]))
    assert [series for _, series in recorded(tmp_path)] == [[[1.0, 2.0]]]
