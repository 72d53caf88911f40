"""Times and cycles together, where the clock moved."""

from __future__ import annotations

import random

from workers.bench.confirm.cycles import Decision, decide, moved


def said(old: list[float], new: list[float], old_clocks: list[float], new_clocks: list[float]) -> Decision:
    return decide(old, new, old_clocks, new_clocks, margin=0.01, resolution=0.0)


def wandering(seed: int, count: int = 12) -> list[float]:
    source = random.Random(seed)
    return [source.uniform(1500.0, 1980.0) for _ in range(count)]


def test_a_clock_moves_by_more_than_a_hundredth_where_all_are_known():
    assert moved([1980.0, 1950.0])
    assert not moved([1980.0, 1970.0])
    assert not moved([1980.0, None, 1500.0])
    assert not moved([])


def test_without_a_clock_that_moved_times_decide():
    still = said([1.0] * 5, [1.1] * 5, [1980.0] * 5, [1975.0] * 5)
    assert (still.verdict.word, still.in_cycles, still.cycles_ratio) == ("SLOW", False, None)


def test_what_computes_is_decided_in_cycles():
    old, new = wandering(1), wandering(2)
    slower = said([2.0 / clock for clock in old], [2.2 / clock for clock in new], old, new)
    assert (slower.verdict.word, slower.in_cycles) == ("SLOW", True)
    assert abs(slower.verdict.ratio - 1.1) < 1e-9
    same = said([2.0 / clock for clock in old], [2.0 / clock for clock in new], old, new)
    assert (same.verdict.word, same.in_cycles) == ("SAME", True)


def test_what_waits_for_memory_is_decided_in_times():
    old, new = wandering(3), wandering(4)
    same = said([1.0] * 12, [1.0] * 12, old, new)
    assert (same.verdict.word, same.in_cycles) == ("SAME", False)
    slower = said([1.0] * 12, [1.5] * 12, old, new)
    assert slower.verdict.word == "SLOW"


def test_spaces_that_contradict_each_other_decide_nothing():
    # the new side ran at a lower clock, and took as many cycles
    old, new = [1980.0] * 8, [1700.0] * 8
    both = said([2.0 / clock for clock in old], [2.0 / clock for clock in new], old, new)
    assert both.verdict.word == "AMBG"
    assert abs(both.cycles_ratio - 1) < 1e-9 and both.time_ratio > 1.16
    assert "SLOW (1.165)" in both.verdict.why and "SAME (1.000)" in both.verdict.why


def test_a_wandering_clock_makes_no_false_difference():
    source = random.Random(5)
    words = []
    for _ in range(150):
        clocks = [[source.uniform(1700.0, 1980.0) for _ in range(27)] for _ in range(2)]
        cycles = [[2.0 * (1 + source.gauss(0, 0.004)) for _ in range(27)] for _ in range(2)]
        times = [
            [c / clock for c, clock in zip(*side, strict=True)] for side in zip(cycles, clocks, strict=True)
        ]
        words.append(said(times[0], times[1], clocks[0], clocks[1]).verdict.word)
    assert words.count("SLOW") + words.count("FAST") <= 3
