"""Three lists of one release that must agree: tactic list × dispatch table × what the generator writes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchapp.catalog.models import Release
from benchapp.tiles import words
from benchapp.tiles.entries import Entry, entries
from benchapp.tiles.fates import GLYPHS, Fate
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import ENDS, end_of
from benchapp.tiles.queries import Selection

#: A page lists no more disagreeing variants than this; what it leaves out is counted.
MOST_ROWS = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One way to disagree: what it is called, and what follows from it."""

    title: str
    meaning: str
    fate: Fate

    @property
    def glyph(self) -> str:
        return GLYPHS[self.fate]


NEVER_DISPATCHED = Kind(
    "Candidates never dispatched",
    "the autotuner tries their ids, and no try ever launches such a kernel",
    Fate.NO_DISPATCH,
)
NEVER_INSTANTIATED = Kind(
    "Dispatched, never instantiated",
    "the dispatch names a kernel that the generator does not write",
    Fate.NO_DISPATCH,
)
NEVER_CANDIDATES = Kind(
    "Instantiated, never candidates",
    "they are compiled and shipped, and nothing can choose them",
    Fate.NO_CANDIDATE,
)


def kind_of(candidate: bool, dispatched: bool, instantiated: bool) -> Kind | None:
    """How the three lists disagree on a variant; None where they agree."""
    if candidate and not dispatched:
        return NEVER_DISPATCHED
    if dispatched and not instantiated:
        return NEVER_INSTANTIATED
    if instantiated and not candidate:
        return NEVER_CANDIDATES
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Disagreement:
    kind: Kind
    found: tuple[Entry, ...]
    left_out: int

    @property
    def count(self) -> int:
        return len(self.found) + self.left_out


#: Ends of tactics that run all the same, or of which nobody knows yet that they do not.
_MAY_RUN = frozenset({"", "open", Fate.INCORRECT})


def dead_tactics(found: Iterable[Entry]) -> str:
    """ "14 of 60 tactic ids can never run: 12 are never dispatched and 2 overflow shared memory." """
    ends: Counter[str] = Counter()
    for entry in found:
        if entry.listing:
            ends[end_of(entry.listing, entry.variant.fate)] += len(entry.tactics)
    dead = [(end, number) for end, number in ends.most_common() if number and end not in _MAY_RUN]
    if not ends.total():
        return "Its tactic list holds no id."
    if not dead:
        return f"Nothing found stands against any of its {ends.total():,} tactic ids."
    because = words.listed([f"{number:,} {ENDS[end][number != 1]}" for end, number in dead], most=len(ENDS))
    return f"{sum(number for _, number in dead):,} of {ends.total():,} tactic ids can never run: {because}."


def disagreements(found: Iterable[Entry]) -> list[Disagreement]:
    by_kind: dict[Kind, list[Entry]] = {}
    for entry in sorted(found, key=lambda entry: entry.key.place):
        listed = entry.listing
        kind = kind_of(listed.candidate, listed.dispatched, listed.instantiated) if listed else None
        if kind is not None:
            by_kind.setdefault(kind, []).append(entry)
    return [
        Disagreement(kind, tuple(by_kind[kind][:MOST_ROWS]), max(0, len(by_kind[kind]) - MOST_ROWS))
        for kind in (NEVER_DISPATCHED, NEVER_INSTANTIATED, NEVER_CANDIDATES)
        if kind in by_kind
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """`state`: "unknown" (nothing of this release), "unread" (surveyed before lists were read), "read"."""

    version: str
    state: str
    said: str
    counts: tuple[int, int, int] = (0, 0, 0)
    disagreements: tuple[Disagreement, ...] = ()


def panel(version: str, found: Mapping[Key, Entry]) -> Panel:
    listed = [entry.listing for entry in found.values() if entry.listing]
    if not found:
        return Panel(
            version, "unknown", f"Nothing is known of the lists of {version}: no survey has looked here."
        )
    if not listed:
        return Panel(
            version,
            "unread",
            f"The survey of {version} is older than the reading of lists; a new survey reads them.",
        )
    counts = (
        sum(row.candidate for row in listed),
        sum(row.dispatched for row in listed),
        sum(row.instantiated for row in listed),
    )
    apart = tuple(disagreements(found.values()))
    ids = dead_tactics(found.values())
    if not apart:
        what = "its only variant" if len(listed) == 1 else f"all {len(listed):,} variants"
        return Panel(version, "read", f"The three lists of {version} agree on {what}. {ids}", counts)
    number = sum(each.count for each in apart)
    verb = "variant is" if number == 1 else "variants are"
    said = f"In {version} {words.count(number)} of {len(listed):,} {verb} not in all three lists. {ids}"
    return Panel(version, "read", said, counts, apart)


def context(selection: Selection, releases: Sequence[Release], focus: str) -> dict[str, Any]:
    """What `tiles/_consistency.html` shows of the release `focus`. Two queries, or none without a focus."""
    release = next((release for release in releases if release.version == focus), None)
    if release is None:
        return {"consistency": None}
    return {"consistency": panel(focus, entries(selection, [release])[release.pk])}
