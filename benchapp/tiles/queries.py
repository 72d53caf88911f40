"""Reads of the tile room: what can be selected, which releases were looked at, and what is known in them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, When

from benchapp.catalog.models import Release
from benchapp.catalog.versions import version_order
from benchapp.runs.models import Run, State
from benchapp.runs.states import ACTIVE
from benchapp.tiles.families import FAMILIES
from benchapp.tiles.fates import Variant
from benchapp.tiles.models import Evidence, Stage, Tile, Verdict

PACKAGE = "flashinfer"
#: The architecture whose tiles are in doubt most often comes first, where any of it were surveyed.
FIRST_ARCH = "sm120"
#: So do the inputs that the question began with.
FIRST_INPUTS = "nvfp4xnvfp4"
#: How a survey fails whose version cannot be had.
NOT_THERE = frozenset({"unknown_version", "no_wheel"})
#: A failure is told while it is among so many newest runs.
MOST_RECENT = 20
#: A page holds no more rows and columns than these; exports hold all, a block of rows at a time.
MOST_ROWS = 200
MOST_COLUMNS = 60
#: Words about a release, and its grid, look at no more variants than this one by one.
MOST_TOLD = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What one matrix is about: an architecture and a family with its input and output types."""

    arch: str
    family: str
    inputs: str
    output: str

    def query(self, **more: str) -> str:
        """The query string, with its `?`, by which pages of this room know a selection."""
        return f"?{urlencode({**dataclasses.asdict(self), **more})}"


@dataclasses.dataclass(frozen=True, slots=True)
class Narrow:
    """Which of a selection's variants are looked at; None takes all. `k` in elements."""

    k: int | None = None
    fusion: str | None = None
    swap_ab: bool | None = None
    schedule: str | None = None

    @property
    def filters(self) -> dict[str, int | str | bool]:
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def takes(self, variant: Variant) -> bool:
        return (
            self.k in (None, variant.tile[2])
            and self.fusion in (None, variant.fusion)
            and self.swap_ab in (None, variant.swap_ab)
            and self.schedule in (None, variant.schedule)
        )

    def __str__(self) -> str:
        swap = {None: "", True: "swap", False: "no swap"}[self.swap_ab]
        fusion = f"fusion {self.fusion.lower()}" if self.fusion else ""
        words = [f"K {self.k}" if self.k else "", fusion, swap, self.schedule or ""]
        return ", ".join(filter(None, words))


EVERYTHING = Narrow()


@dataclasses.dataclass(frozen=True, slots=True)
class Facet:
    """Values that occur together, and how many tiles have them."""

    selection: Selection
    k: int
    fusion: str
    swap_ab: bool
    schedule: str
    tiles: int


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    version: str
    cutlass: str
    surveyed: bool


def facets() -> list[Facet]:
    """All that can be filtered by, in an order of its own."""
    fields = ("arch", "family", "inputs", "output", "k", "fusion", "swap_ab", "schedule")
    counted = Tile.objects.order_by().values_list(*fields).annotate(tiles=Count("pk"))
    return sorted(
        (Facet(Selection(*row[:4]), *row[4:]) for row in counted),
        key=lambda facet: dataclasses.astuple(facet),
    )


def selections(of: Sequence[Facet]) -> list[Selection]:
    """Every selection that holds tiles: families in their own order, FIRST_INPUTS first, then the fullest."""
    tiles: dict[Selection, int] = defaultdict(int)
    for facet in of:
        tiles[facet.selection] += facet.tiles
    order = list(FAMILIES)

    def place(chosen: Selection) -> tuple[int, bool, int, tuple[str, ...]]:
        family = order.index(chosen.family) if chosen.family in order else len(order)
        return family, chosen.inputs != FIRST_INPUTS, -tiles[chosen], dataclasses.astuple(chosen)

    return sorted(tiles, key=place)


def looked_at(**of: str) -> QuerySet[Verdict]:
    """Verdicts of surveys. Only where a survey looked can a tile be absent; others' files are no survey."""
    return Verdict.objects.filter(**of).exclude(source="imported").order_by()


def surveyed() -> dict[tuple[str, str], set[str]]:
    """Versions in which a survey looked at a family, by architecture and family."""
    versions: dict[tuple[str, str], set[str]] = defaultdict(set)
    fields = ("tile__arch", "tile__family", "release__version")
    for arch, family, version in looked_at().values_list(*fields).distinct():
        versions[arch, family].add(version)
    return versions


def surveyed_releases(arch: str, family: str) -> list[Release]:
    """Releases in which a survey looked at this family on this architecture, in release order."""
    looked = looked_at(tile__arch=arch, tile__family=family)
    found = Release.objects.filter(pk__in=looked.values("release"))
    return sorted(found, key=lambda release: version_order(release.version))


def releases() -> dict[str, list[Release]]:
    """All releases in release order, by package."""
    found: dict[str, list[Release]] = defaultdict(list)
    for release in sorted(Release.objects.all(), key=lambda release: version_order(release.version)):
        found[release.package].append(release)
    return found


def survey_runs() -> tuple[list[Run], list[Run]]:
    """Runs of kind tiles under way, those at work first and then as workers will take them; and those among
    the newest few that failed, newest first.

    A version that does not exist or has no wheel is told where it was asked for, and is nothing a reader of
    the matrix could act on.
    """
    of_tiles = Run.objects.filter(kind=Run.Kind.TILES)
    lately = of_tiles.order_by("-pk").values("pk")[:MOST_RECENT]
    waiting = Case(When(state=State.QUEUED, then=1), default=0)
    found = of_tiles.filter(Q(state__in=ACTIVE) | Q(state=State.FAILED, pk__in=lately))
    runs = list(found.select_related("recipe", "job").order_by(waiting, "-priority", "pk"))
    failed = [run for run in runs if run.state == State.FAILED and run.failure_code not in NOT_THERE]
    return [run for run in runs if run.state in ACTIVE], sorted(failed, key=lambda run: -run.pk)


def row_order(tile: str = "") -> list[str | Case]:
    """By tile, cluster, schedule, fusion with NONE first, then swap; `tile` leads to the tile."""
    plain = Case(When(**{f"{tile}fusion": "none"}, then=0), default=1)
    before = [f"{tile}{name}" for name in ("m", "n", "k", "cluster", "schedule")]
    return [*before, plain, *(f"{tile}{name}" for name in ("fusion", "swap_ab", "pk"))]


def tiles_of(selection: Selection, narrow: Narrow = EVERYTHING) -> QuerySet[Tile]:
    return Tile.objects.filter(**dataclasses.asdict(selection), **narrow.filters).order_by(*row_order())


def most_telling(selection: Selection, narrow: Narrow) -> tuple[int, list[Tile]]:
    """How many variants there are, and at most MOST_ROWS of them in row order; those that failed go first."""
    found = tiles_of(selection, narrow)
    if len(all_of_few := list(found[: MOST_ROWS + 1])) <= MOST_ROWS:
        return len(all_of_few), all_of_few
    failed = Verdict.objects.filter(~Q(failed_stage="") | ~Q(reason=""), tile=OuterRef("pk"))
    first = found.annotate(failed=Exists(failed)).order_by("-failed", *row_order())
    kept = list(first.values_list("pk", flat=True)[:MOST_ROWS])
    return found.count(), list(found.filter(pk__in=kept))


def around(every_release: Sequence[Release], focus: str) -> Sequence[Release]:
    """The newest MOST_COLUMNS releases, or where `focus` is older, those up to it."""
    newest = every_release[-MOST_COLUMNS:]
    at = next((index for index, release in enumerate(every_release) if release.version == focus), None)
    if at is None or every_release[at] in newest:
        return newest
    return every_release[max(0, at + 1 - MOST_COLUMNS) : at + 1]


def columns_of(releases_: Sequence[Release], surveyed_versions: set[str]) -> tuple[Column, ...]:
    return tuple(Column(r.version, r.cutlass, r.version in surveyed_versions) for r in releases_)


def verdicts_of(tiles: Sequence[Tile], releases_: Sequence[Release]) -> dict[tuple[int, str], Verdict]:
    version_of = {release.pk: release.version for release in releases_}
    found = Verdict.objects.filter(tile__in=tiles, release__in=version_of).order_by()
    return {(verdict.tile_id, version_of[verdict.release_id]): verdict for verdict in found}


def variant_of(tile: Tile, verdict: Verdict | None, parts: Mapping[str, int] | None = None) -> Variant:
    bare = Variant(
        (tile.m, tile.n, tile.k), tile.fusion, tile.swap_ab, cluster=tile.cluster, schedule=tile.schedule
    )
    if verdict is None:
        return bare
    return dataclasses.replace(
        bare,
        stage=verdict.stage,
        failed_stage=verdict.failed_stage,
        reason=verdict.reason,
        tier=verdict.tier,
        stages=verdict.stages,
        need_bytes=verdict.need_bytes,
        limit_bytes=verdict.limit_bytes,
        parts=parts or {},
        source=verdict.source,
        spill_store_bytes=verdict.spill_store_bytes,
        chosen=verdict.chosen,
    )


def held_in(release: Release | None, selection: Selection) -> list[tuple[Tile, Variant]] | None:
    """All that is known of a selection in one release, with the parts of the bytes needed; in row order.

    None where there is more than MOST_TOLD of it. Two queries.
    """
    if release is None:
        return []
    of_tile = {f"tile__{name}": value for name, value in dataclasses.asdict(selection).items()}
    verdicts = list(
        Verdict.objects.filter(**of_tile, release=release)
        .select_related("tile")
        .order_by(*row_order("tile__"))[: MOST_TOLD + 1]
    )
    if len(verdicts) > MOST_TOLD:
        return None
    sized = Evidence.objects.filter(**of_tile, release=release, stage=Stage.FITS, need_bytes__isnull=False)
    parts = {
        (tile_id, need): parts
        for tile_id, need, parts in sized.order_by("pk").values_list("tile_id", "need_bytes", "parts")
    }
    return [
        (
            verdict.tile,
            variant_of(verdict.tile, verdict, parts.get((verdict.tile_id, verdict.need_bytes or 0))),
        )
        for verdict in verdicts
    ]


def counts_in(release: Release, selection: Selection, narrow: Narrow) -> list[Variant]:
    """As many variants as a release holds, told apart by how they ended and by nothing else."""
    of_selection = {
        f"tile__{name}": value for name, value in (dataclasses.asdict(selection) | narrow.filters).items()
    }
    counted = (
        Verdict.objects.filter(**of_selection, release=release)
        .values_list("stage", "failed_stage", "reason")
        .annotate(variants=Count("pk"))
        .order_by("stage", "failed_stage", "reason")
    )
    held: list[Variant] = []
    for stage, failed_stage, reason, number in counted:
        held += [Variant((0, 0, 0), "", False, stage, failed_stage, reason)] * number
    return held


def fitting_in(release: Release | None, arch: str, inputs: str, families: Sequence[str]) -> list[Variant]:
    """Variants of these families that fit in a release, whatever their output type."""
    if release is None:
        return []
    verdicts = Verdict.objects.filter(
        release=release,
        tile__arch=arch,
        tile__inputs=inputs,
        tile__family__in=families,
        failed_stage="",
        need_bytes__isnull=False,
    ).select_related("tile")
    return [variant_of(verdict.tile, verdict) for verdict in verdicts.order_by("pk")[:MOST_TOLD]]
