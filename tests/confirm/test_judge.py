from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.confirm.rates import spiking, steady, two_modes, words
from workers.bench.confirm.judge import BUILD_LOOKS, judge, quantile

values = st.floats(1e-9, 1e9)
sides = st.lists(st.tuples(values, values), min_size=5, max_size=27)


@pytest.mark.parametrize(
    ("probability", "freedom", "tabled"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.95, 3, 2.353), (0.995, 4, 4.604), (0.995, 5, 4.032),
     (0.995, 26, 2.779), (0.975, 30, 2.042), (0.5, 7, 0.0)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(probability, freedom, tabled):
    assert quantile(probability, freedom) == pytest.approx(tabled, abs=6e-4)


@given(sides)
def test_an_interval_holds_its_ratio_and_the_word_says_where_it_lies(pairs):
    old, new = zip(*pairs, strict=True)
    said = judge(old, new)
    assert said.low <= said.ratio <= said.high
    assert said.pairs == len(pairs)
    assert (said.word == "SLOW") == (said.low > 1.01)
    assert (said.word == "FAST") == (said.high < 1 / 1.01)


@given(sides)
def test_swapping_the_sides_swaps_the_verdict(pairs):
    old, new = zip(*pairs, strict=True)
    swapped = {"SLOW": "FAST", "FAST": "SLOW", "SAME": "SAME", "AMBG": "AMBG"}
    there, back = judge(old, new), judge(new, old)
    assert back.word == swapped[there.word]
    assert back.ratio == pytest.approx(1 / there.ratio, rel=1e-6)


@given(sides, st.sampled_from([1e-6, 1e-3, 1e3]))
def test_the_unit_does_not_matter(pairs, scale):
    old, new = zip(*pairs, strict=True)
    scaled = judge([value * scale for value in old], [value * scale for value in new])
    assert scaled.ratio == pytest.approx(judge(old, new).ratio, rel=1e-9)


def test_equal_values_are_the_same_and_no_surer_than_the_floor():
    said = judge([8.7e-6] * 5, [8.7e-6] * 5)
    assert said.word == "SAME"
    assert said.low < 0.999 and said.high > 1.001


def test_nothing_is_decided_before_the_first_look():
    assert judge([1.0] * 4, [2.0] * 4).word == "AMBG"
    assert judge([1.0] * 3, [2.0] * 3, looks=BUILD_LOOKS).word == "SLOW"


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf, 0.0, -1.0])
def test_a_process_without_a_value_costs_its_pair(nothing):
    old, new = [1.0, nothing, 1.0, 1.0, 1.0, 1.0], [1.2, 1.2, 1.2, 1.2, 1.2, 1.2]
    said = judge(old, new)
    assert (said.word, said.pairs) == ("SLOW", 5)
    assert judge([nothing] * 5, new).ratio is None
    assert "no pair" in judge([], []).why


def test_one_bad_process_in_eight_decides_nothing():
    steady = [1.0, 1.002, 0.999, 1.001, 1.0, 0.998, 1.001, 1.0]
    assert judge(steady, [*steady[1:], 1.6]).word == "SAME"
    assert judge(steady[:5], [*steady[1:5], 1.6]).word == "AMBG"
    slower = [value * 1.05 for value in steady]
    assert judge(steady, [*slower[1:], 0.5]).word == "SLOW"


def test_a_difference_below_a_step_of_the_clock_is_none():
    step = 32e-9
    old, new = [1.024e-6] * 5, [1.056e-6] * 5
    assert judge(old, new).word == "SLOW"
    assert judge(old, new, resolution=step).word != "SLOW"


@pytest.mark.parametrize("draw", [steady(0.005), two_modes, spiking])
def test_a_side_against_itself_is_hardly_ever_slower_or_faster(draw):
    said = words(draw, 1.0, 300, random.Random(7))
    assert said["SLOW"] + said["FAST"] <= 300 * 0.02, said


def test_steady_processes_tell_three_percent():
    assert words(steady(0.005), 1.03, 100, random.Random(8))["SLOW"] >= 99
    assert words(steady(0.005), 1 / 1.03, 100, random.Random(9))["FAST"] >= 99
    assert words(steady(0.005), 1.0, 100, random.Random(10))["SAME"] >= 99


def test_two_modes_tell_what_is_larger_than_they_are_apart():
    said = words(two_modes, 1.2, 100, random.Random(11))
    assert said["SLOW"] >= 99 and not said["FAST"]
