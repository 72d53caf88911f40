"""Variants of one selection, release by release: what a release's sources list, and what was found."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable

from benchapp.catalog.models import Release
from benchapp.tiles import words
from benchapp.tiles.fates import GLYPHS, LADDER, Fate, Variant, look
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Listing, Verdict
from benchapp.tiles.queries import Selection, variant_of


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One variant in one release; `tile_id` is None where only the lists name it."""

    key: Key
    variant: Variant
    tile_id: int | None = None
    listing: Listing | None = None

    @property
    def tactics(self) -> list[int]:
        """Tactic ids, absolute in GEMM1 ++ GEMM2."""
        return sorted([*self.listing.gemm1_tactics, *self.listing.gemm2_tactics]) if self.listing else []

    @property
    def unreachable(self) -> bool:
        """A candidate behind which no dispatch or no kernel stands: its ids can never run."""
        listed = self.listing
        return listed is not None and listed.candidate and not (listed.dispatched and listed.instantiated)

    @property
    def fate(self) -> Fate:
        """As the evidence has it, else as the lists do."""
        fate = self.variant.fate
        return Fate.NO_DISPATCH if fate is Fate.UNTESTED and self.unreachable else fate

    @property
    def glyph(self) -> str:
        return GLYPHS[self.fate]

    @property
    def look(self) -> str:
        in_tables = {Fate.NO_DISPATCH: "uncertain", Fate.NO_CANDIDATE: "unsupported"}
        return in_tables.get(self.fate, look(self.fate))

    @property
    def said(self) -> str:
        """In words: "does not fit, short by 1,024 B, 3 stages, types tier"."""
        if self.fate is Fate.NO_DISPATCH:
            written = self.listing is None or self.listing.instantiated
            return "candidate, never dispatched" + ("" if written else ", never instantiated")
        return words.cell(self.variant)

    def passed(self, stage: str) -> bool:
        """Whether it got past `stage`: reached it, or failed at a later one."""
        at = LADDER.index(stage)
        if self.variant.failed_stage:
            return at < LADDER.index(self.variant.failed_stage)
        return self.variant.reached(stage)


def lists(selection: Selection, releases: Iterable[Release]) -> dict[int, dict[Key, Entry]]:
    """By release and variant, what the releases' own sources list. One query."""
    found: dict[int, dict[Key, Entry]] = defaultdict(dict)
    listings = Listing.objects.filter(
        arch=selection.arch,
        family=selection.family,
        inputs=selection.inputs,
        release__in=[release.pk for release in releases],
    )
    for listing in listings:
        key = Key.of(listing)
        found[listing.release_id][key] = Entry(key, key.variant, listing=listing)
    return found


def entries(selection: Selection, releases: Iterable[Release]) -> dict[int, dict[Key, Entry]]:
    """By release and variant, what the sources list and what was found. Two queries."""
    releases = list(releases)
    found = lists(selection, releases)
    of_tile = {f"tile__{name}": value for name, value in dataclasses.asdict(selection).items()}
    verdicts = Verdict.objects.filter(**of_tile, release__in=[release.pk for release in releases])
    for verdict in verdicts.select_related("tile").order_by():
        key = Key.of(verdict.tile)
        known = found[verdict.release_id].get(key)
        found[verdict.release_id][key] = Entry(
            key, variant_of(verdict.tile, verdict), verdict.tile_id, known.listing if known else None
        )
    return found
