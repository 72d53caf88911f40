"""The survivorship matrix: tile variants of one selection as rows, FlashInfer releases as columns."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from benchapp.catalog.models import Release, Target
from benchapp.catalog.versions import version_order
from benchapp.runs.models import Document, Run, State
from benchapp.tiles.fates import GLYPHS, LOOKS, Fate, Variant
from benchapp.tiles.models import Evidence, Stage, Tile, Verdict
from benchapp.tiles.words import Summary, cell, changes, summary

PACKAGE = "flashinfer"
#: The architecture whose tiles are in doubt most often comes first, where any of it were surveyed.
FIRST_ARCH = "sm120"
#: How a survey fails whose version cannot be had.
NOT_THERE = frozenset({"unknown_version", "no_wheel"})
_ROW_ORDER = ("m", "n", "k", "cluster", "schedule", "-fusion", "swap_ab", "pk")
#: A page holds no more rows and columns than these; exports hold all, a block of rows at a time.
MOST_ROWS = 200
MOST_COLUMNS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What one matrix is about: an architecture and a family with its input and output types."""

    arch: str
    family: str
    inputs: str
    output: str


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    version: str
    cutlass: str
    surveyed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    variant: Variant
    fate: Fate
    look: str
    glyph: str
    text: str
    title: str
    href: str


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    tile_id: int
    epilogue: str
    #: cluster and schedule, where rows of the tile differ in them
    extra: str
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """All variants of one tile, M×N×K."""

    shape: str
    rows: tuple[Row, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a selection a matrix looks at: variants (rows) and releases (columns)."""

    variants: int
    of_variants: int
    releases: int
    of_releases: int


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    columns: tuple[Column, ...]
    #: CUTLASS version and how many neighbouring columns bundle it
    bands: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    #: rows left out because nothing changes in them, among those looked at
    hidden: int
    bounds: Bounds
    summary: Summary | None
    since: str
    #: the cell that opens the page: the first wrong or failed one in the release that the words are about
    telling: str


def selections() -> list[tuple[Selection, int]]:
    """Every selection that holds tiles, with how many; the fullest first."""
    counted = Tile.objects.values_list("arch", "family", "inputs", "output").annotate(tiles=Count("pk"))
    return [
        (Selection(*row[:4]), row[4])
        for row in counted.order_by("-tiles", "arch", "family", "inputs", "output")
    ]


def surveyed() -> dict[str, set[str]]:
    """FlashInfer versions whose generator was run, by architecture: only there can a tile be absent."""
    pairs = (
        Document.objects.filter(kind="tiles", state=Document.State.ACCEPTED, target__kind=Target.Kind.ARCH)
        .values_list("target__arch", "stack__components__flashinfer")
        .distinct()
    )
    versions: dict[str, set[str]] = defaultdict(set)
    for arch, version in pairs:
        versions[arch].add(version)
    return versions


def releases() -> list[Release]:
    """All releases of the package, in release order."""
    return sorted(Release.objects.filter(package=PACKAGE), key=lambda release: version_order(release.version))


def survey_runs() -> list[Run]:
    """Tile surveys under way, and the failed ones among the newest few, newest first.

    A version that does not exist or has no wheel is told where it was asked for, and is nothing a reader of
    the matrix could act on.
    """
    newest = Run.objects.filter(kind=Run.Kind.TILES).select_related("recipe")[:20]
    return [
        run
        for run in newest
        if run.state in (State.QUEUED, State.RUNNING, State.DELIVERED, State.FAILED)
        and run.failure_code not in NOT_THERE
    ]


def matrix(
    selection: Selection,
    every_release: Sequence[Release],
    surveyed_versions: set[str],
    focus: str,
    *,
    only_changes: bool = False,
) -> Matrix:
    """The matrix of a selection, at most MOST_ROWS × MOST_COLUMNS; its words speak of the release `focus`.

    Of more variants those that failed in some release come first; of more releases the newest are taken, or
    where `focus` is older, those up to it.
    """
    total, tiles = _most_telling(selection)
    releases_ = _around(every_release, focus)
    columns = columns_of(releases_, surveyed_versions)
    verdicts = verdicts_of(tiles, releases_)
    groups: list[Group] = []
    hidden = 0
    for _, found in itertools.groupby(tiles, key=lambda tile: (tile.m, tile.n, tile.k)):
        group = list(found)
        several = len({(tile.cluster, tile.schedule) for tile in group}) > 1
        rows = [_row(tile, several, columns, verdicts) for tile in group]
        shown = [
            row for row in rows if not only_changes or changes_in([cell.fate for cell in row.cells], columns)
        ]
        hidden += len(rows) - len(shown)
        if shown:
            groups.append(Group(shown[0].cells[0].variant.shape if columns else "", tuple(shown)))
    if len(tiles) < total:
        summary_, since = _words_of_many(selection, focus), ""
    else:
        summary_, since = _words(selection.arch, tiles, columns, verdicts, focus)
    bands = tuple(
        (cutlass, len(list(run)))
        for cutlass, run in itertools.groupby(columns, key=lambda column: column.cutlass)
    )
    bounds = Bounds(len(tiles), total, len(columns), len(every_release))
    telling = _telling(groups, columns, focus)
    return Matrix(columns, bands, tuple(groups), hidden, bounds, summary_, since, telling)


def tiles_of(selection: Selection) -> QuerySet[Tile]:
    return Tile.objects.filter(**dataclasses.asdict(selection)).order_by(*_ROW_ORDER)


def _most_telling(selection: Selection) -> tuple[int, list[Tile]]:
    """How many variants there are, and at most MOST_ROWS of them in row order; those that failed go first."""
    found = tiles_of(selection)
    if len(all_of_few := list(found[: MOST_ROWS + 1])) <= MOST_ROWS:
        return len(all_of_few), all_of_few
    failed = Verdict.objects.filter(~Q(failed_stage="") | ~Q(reason=""), tile=OuterRef("pk"))
    first = found.annotate(failed=Exists(failed)).order_by("-failed", *_ROW_ORDER)
    kept = list(first.values_list("pk", flat=True)[:MOST_ROWS])
    return found.count(), list(found.filter(pk__in=kept))


def _around(every_release: Sequence[Release], focus: str) -> Sequence[Release]:
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
    bare = Variant((tile.m, tile.n, tile.k), tile.fusion, tile.swap_ab)
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
    )


def _row(
    tile: Tile, several: bool, columns: Sequence[Column], verdicts: Mapping[tuple[int, str], Verdict]
) -> Row:
    base = reverse("tiles:index")  # once a row: thousands of reversals would cost more than all queries
    cells = tuple(_cell(tile, column, verdicts.get((tile.pk, column.version)), base) for column in columns)
    extra = f"{tile.cluster} {tile.schedule}".strip() if several else ""
    return Row(tile.pk, variant_of(tile, None).epilogue, extra, cells)


def _cell(tile: Tile, column: Column, verdict: Verdict | None, base: str) -> Cell:
    variant = variant_of(tile, verdict)
    fate = fate_of(variant, verdict, column)
    text = cell(variant) if verdict else "not in this version" if column.surveyed else "not tested"
    return Cell(
        variant=variant,
        fate=fate,
        look=LOOKS.get(fate, fate.value),
        glyph=GLYPHS[fate],
        text=text,
        title=f"{variant.name} in {column.version}: {text}",
        href=f"{base}{tile.pk}/{column.version}/" if verdict is not None else "",
    )


def fate_of(variant: Variant, verdict: Verdict | None, column: Column) -> Fate:
    if verdict is not None:
        return variant.fate
    return Fate.ABSENT if column.surveyed else Fate.UNTESTED


def _telling(groups: Sequence[Group], columns: Sequence[Column], focus: str) -> str:
    at = next((index for index, column in enumerate(columns) if column.version == focus), None)
    rows = [row for group in groups for row in group.rows] if at is not None else []
    known = [row for row in rows if row.cells[at or 0].href]
    rank = {"incorrect": 0, "failed": 1}
    worst = min(known, key=lambda row: rank.get(row.cells[at or 0].look, 2), default=None)
    return f"{worst.tile_id}@{focus}" if worst else ""


def changes_in(fates: Sequence[Fate], columns: Sequence[Column]) -> bool:
    """Whether a row's fate differs between surveyed releases."""
    return len({fate for fate, column in zip(fates, columns, strict=True) if column.surveyed}) > 1


def _words(
    arch: str,
    tiles: Sequence[Tile],
    columns: Sequence[Column],
    verdicts: Mapping[tuple[int, str], Verdict],
    focus: str,
) -> tuple[Summary | None, str]:
    """The sentences about the release `focus`, and what changed since the surveyed release before it."""
    if not focus:
        return None, ""
    parts = dict(
        Evidence.objects.filter(
            tile__in=tiles, release__version=focus, stage=Stage.FITS, passed=False
        ).values_list("tile_id", "parts")
    )
    held = [
        variant_of(tile, verdict, parts.get(tile.pk))
        for tile in tiles
        if (verdict := verdicts.get((tile.pk, focus))) is not None
    ]
    known = [column.version for column in columns if column.surveyed]
    since = ""
    if focus in known and (position := known.index(focus)) > 0:
        before = known[position - 1]
        since = changes(_fates(tiles, verdicts, before), _fates(tiles, verdicts, focus), before)
    return summary(focus, arch, held), since


def _words_of_many(selection: Selection, focus: str) -> Summary | None:
    """The counts of a release whose variants are too many to be looked at one by one."""
    if not focus:
        return None
    of_selection = {f"tile__{name}": value for name, value in dataclasses.asdict(selection).items()}
    counted = (
        Verdict.objects.filter(**of_selection, release__package=PACKAGE, release__version=focus)
        .values_list("stage", "failed_stage", "reason")
        .annotate(variants=Count("pk"))
        .order_by("stage", "failed_stage", "reason")
    )
    held: list[Variant] = []
    for stage, failed_stage, reason, number in counted:
        held += [Variant((0, 0, 0), "", False, stage, failed_stage, reason)] * number
    return summary(focus, selection.arch, held, counts_only=True)


def _fates(
    tiles: Sequence[Tile], verdicts: Mapping[tuple[int, str], Verdict], version: str
) -> dict[str, Fate]:
    return {
        f"{variant.name} {tile.cluster} {tile.schedule}".strip(): variant.fate
        for tile in tiles
        if (verdict := verdicts.get((tile.pk, version))) is not None
        for variant in [variant_of(tile, verdict)]
    }
