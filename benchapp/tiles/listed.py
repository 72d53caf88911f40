"""Variants of one selection, release by release: what a release's sources list, and what was found."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from benchapp.catalog.models import Release
from benchapp.catalog.versions import version_order
from benchapp.tiles import words
from benchapp.tiles.fates import GLYPHS, LADDER, LOOKS, Fate, Variant
from benchapp.tiles.models import Listing, Tile, Verdict
from benchapp.tiles.queries import Selection, variant_of


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """What makes a variant the same one in two releases; (m, n, k) in elements."""

    m: int
    n: int
    k: int
    cluster: str
    schedule: str
    fusion: str
    swap_ab: bool

    @classmethod
    def of(cls, row: Tile | Listing) -> Key:
        return cls(row.m, row.n, row.k, row.cluster, row.schedule, row.fusion, row.swap_ab)

    @property
    def place(self) -> tuple[int, int, int, str, str, bool, str, bool]:
        """A key that sorts as the matrix does: by tile, and fusion none first."""
        plain = self.fusion.lower() != "none"
        return self.m, self.n, self.k, self.cluster, self.schedule, plain, self.fusion, self.swap_ab

    @property
    def variant(self) -> Variant:
        """The variant with nothing known of it."""
        return Variant(
            (self.m, self.n, self.k), self.fusion, self.swap_ab, cluster=self.cluster, schedule=self.schedule
        )

    @property
    def name(self) -> str:
        return self.variant.name


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
        look = LOOKS.get(self.fate, self.fate.value)
        return {"nodispatch": "uncertain", "nocandidate": "unsupported"}.get(look, look)

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


def surveyed(arch: str, family: str) -> list[Release]:
    """Releases in which a survey looked at this family on this architecture, in release order.

    Only there is a variant without a verdict absent. What others' files brought in is no survey.
    """
    looked = Verdict.objects.filter(tile__arch=arch, tile__family=family).exclude(source="imported")
    found = Release.objects.filter(pk__in=looked.values("release"))
    return sorted(found, key=lambda release: version_order(release.version))


def runs_of_versions(versions: Sequence[str], told: Mapping[str, str]) -> list[tuple[str, str]]:
    """Neighbouring versions of which the same is told, as [("0.5.0 – 0.6.7", what)]; others are left out."""
    runs: list[tuple[list[str], str]] = []
    previous: str | None = None
    for version in versions:
        what = told.get(version)
        if what is not None and what == previous:
            runs[-1][0].append(version)
        elif what is not None:
            runs.append(([version], what))
        previous = what
    return [(span(of), what) for of, what in runs]


def span(versions: Sequence[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} – {versions[-1]}"


def query_of(selection: Selection, **more: str) -> str:
    """The query string, with its `?`, by which pages of this room know a selection."""
    return f"?{urlencode({**dataclasses.asdict(selection), **more})}"
