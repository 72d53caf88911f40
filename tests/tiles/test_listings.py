"""Tactic ids, and how many of them can run."""

from __future__ import annotations

import dataclasses

from benchapp.tiles.fates import Fate
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed, tactics_in_words


def item(tile, gemm1=(), gemm2=(), *, candidate=True, dispatched=True, instantiated=True):
    m, n, k = tile
    key = Key(m, n, k, "1x1x1", "auto", "none", False)
    return Listed(key, candidate, dispatched, instantiated, gemm1, gemm2)


SMALL, BIG, UNREACHED = (128, 128, 128), (256, 128, 128), (128, 128, 512)


def test_it_counts_what_fits_and_says_what_stops_the_others():
    items = [
        item(SMALL, (0, 1), (4, 5)),
        item(BIG, (2,), (6,)),
        item(UNREACHED, (3,), (7, 8), dispatched=False, instantiated=False),
    ]
    fates = {items[0].key: Fate.SURVIVED, items[1].key: Fate.OVERFLOW}
    assert tactics_in_words(items, fates) == (
        "Of its 9 tactics (4 for GEMM1, 5 for GEMM2), four fit; three are never dispatched and two overflow "
        "shared memory."
    )


def test_where_all_fit_it_says_so():
    one = item(SMALL, (0,), (1,))
    assert tactics_in_words([one], {one.key: Fate.SURVIVED}) == (
        "All of its 2 tactics (1 for GEMM1, 1 for GEMM2) fit."
    )


def test_what_nobody_looked_at_is_not_counted_as_fitting():
    said = tactics_in_words([item(SMALL, (0, 1)), item(BIG, (2,), instantiated=False)], {})
    assert said == "Of its 3 tactics, none fit; two are not tested that far and one is never instantiated."


def test_one_tactic_is_told_in_the_singular():
    one = item(SMALL, (0,))
    assert tactics_in_words([one], {one.key: Fate.SURVIVED}) == "Its only tactic fits."
    assert tactics_in_words([one], {one.key: Fate.OVERFLOW}) == (
        "Of its 1 tactic, none fit; one overflows shared memory."
    )


def test_without_ids_nothing_is_said():
    assert tactics_in_words([], {}) == ""
    assert tactics_in_words([item(SMALL, candidate=False)], {}) == ""


def test_ids_stand_beside_their_gemm():
    assert item(SMALL, (3,), (11, 12)).ids == "GEMM1 3, GEMM2 11 12"
    assert item(SMALL, (3,)).ids == "GEMM1 3"
    assert dataclasses.replace(item(SMALL, (3,)), dense=True).ids == "tactic 3"
