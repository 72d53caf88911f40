"""Another kernel chosen while something faster was measured beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.kinds import regret
from benchapp.alerts.kinds.regret import Time
from benchapp.alerts.models import Alert
from benchapp.runs.models import Document as Row
from tests.alerts.kinds.stored import CUDNN, CUTLASS, alerts, store, the, timed, told

pytestmark = pytest.mark.django_db
FEW = settings(max_examples=40, deadline=None)


def at(seconds, kernel):
    return Time(seconds, seconds * 0.999, seconds * 1.001, kernel)


def choice(seconds, kernel, beside=20e-6):
    return timed(16, seconds, kernel=kernel), timed(16, beside, kernel="stable", backend=CUDNN)


def test_a_slower_kernel_than_the_one_beside_it_is_told_with_its_regret():
    store("0.6.9", *choice(19e-6, "tile_64"), day=1)
    store("0.6.13", *choice(25e-6, "tile_128"), day=2)
    alert = the("tactic")
    assert (
        alert.title == "Another kernel chosen with regret in 1 case on NVIDIA H200: flashinfer 0.6.9 → 0.6.13"
    )
    assert (
        f"by {CUTLASS}: 25.0\u00a0µs against 20.0\u00a0µs by {CUDNN}, a regret of 25\u00a0%" in alert.sentence
    )
    assert alert.ratio == pytest.approx(1.25) and alert.certain
    (case,) = alert.evidence["cases"]
    assert (case["kernel_before"], case["kernel"], case["best_backend"]) == ("tile_64", "tile_128", CUDNN)


def test_it_closes_itself_once_nothing_beside_it_is_faster():
    store("0.6.9", *choice(19e-6, "tile_64"), day=1)
    store("0.6.13", *choice(25e-6, "tile_128"), day=2)
    store("0.6.13", *choice(25e-6, "tile_128"), day=3)
    assert told(the("tactic")) == ["opened"]
    store("0.6.14", *choice(19e-6, "tile_64"), day=4)
    assert (the("tactic").state, told(the("tactic"))) == (Alert.State.FIXED, ["opened", "closed"])


def test_it_closes_itself_once_all_run_one_kernel_and_not_where_nothing_is_measured_beside_it():
    store("0.6.9", *choice(19e-6, "tile_64"), day=1)
    store("0.6.13", *choice(25e-6, "tile_128"), day=2)
    store("0.6.14", choice(25e-6, "stable")[0], day=3)
    assert told(the("tactic")) == ["opened"]
    store("0.6.14", *choice(25e-6, "stable"), day=4)
    assert (the("tactic").state, told(the("tactic"))) == (Alert.State.FIXED, ["opened", "closed"])


def test_a_small_regret_is_uncertain():
    store("0.6.9", *choice(19e-6, "tile_64"), day=1)
    store("0.6.13", *choice(20.8e-6, "tile_128"), day=2)
    assert not the("tactic").certain


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (choice(19e-6, "tile_64"), choice(25e-6, "tile_64")),  # no other kernel: detection's
        (choice(25e-6, "tile_64"), choice(24e-6, "tile_128")),  # as much regret as before
        (choice(19e-6, "tile_64"), choice(20.2e-6, "tile_128")),  # too little
        (choice(19e-6, "tile_64"), choice(25e-6, "stable")),  # the same kernel beside it
        (choice(19e-6, "tile_64"), (timed(16, 25e-6, kernel="tile_128"),)),  # nothing beside it
        (choice(19e-6, ""), choice(25e-6, "tile_128")),  # not known which kernel it was
        (
            choice(19e-6, "tile_64"),
            (timed(16, 25e-6, kernel="tile_128", flags=("throttled",)), choice(1, "")[1]),
        ),
    ],
)
def test_what_is_no_regret_of_a_choice(before, now):
    store("0.6.9", *before, day=1)
    store("0.6.13", *now, day=2)
    assert alerts("tactic") == []


def test_recorded_and_imported_ones_tell_nobody():
    store("0.6.9", *choice(19e-6, "tile_64"), day=1)
    store("0.6.13", *choice(25e-6, "tile_128"), day=2, origin=Row.Origin.IMPORT)
    assert alerts("tactic") == []
    store("0.6.13", *choice(26e-6, "tile_128"), day=3, origin=Row.Origin.RECORDED)
    assert the("tactic").recorded


times = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(at, st.floats(1e-7, 1e-1), st.sampled_from(["k1", "k2", "k3"])),
    min_size=1,
)


@FEW
@given(times, st.floats(0.1, 10))
def test_regret_is_a_share_of_the_best_whatever_the_unit(of, factor):
    scaled = {name: Time(t.median * factor, t.q1 * factor, t.q3 * factor, t.kernel) for name, t in of.items()}
    for name in of:
        found, again = regret.of(name, of), regret.of(name, scaled)
        if found is None:
            continue
        assert found.share > regret.LEAST and found.best != name and of[found.best].kernel != of[name].kernel
        assert found.best_s == min(t.median for t in of.values() if t.kernel != of[name].kernel)
        if found.share > regret.LEAST * 1.001:
            assert again is not None and again.share == pytest.approx(found.share)


@FEW
@given(times)
def test_the_fastest_has_no_regret_and_neither_has_what_did_not_change(of):
    fastest = min(of, key=lambda name: of[name].median)
    assert regret.of(fastest, of) is None
    assert all(regret.came_with(of, of, name) is None for name in of)
