"""The survivorship matrix: tile variants of one selection as rows, FlashInfer releases as columns."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from django.db.models import Count
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
class Matrix:
    columns: tuple[Column, ...]
    #: CUTLASS version and how many neighbouring columns bundle it
    bands: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    #: rows left out because nothing changes in them
    hidden: int
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
    """Tile surveys under way, and the failed ones among the newest few, newest first."""
    newest = Run.objects.filter(kind=Run.Kind.TILES).select_related("recipe")[:20]
    return [
        run for run in newest if run.state in (State.QUEUED, State.RUNNING, State.DELIVERED, State.FAILED)
    ]


def matrix(
    selection: Selection,
    every_release: Sequence[Release],
    surveyed_versions: set[str],
    focus: str,
    *,
    only_changes: bool = False,
) -> Matrix:
    """The matrix of a selection; its words speak of the release `focus`."""
    tiles = list(
        Tile.objects.filter(**dataclasses.asdict(selection)).order_by(
            "m", "n", "k", "cluster", "schedule", "-fusion", "swap_ab"
        )
    )
    columns = tuple(Column(r.version, r.cutlass, r.version in surveyed_versions) for r in every_release)
    version_of = {release.pk: release.version for release in every_release}
    verdicts = {
        (verdict.tile_id, version_of[verdict.release_id]): verdict
        for verdict in Verdict.objects.filter(tile__in=tiles, release__in=version_of).order_by()
    }
    groups: list[Group] = []
    hidden = 0
    for _, found in itertools.groupby(tiles, key=lambda tile: (tile.m, tile.n, tile.k)):
        group = list(found)
        several = len({(tile.cluster, tile.schedule) for tile in group}) > 1
        rows = [_row(tile, several, columns, verdicts) for tile in group]
        shown = [row for row in rows if not only_changes or _changes(row, columns)]
        hidden += len(rows) - len(shown)
        if shown:
            groups.append(Group(shown[0].cells[0].variant.shape if columns else "", tuple(shown)))
    summary_, since = _words(selection.arch, tiles, columns, verdicts, focus)
    bands = tuple(
        (cutlass, len(list(run)))
        for cutlass, run in itertools.groupby(columns, key=lambda column: column.cutlass)
    )
    return Matrix(columns, bands, tuple(groups), hidden, summary_, since, _telling(groups, columns, focus))


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
    if verdict is not None:
        fate, text = variant.fate, cell(variant)
    elif column.surveyed:
        fate, text = Fate.ABSENT, "not in this version"
    else:
        fate, text = Fate.UNTESTED, "not tested"
    return Cell(
        variant=variant,
        fate=fate,
        look=LOOKS.get(fate, fate.value),
        glyph=GLYPHS[fate],
        text=text,
        title=f"{variant.name} in {column.version}: {text}",
        href=f"{base}{tile.pk}/{column.version}/" if verdict is not None else "",
    )


def _telling(groups: Sequence[Group], columns: Sequence[Column], focus: str) -> str:
    at = next((index for index, column in enumerate(columns) if column.version == focus), None)
    rows = [row for group in groups for row in group.rows] if at is not None else []
    known = [row for row in rows if row.cells[at or 0].href]
    rank = {"incorrect": 0, "failed": 1}
    worst = min(known, key=lambda row: rank.get(row.cells[at or 0].look, 2), default=None)
    return f"{worst.tile_id}@{focus}" if worst else ""


def _changes(row: Row, columns: Sequence[Column]) -> bool:
    """Whether its fate differs between surveyed releases."""
    return len({cell.fate for cell, column in zip(row.cells, columns, strict=True) if column.surveyed}) > 1


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


def _fates(
    tiles: Sequence[Tile], verdicts: Mapping[tuple[int, str], Verdict], version: str
) -> dict[str, Fate]:
    return {
        f"{variant.name} {tile.cluster} {tile.schedule}".strip(): variant.fate
        for tile in tiles
        if (verdict := verdicts.get((tile.pk, version))) is not None
        for variant in [variant_of(tile, verdict)]
    }


def flat(selection: Selection, found: Matrix) -> Iterator[dict[str, str | int | bool | None]]:
    """One row a cell, for CSV and JSON: sizes in bytes, tiles in elements."""
    for group in found.groups:
        for row in group.rows:
            for column, at in zip(found.columns, row.cells, strict=True):
                m, n, k = at.variant.tile
                yield {
                    **dataclasses.asdict(selection),
                    "tile_id": row.tile_id,
                    "m": m,
                    "n": n,
                    "k": k,
                    "fusion": at.variant.fusion,
                    "swap_ab": at.variant.swap_ab,
                    "variant": row.extra,
                    "flashinfer": column.version,
                    "cutlass": column.cutlass,
                    "fate": at.fate.value,
                    "stage": at.variant.stage,
                    "failed_stage": at.variant.failed_stage,
                    "reason": at.variant.reason,
                    "tier": at.variant.tier,
                    "stages": at.variant.stages,
                    "need_bytes": at.variant.need_bytes,
                    "limit_bytes": at.variant.limit_bytes,
                    "margin_bytes": at.variant.margin_bytes,
                }
