"""An A/B from its turns to its verdicts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.confirm.sides import LARGE, SMALL, around, side, turned
from tests.workers.conftest import alive
from workers.bench.cases.base import Case
from workers.bench.confirm.alternate import Limits, Result, alternate
from workers.bench.confirm.benches import Kernels
from workers.bench.confirm.turn import Side
from workers.bench.document import BenchError, Comparison

KERNELS = Kernels("gemm", "cpu", (), 0.3)


def compare(old: Side, new: Side, *cases: Case, **limits: Any) -> Result:
    return alternate(old, new, KERNELS, cases or (SMALL,), Limits(**limits), lambda done, said: None)


def only(result: Result, metric: str = "time") -> Comparison:
    (found,) = [each for each in result.comparisons if each.metric == metric]
    return found


def test_sides_take_turns_until_a_difference_is_sure(tmp_path: Path):
    found = compare(side(tmp_path, "A", *around(1e-3)), side(tmp_path, "B", *around(1.1e-3)))
    said = only(found)
    assert said.verdict == "SLOW"
    assert said.low < 1.1 < said.high and said.ratio == pytest.approx(1.1, rel=1e-3)
    assert "".join(turn.name for turn in turned(tmp_path)) == "ABBAABBAAB"
    assert (said.pairs, len(said.old), len(said.new), found.turns) == (5, 5, 5, 10)
    assert (said.old_stack["torch"], said.new_stack["torch"]) == ("A", "B")


def test_the_same_is_said_as_soon_and_timers_are_calibrated_once_a_side(tmp_path: Path):
    same = compare(side(tmp_path, "A", {"value": 1e-3}), side(tmp_path, "B", {"value": 1e-3}))
    assert (only(same).verdict, only(same).pairs) == ("SAME", 5)
    calibrated = ["--overhead cuda_graph=1.5e-07" not in turn.told for turn in turned(tmp_path)]
    assert calibrated == [True, True] + [False] * 8


def test_a_case_that_is_decided_is_measured_no_more(tmp_path: Path):
    noisy = around(1e-3, spread=0.01)
    turns = [{str(SMALL): {"value": 1e-3}, str(LARGE): each} for each in noisy]
    found = compare(side(tmp_path, "A", *turns), side(tmp_path, "B", *turns[1:]), SMALL, LARGE, pairs_max=6)
    assert [turn.cases for turn in turned(tmp_path)] == [2] * 10 + [1] * 2
    small, large = found.comparisons
    assert (small.verdict, small.pairs, large.verdict, large.pairs) == ("SAME", 5, "AMBG", 6)
    assert "6 pairs" in large.why


def test_host_time_is_judged_apart_and_asks_for_one_more_look_at_most(tmp_path: Path):
    old = [{"value": 1e-3, "host": 1e-5 * (1 + i % 2)} for i in range(27)]
    found = compare(side(tmp_path, "A", *old), side(tmp_path, "B", *old[1:]), pairs_max=12)
    assert (only(found).verdict, only(found).pairs) == ("SAME", 5)
    assert only(found, "host_time").verdict == "AMBG"
    assert found.turns == 16


def test_a_process_that_failed_costs_its_pair_alone(tmp_path: Path):
    turns = around(1e-3)
    turns[1] = {"error": "the GPU was lost"}
    said = only(compare(side(tmp_path, "A", *turns), side(tmp_path, "B", *around(1.1e-3))))
    assert (said.verdict, said.pairs, len(said.old)) == ("SLOW", 7, 8)
    assert said.old[1] is None
    assert said.old_outcome == "1 of 8 processes: crashed: the GPU was lost"


def test_a_side_that_cannot_be_measured_at_all_is_named(tmp_path: Path):
    broken = side(tmp_path, "B", {"error": "This Python has no torch."})
    with pytest.raises(BenchError, match=r"B cannot be measured: This Python has no torch"):
        compare(side(tmp_path, "A", {"value": 1e-3}), broken)
    assert len(turned(tmp_path)) == 4


def test_what_a_side_does_not_support_is_uncertain_and_says_so(tmp_path: Path):
    lacking = {"outcome": "unsupported", "backend": None, "why": "no library here computes it"}
    found = compare(side(tmp_path, "A", lacking), side(tmp_path, "B", {"value": 1e-3}))
    said = only(found)
    assert (said.verdict, said.ratio, said.pairs, found.turns) == ("AMBG", None, 0, 4)
    assert (said.backend, said.old_outcome, said.new_outcome) == (
        "torch.mm",
        "unsupported: no library here computes it",
        "ok",
    )


def test_times_by_two_timers_are_not_compared(tmp_path: Path):
    other = {"value": 1e-3, "timer": "cuda_events"}
    said = only(compare(side(tmp_path, "A", {"value": 1e-3}), side(tmp_path, "B", other), pairs_max=2))
    assert (said.verdict, said.ratio) == ("AMBG", None)
    assert "cuda_events" in said.why and "cupti" in said.why


def test_a_budget_ends_it_with_what_is_known(tmp_path: Path):
    slow = {"value": 1e-3, "sleep": 1.0}
    ends = time.monotonic() + 4.5
    found = compare(side(tmp_path, "A", slow), side(tmp_path, "B", slow), ends=ends)
    said = only(found)
    assert (said.verdict, found.cut_short) == ("AMBG", True)
    assert 1 <= said.pairs < 5
    assert "budget" in said.why and "budget" in found.notes[0]


def test_a_turn_that_hangs_ends_with_the_budget(tmp_path: Path):
    hangs = side(tmp_path, "B", {"sleep": 600})
    with pytest.raises(BenchError, match="before both sides"):
        compare(side(tmp_path, "A", {"value": 1e-3}), hangs, ends=time.monotonic() + 1.5)
    hung = int((tmp_path / "pid").read_text())
    patience = time.monotonic() + 20
    while alive(hung) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not alive(hung)


def test_a_device_lease_goes_on_to_the_process_that_measures(tmp_path: Path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        holding = {"value": 1e-3, "descriptor": descriptor}
        found = compare(side(tmp_path, "A", holding), side(tmp_path, "B", holding), pairs_max=1)
    finally:
        os.close(descriptor)
    assert (only(found).old_outcome, only(found).new_outcome) == ("ok", "ok")


def test_a_clock_that_moved_is_taken_out_of_what_computes(tmp_path: Path):
    # cycles are the same in every process, the clock is not
    clocks = [1500.0, 1980.0, 1700.0, 1600.0, 1900.0] * 6
    turns = [{"value": 2.0 / clock, "clock": clock} for clock in clocks]
    slower = [{**turn, "value": turn["value"] * 1.05} for turn in turns[3:]]
    same = only(compare(side(tmp_path, "A", *turns), side(tmp_path, "B", *turns[2:])))
    assert (same.verdict, same.in_cycles) == ("SAME", True)
    assert same.cycles_ratio == same.time_ratio == pytest.approx(1.0)
    assert same.old_clock_mhz == tuple(clocks[:5])
    said = only(compare(side(tmp_path, "C", *turns), side(tmp_path, "D", *slower)))
    assert (said.verdict, said.in_cycles) == ("SLOW", True)
    assert said.cycles_ratio == pytest.approx(1.05, rel=1e-3)
