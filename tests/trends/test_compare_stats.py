"""What a pair of times says."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.trends import compare_stats as stats
from workers.bench.timing import median_interval, median_noise

times = st.floats(1e-6, 1e-2)
OPPOSITE = {"better": "worse", "worse": "better", "same": "same", "uncertain": "uncertain"}


@st.composite
def estimates(draw):
    median = draw(times)
    below, above = draw(st.floats(0, 0.1)), draw(st.floats(0, 0.1))
    return stats.Estimate(median, median * (1 - below), median * (1 + above), draw(st.booleans()))


def steady(median, *, repeated=False):
    return stats.Estimate(median, median * 0.999, median * 1.001, repeated)


@given(estimates(), estimates())
def test_swapping_the_sides_swaps_better_and_worse_alone(before, after):
    verdict, ratio = stats.judge(before, after)
    swapped, back = stats.judge(after, before)
    at_an_edge = any(
        math.isclose(end, edge, rel_tol=1e-9)
        for end in (ratio.low, ratio.high, 1 / ratio.low, 1 / ratio.high)
        for floor in (0.0, max(stats.MARGIN, stats.timer_floor(before, after)))
        for edge in (1 + floor, 1 + stats.MARGIN, 1 + stats.MARGIN + floor)
    )
    assert at_an_edge or swapped == OPPOSITE[verdict]
    assert back.value == pytest.approx(1 / ratio.value) and back.low == pytest.approx(1 / ratio.high)


@given(times, times)
def test_single_values_swap_too(before, after):
    assert stats.judge_single(after, before) == OPPOSITE[stats.judge_single(before, after)]


@given(estimates(), estimates(), st.sampled_from([2.0**e for e in range(-6, 7)]))
def test_a_verdict_on_repeated_times_does_not_depend_on_their_unit(before, after, scale):
    def scaled(one):
        return stats.Estimate(one.median * scale, one.low * scale, one.high * scale, repeated=True)

    assert stats.judge(scaled(before), scaled(after)) == stats.judge(
        stats.Estimate(before.median, before.low, before.high, True),
        stats.Estimate(after.median, after.low, after.high, True),
    )


@given(st.lists(times, min_size=1, max_size=60))
def test_the_interval_is_the_one_that_the_bench_samples_by(samples):
    interval, noise = median_interval(samples), median_noise(samples)
    assert (interval is None) == math.isinf(noise) == (len(samples) < stats.FEWEST_SAMPLES)
    if interval is not None:
        low, high = interval
        assert low <= statistics.median(samples) <= high
        assert (high - low) / 2 / statistics.median(samples) == pytest.approx(noise)


@given(st.lists(times, min_size=8, max_size=20), st.lists(times, min_size=2, max_size=5))
def test_an_interval_holds_what_processes_and_runs_gave(samples, medians):
    alone = stats.estimate(samples)
    for widened in (stats.estimate(samples, medians), stats.estimate(samples, (), medians)):
        assert widened.low == min(alone.low, *medians) and widened.high == max(alone.high, *medians)
        assert widened.repeated and not alone.repeated


@pytest.mark.parametrize(
    "after, repeated, verdict",
    [
        (1.010, True, "same"), (1.030, True, "worse"), (0.960, True, "better"), (1.0195, True, "uncertain"),
        (1.010, False, "same"), (1.030, False, "uncertain"), (1.045, False, "worse"), (0.94, False, "better"),
    ],
)  # fmt: skip
def test_margins_of_long_kernels(after, repeated, verdict):
    before = steady(1e-3, repeated=repeated)
    assert stats.judge(before, steady(1e-3 * after, repeated=repeated))[0] == verdict


def test_short_kernels_differ_only_beyond_what_timers_agree_to():
    assert stats.judge(steady(3e-6), steady(3.2e-6))[0] == "same"  # 7 %, and 0.2 µs
    assert stats.judge(steady(3e-6), steady(3.33e-6))[0] == "uncertain"
    assert stats.judge(steady(3e-6), steady(3.5e-6))[0] == "worse"
    assert stats.judge(steady(3e-6, repeated=True), steady(3.2e-6, repeated=True))[0] == "worse"


@pytest.mark.parametrize(
    "before, after, verdict",
    [
        ([79e-6], [239e-6], "uncertain"),
        ([79e-6, 80e-6], [239e-6, 238e-6, 240e-6], "uncertain"),
        ([79e-6, 81e-6, 150e-6], [239e-6, 140e-6, 240e-6], "uncertain"),
        ([79e-6, 80e-6, 90e-6], [239e-6, 238e-6, 240e-6], "worse"),
        ([239e-6, 238e-6, 240e-6], [79e-6, 80e-6, 90e-6], "better"),
        ([80e-6, 80.1e-6, 80.2e-6], [80e-6, 80.1e-6, 80.3e-6], "same"),
    ],
)
def test_host_time_needs_processes_that_lie_apart(before, after, verdict):
    assert stats.judge_host(before, after) == verdict
