"""Changes into alerts, and what those are called; no database."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.alerts import telling
from benchapp.alerts.grouping import Moved, OpenMachine, Window, machine_key, place_of, sort_out
from benchapp.alerts.suspects import Crossing, Differs, differences, rank

#: A machine with other work on it draws slowly, which is no fault.
calmly = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NIGHT = dt.datetime(2026, 9, 1, 2, tzinfo=dt.UTC)
FLASHINFER = Differs("flashinfer", "0.6.3", "0.6.9")
CUTLASS = Differs("cutlass", "4.2.1", "4.4.2")
DRIVER = Differs("driver", "580", "590")


def moved(number: int = 1, *, night: float = 12, ratio: float = 1.2, **values: Any) -> Moved:
    at = NIGHT + dt.timedelta(days=night)
    made = Moved(
        change_id=number,
        alert_id=None,
        series_id=number,
        label=f"gemm bf16 {number} × 4096 × 7168",
        backend="flashinfer.mm_bf16.cutlass",
        metric="time",
        target_id=1,
        target_kind="gpu",
        model="NVIDIA H200",
        host_id=1,
        host="box",
        at=at,
        before_at=at - dt.timedelta(days=1),
        stack_before_id=1,
        stack_after_id=1,
        differs=(),
        before=1e-3,
        after=ratio * 1e-3,
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        confidence=0.99,
        certain=True,
        worse=ratio > 1,
        n_before=12,
        n_after=6,
        weight=1.0,
        reference=False,
        recorded=False,
    )
    return dataclasses.replace(made, **values)


def upgraded(number: int = 1, **values: Any) -> Moved:
    return moved(number, **{"stack_after_id": 2, "differs": (FLASHINFER, CUTLASS), **values})


def kinds(groups) -> list[tuple[str, int]]:
    return sorted((str(group.kind), len(group.moves)) for group in groups)


def test_one_stack_change_is_one_alert_over_series_and_gpus_of_a_model_worse_and_better_apart():
    groups = sort_out(
        [upgraded(n, target_id=n, host_id=n) for n in range(1, 6)]
        + [upgraded(n, ratio=0.5) for n in (6, 7)]
        + [upgraded(8, model="NVIDIA RTX PRO 6000")]
    )
    assert kinds(groups) == [("stack", 1), ("stack", 2), ("stack", 5)]
    assert len({group.key for group in groups}) == 3
    assert {group.worse for group in groups if len(group.moves) == 2} == {False}


def test_other_stacks_with_the_same_difference_are_the_same_change():
    """Hosts differ in their drivers, and both went from 0.6.3 to 0.6.9."""
    (group,) = sort_out([upgraded(1), upgraded(2, stack_before_id=8, stack_after_id=9)])
    assert len(group.moves) == 2


def test_build_cost_is_an_alert_of_its_own_kind():
    groups = sort_out(
        [upgraded(1), upgraded(2, metric="cpu_time", target_kind="cpu"), upgraded(3, metric="size")]
    )
    assert kinds(groups) == [("build", 2), ("stack", 1)]


def test_a_reference_that_moved_with_an_upgrade_shows_that_the_machine_did():
    groups = sort_out(
        [upgraded(1, reference=True, ratio=1.1), upgraded(2, ratio=1.12), upgraded(3, ratio=2.0)]
    )
    assert kinds(groups) == [("machine", 2), ("stack", 1)]
    machine = next(group for group in groups if group.kind == "machine")
    assert machine.with_upgrade
    assert "as the versions changed" in telling.title(machine, 4, [])


def test_a_reference_of_another_gpu_or_one_that_moved_the_other_way_explains_nothing():
    groups = sort_out(
        [upgraded(1, reference=True, target_id=2), upgraded(2), upgraded(3, reference=True, ratio=0.8)]
    )
    assert kinds(groups) == [("machine", 1), ("machine", 1), ("stack", 1)] or kinds(groups) == [
        ("machine", 2), ("stack", 1),
    ]  # fmt: skip
    stack = next(group for group in groups if group.kind == "stack")
    assert [move.series_id for move in stack.moves] == [2]


def test_a_reference_that_moved_with_its_own_driver_is_the_drivers():
    groups = sort_out([upgraded(1, reference=True, differs=(DRIVER,)), upgraded(2, differs=(DRIVER,))])
    assert kinds(groups) == [("stack", 2)]


def test_changes_of_one_host_in_one_night_are_one_whatever_moved_which_way():
    groups = sort_out(
        [moved(n, night=12 + n % 3, target_id=n % 2) for n in range(30)] + [moved(31, ratio=0.9)]
    )
    assert kinds(groups) == [("machine", 31)]


def test_another_host_or_another_week_is_another_alert():
    groups = sort_out([moved(1), moved(2, host_id=2), moved(3, night=30)])
    assert kinds(groups) == [("machine", 1)] * 3
    assert len({group.key for group in groups}) == 3


def test_most_decide_the_window_and_who_was_found_a_night_off_is_with_them():
    moves = [moved(n, night=12 + n % 2) for n in range(20)] + [
        moved(99, night=14, ratio=9.0),
        moved(98, night=10),
    ]
    groups = sort_out(moves)
    assert kinds(groups) == [("machine", 22)]


def test_a_step_found_a_night_beside_an_upgrade_is_the_upgrades_where_as_many_moved_with_it():
    late = moved(9, night=13, stack_before_id=2, stack_after_id=2)
    (group,) = sort_out([upgraded(1), upgraded(2), late])
    assert {move.change_id for move in group.moves} == {1, 2, 9}
    assert group.kind == "stack" and group.upgraded.differs
    others = [moved(n, night=13) for n in range(10, 20)]
    assert kinds(sort_out([upgraded(1), upgraded(2), late, *others])) == [("machine", 11), ("stack", 2)]
    assert kinds(sort_out([upgraded(1), dataclasses.replace(late, worse=False, ratio=0.8)])) == [
        ("machine", 1),
        ("stack", 1),
    ]


def test_a_reference_that_moved_a_night_beside_an_upgrade_is_the_machines_unless_that_touches_its_base():
    beside = moved(9, night=13, stack_before_id=2, stack_after_id=2, reference=True)
    assert kinds(sort_out([upgraded(1), upgraded(2), beside])) == [("machine", 1), ("stack", 2)]
    drivers = [upgraded(n, differs=(DRIVER,)) for n in (1, 2)]
    assert kinds(sort_out([*drivers, beside])) == [("stack", 3)]


def test_later_series_join_the_open_alert_although_their_window_differs():
    (first,) = sort_out([moved(1)])
    assert first.window is not None
    open_one = OpenMachine(first.key, place_of(first.moves[0]), first.window)
    (second,) = sort_out([moved(2, night=13, ratio=3.0)], [open_one])
    assert (second.key, second.window) == (first.key, first.window)


@calmly
@given(st.permutations(range(8)))
def test_the_order_in_which_changes_come_decides_nothing(order):
    moves = [moved(n, night=12 + (n % 4) * 9, ratio=1.1 + n / 100) for n in range(8)]
    expected = {(g.key, tuple(m.change_id for m in g.moves)) for g in sort_out(moves)}
    found = sort_out([moves[n] for n in order])
    assert {(g.key, tuple(m.change_id for m in g.moves)) for g in found} == expected


def test_keys_of_machines_tell_place_and_time():
    window = Window(NIGHT, NIGHT + dt.timedelta(days=1))
    assert machine_key("host:7", window) == "machine:host:7:2026-09-01T02:00:00.000000"
    assert place_of(moved(host_id=None)) == "target:1"


@pytest.mark.parametrize("count", [1, 2, 4000])
def test_a_title_fits_and_says_what_where_and_how_much(count):
    label = (
        "decode bf16 model Qwen3-30B-A3B batch 256 context 1024 layers 48 tp 1 ep 1 with a very long tail "
        * 2
    )
    (group,) = sort_out([upgraded(n, label=label, weight=1 + n) for n in range(count)])
    title = telling.title(group, 4000, [FLASHINFER, CUTLASS, DRIVER])
    assert len(title) <= 200
    assert title.startswith(
        f"{count:,} of 4,000 GPU times slower with flashinfer 0.6.3 → 0.6.9, cutlass 4.2.1 → 4.4.2 and 1 "
        "more on H200: worst decode"
    )
    assert title.endswith("… ×1.2 [1.19, 1.21]")


def test_a_title_of_long_versions_names_fewer_and_keeps_its_figures():
    long = [
        Differs(f"{name}-of-a-very-long-name-indeed", "1.2.3.dev20260901+cu130", "1.2.4.dev20260930+cu130")
        for name in "ab"
    ]
    (group,) = sort_out([upgraded(1)])
    title = telling.title(group, 4, long)
    assert len(title) <= 200
    assert "and 1 more on H200: worst gemm" in title and title.endswith("×1.2 [1.19, 1.21]")


def test_a_sentence_stays_while_only_figures_move():
    def said(ratio: float) -> str:
        (group,) = sort_out([upgraded(1, ratio=ratio)])
        return telling.sentence(
            group, 4, [FLASHINFER, CUTLASS], telling.reference_words(0, 2, explained=False)
        )

    assert said(1.2) == said(1.21)
    assert said(1.2) == (
        "1 of 4 GPU times is slower on H200 with flashinfer 0.6.3 → 0.6.9, cutlass 4.2.1 → 4.4.2 (the "
        "likeliest cause first). Most of all gemm bf16 1 × 4096 × 7168 through flashinfer.mm_bf16.cutlass. "
        "None of 2 reference cases moved: it is not the machine."
    )


def test_what_one_run_says_is_called_unconfirmed():
    (group,) = sort_out([upgraded(1, certain=False, n_after=1)])
    assert telling.sentence(group, 4, [FLASHINFER], "").endswith("Unconfirmed: one run on a side.")


@pytest.mark.parametrize(
    ("ratio", "warned"), [(1000.0, True), (1e-6, True), (990.0, True), (2.0, False), (1.0, False)]
)
def test_a_factor_of_a_thousand_is_called_what_it_looks_like(ratio, warned):
    (group,) = sort_out([upgraded(1, ratio=ratio)])
    assert ("looks like another unit" in telling.sentence(group, 4, [FLASHINFER], "")) is warned


# -- suspects --------------------------------------------------------------------------------------------


def crossing(*components: str, moved: bool = False, own: bool = False) -> Crossing:
    return Crossing(frozenset(components), moved, own)


BACKENDS = ["flashinfer.mm_bf16.cutlass"] * 3
OWN = [crossing("flashinfer", "torch", moved=True, own=True)] * 3
BOTH = [FLASHINFER, Differs("torch", "2.10.0", "2.11.0")]


def test_the_library_whose_kernels_moved_is_suspected_first():
    found = rank(BOTH, BACKENDS, OWN)
    assert [each["component"] for each in found] == ["flashinfer", "torch"]
    assert sum(each["share"] for each in found) == pytest.approx(1, abs=0.01)
    assert found[0]["why"].startswith("its kernels are what 3 of 3 moved series run; 3 of 3 moved here")
    assert rank(BOTH, ["torch.sdpa"], OWN)[0]["component"] == "torch"


def test_a_component_that_changed_alone_without_a_move_is_exonerated():
    alone = [crossing("torch")] * 6
    before = {each["component"]: each["share"] for each in rank(BOTH, BACKENDS, OWN)}
    found = {each["component"]: each for each in rank(BOTH, BACKENDS, OWN + alone)}
    assert found["torch"]["share"] < before["torch"] / 5
    assert "where it changed without the others 0 of 6 moved" in found["torch"]["why"]


def test_one_that_changed_alone_with_moves_is_suspected_more():
    alone = [crossing("torch", moved=True)] * 6
    assert rank(BOTH, [], OWN + alone)[0]["component"] == "torch"


@calmly
@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12")),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12")),
)
def test_what_differs_is_what_both_sides_do_not_share(before, after):
    found = {each.component: (each.before, each.after) for each in differences(before, after)}
    assert all(before.get(name) != after.get(name) for name in found)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set(
        found
    )
    assert not differences(before, before)
