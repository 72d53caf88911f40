import math
import random
import statistics

import pytest

from workers.bench import timing
from workers.bench.document import SAMPLE_CAP


def test_summary_of_known_samples():
    found = timing.summarise([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (found.n, found.median, found.q1, found.q3, found.min) == (5, 3.0, 2.0, 4.0, 1.0)
    assert timing.summarise([7.0]).q3 == 7.0
    with pytest.raises(ValueError, match="no samples"):
        timing.summarise([])


def test_noise_is_unknown_until_ranks_exist_and_then_half_the_interval():
    assert timing.median_noise([1.0] * 5) == math.inf
    assert timing.median_noise([1.0] * 20) == 0
    samples = [float(value) for value in range(100, 200)]
    # n = 100: ranks 40 and 61, counted from 1.
    assert timing.median_noise(samples) == pytest.approx((160 - 139) / 2 / 149.5)
    assert timing.median_noise([0.0] * 100) == math.inf


def test_the_interval_holds_the_true_median_about_19_times_in_20():
    draw = random.Random(7)
    held, rounds, n = 0, 2000, 60
    for _ in range(rounds):
        samples = [draw.lognormvariate(0, 0.5) for _ in range(n)]
        ordered = sorted(samples)
        reach = 0.98 * math.sqrt(n)
        low, high = ordered[math.floor(n / 2 - reach) - 1], ordered[math.ceil(n / 2 + 1 + reach) - 1]
        assert timing.median_noise(samples) == (high - low) / 2 / statistics.median(samples)
        held += low <= 1.0 <= high
    assert 0.94 <= held / rounds <= 0.99


class Clock:
    """A clock that each sample moves on."""

    def __init__(self, durations):
        self.now = 0.0
        self.durations = durations

    def take(self):
        duration = next(self.durations)
        self.now += duration
        return timing.Batch([duration])


def sample(durations, **limits):
    clock = Clock(durations)
    window = timing.sample_until_quiet(clock.take, clock=lambda: clock.now, **limits)
    assert window.discarded == 0
    return window.samples


def steady():
    while True:
        yield 0.001


def noisy():
    draw = random.Random(1)
    while True:
        yield draw.uniform(0.001, 0.1)


def test_a_quiet_timer_stops_early_and_a_noisy_one_at_its_cap():
    assert len(sample(steady(), at_most_s=10)) == timing.MIN_SAMPLES
    taken = sample(noisy(), at_most_s=2)
    assert 30 <= len(taken) <= 60 and timing.is_short(taken)


def test_at_least_one_sample_is_taken_and_never_more_than_the_cap():
    assert sample(iter([5.0]), at_most_s=1) == [5.0]
    assert len(sample(noisy(), at_most_s=1e9)) == SAMPLE_CAP
    assert len(sample(steady(), at_most_s=10, at_least_s=0.5)) == pytest.approx(500, abs=10)


def test_more_samples_than_the_cap_are_thinned_out_over_the_whole_window():
    clock = Clock(steady())
    batches = iter(range(10**6))

    def take():
        clock.take()
        return timing.Batch([float(next(batches) + 1)] * 100)

    window = timing.sample_until_quiet(take, at_most_s=10, at_least_s=0.1, clock=lambda: clock.now)
    assert len(window.samples) == SAMPLE_CAP
    assert window.samples[0] == 1.0 and window.samples[-1] >= 99


def test_samples_of_a_clock_on_its_way_up_are_replaced_by_others():
    clock = Clock(steady())
    clocks = iter([345.0] * 5 + [1980.0] * 100)

    def take():
        return timing.Batch(clock.take().samples, next(clocks))

    window = timing.sample_until_quiet(take, at_most_s=10, clock=lambda: clock.now)
    assert window.discarded == 5 and len(window.samples) >= timing.MIN_SAMPLES
