"""Which versions a bisect compares next, and what follows from the verdicts so far. Pure.

Every verdict is of a version against the first, the good one, so that a change that came in several parts is
found at its first part. A version that could not be built or measured is skipped, and one beside it tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

#: A search gives up where so many versions of the range that is left were skipped.
MOST_SKIPPED = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Compare:
    """The next A/B: indices of the old and the new version; `ahead` are those that the one after may want."""

    old: int
    new: int
    ahead: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The first version that has the change, and the one before it."""

    last_good: int
    first_bad: int


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing more can be told than that it came after `last_good` and with `first_bad` at the latest."""

    last_good: int
    first_bad: int
    #: the version whose A/B was uncertain; None: those in between could not be measured
    uncertain: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Nothing:
    """The last version against the first: no such change. `verdict` is "" where it could not be measured."""

    verdict: str


Step = Compare | Found | Undecided | Nothing


def search(count: int, verdicts: Mapping[int, str], skipped: Sequence[int], bad: str) -> Step:
    """What to do with `count` versions, from the good one to the bad one, at least 2.

    `verdicts` maps the index of a version to SAME, FAST, SLOW or AMBG against version 0, `skipped` lists
    those that gave none, in the order in which they were tried; `bad` is the verdict that is looked for.
    What moved the other way is not bad yet.
    """
    last = count - 1
    if last in skipped:
        return Nothing("")
    if last not in verdicts:
        return Compare(0, last, _middles(0, last, skipped)[:1])
    if verdicts[last] != bad:
        return Nothing(verdicts[last])
    decided = {index: verdict for index, verdict in verdicts.items() if verdict != "AMBG"}
    first_bad = min(index for index, verdict in decided.items() if verdict == bad)
    last_good = max((i for i, verdict in decided.items() if verdict != bad and i < first_bad), default=0)
    uncertain = [i for i, verdict in verdicts.items() if verdict == "AMBG" and last_good < i < first_bad]
    if uncertain:
        return Undecided(last_good, first_bad, uncertain[0])
    if first_bad - last_good == 1:
        return Found(last_good, first_bad)
    middles = _middles(last_good, first_bad, skipped)
    if not middles or _skipped_inside(last_good, first_bad, skipped) >= MOST_SKIPPED:
        return Undecided(last_good, first_bad)
    middle = middles[0]
    ahead = (*_middles(last_good, middle, skipped)[:1], *_middles(middle, first_bad, skipped)[:1])
    return Compare(0, middle, ahead)


def _middles(low: int, high: int, skipped: Sequence[int]) -> tuple[int, ...]:
    """Versions between two, without those skipped: the one nearest the middle first."""
    inside = (index for index in range(low + 1, high) if index not in skipped)
    return tuple(sorted(inside, key=lambda index: (abs(2 * index - low - high), index)))


def _skipped_inside(low: int, high: int, skipped: Sequence[int]) -> int:
    return sum(low < index < high for index in skipped)
