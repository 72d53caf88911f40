"""Which versions a bisect compares next: pure arithmetic over verdicts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.bench.confirm.bisect import Compare, Found, Nothing, Undecided, search

COUNT = st.integers(2, 60)


def run(count: int, truth: dict[int, str], broken: frozenset[int] = frozenset()):
    """Search to the end, with `truth` of each version against the first; (the outcome, versions compared)."""
    verdicts: dict[int, str] = {}
    skipped: list[int] = []
    compared: list[int] = []
    while isinstance(step := search(count, verdicts, skipped, "SLOW"), Compare):
        assert step.old == 0
        assert step.new not in compared, "nothing is compared twice"
        compared.append(step.new)
        if step.new in broken:
            skipped.append(step.new)
        else:
            verdicts[step.new] = truth[step.new]
    return step, compared


@given(COUNT.flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_the_first_slow_version_is_found_in_logarithmically_many_steps(given: tuple[int, int]):
    count, first = given
    truth = {index: "SLOW" if index >= first else "SAME" for index in range(1, count)}
    found, compared = run(count, truth)
    assert found == Found(first - 1, first)
    assert len(compared) <= 1 + (count - 1).bit_length()


@given(
    COUNT.flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.frozensets(st.integers(1, n - 1)))
    )
)
def test_versions_that_cannot_be_measured_are_never_named(given: tuple[int, int, frozenset[int]]):
    count, first, broken = given
    truth = {index: "SLOW" if index >= first else "SAME" for index in range(1, count)}
    found, _ = run(count, truth, broken)
    if count - 1 in broken:
        assert found == Nothing("")
        return
    assert isinstance(found, Found | Undecided)
    assert found.last_good < first <= found.first_bad
    assert not {found.last_good, found.first_bad} & broken
    if isinstance(found, Found):
        assert found.first_bad == first


@given(st.lists(st.sampled_from(["SAME", "FAST", "SLOW", "AMBG"]), min_size=1, max_size=40))
def test_whatever_the_verdicts_are_it_ends_within_what_they_say(said: list[str]):
    truth = dict(enumerate(said, start=1))
    found, _ = run(len(said) + 1, truth)
    if isinstance(found, Nothing):
        assert found.verdict == said[-1] != "SLOW"
        return
    assert isinstance(found, Found | Undecided)
    assert truth[found.first_bad] == "SLOW"
    assert found.last_good == 0 or truth[found.last_good] in ("SAME", "FAST")
    if isinstance(found, Undecided):
        assert found.uncertain is not None
        assert truth[found.uncertain] == "AMBG"
        assert found.last_good < found.uncertain < found.first_bad


def test_the_two_versions_after_the_next_are_named_ahead():
    step = search(9, {8: "SLOW"}, [], "SLOW")
    assert step == Compare(0, 4, (2, 6))
    step = search(9, {8: "SLOW", 4: "SAME"}, [], "SLOW")
    assert step == Compare(0, 6, (5, 7))


def test_an_improvement_is_searched_for_the_other_way_round():
    assert search(3, {2: "FAST", 1: "SAME"}, [], "FAST") == Found(1, 2)
    assert search(3, {2: "SLOW"}, [], "FAST") == Nothing("SLOW")


def test_it_gives_up_where_too_many_versions_of_the_range_cannot_be_measured():
    found, compared = run(40, dict.fromkeys(range(1, 40), "SLOW"), frozenset(range(1, 39)))
    assert found == Undecided(0, 39)
    assert len(compared) == 5
