"""The survivorship matrix: tile variants of one selection as rows, releases as columns."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from django.urls import reverse

from benchapp.catalog.models import Release
from benchapp.catalog.versions import newest_order
from benchapp.tiles.cells import Cell, cell_of
from benchapp.tiles.fates import Fate
from benchapp.tiles.headline import changes
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed
from benchapp.tiles.models import Tile, Verdict
from benchapp.tiles.queries import (
    Column,
    Narrow,
    Selection,
    around,
    columns_of,
    most_telling,
    variant_of,
    verdicts_of,
)

#: Up to so many columns, cells have room for their margins; from so many on they are drawn narrow, and then
#: narrower.
WIDE_UP_TO = 9
NARROW_FROM = 32
TIGHT_FROM = 42


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    tile_id: int
    epilogue: str
    #: cluster and schedule, as far as they are not what goes without saying
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
    #: CUTLASS version and how many neighbouring columns bundle it; none where columns are CUTLASS releases
    bands: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    #: rows left out because nothing changes in them, among those looked at
    hidden: int
    bounds: Bounds
    #: what changed in the focus release since the surveyed one before it
    since: str
    #: the cell that opens the page: the first wrong or failed one in the focus release
    telling: str

    @property
    def density(self) -> str:
        number = len(self.columns)
        if number <= WIDE_UP_TO:
            return "wide"
        return "narrow tight" if number >= TIGHT_FROM else "narrow" if number >= NARROW_FROM else ""


def matrix(
    selection: Selection,
    narrow: Narrow,
    every_release: Sequence[Release],
    surveyed_versions: set[str],
    listings: Mapping[str, Mapping[Key, Listed]],
    focus: str,
    *,
    only_changes: bool = False,
) -> Matrix:
    """At most MOST_ROWS × MOST_COLUMNS of a selection.

    Of more variants those that failed in some release come first; of more releases the newest are taken, or
    where `focus` is older, those up to it.
    """
    total, tiles = most_telling(selection, narrow)
    releases_ = around(every_release, focus)
    columns = columns_of(releases_, surveyed_versions)
    verdicts = verdicts_of(tiles, releases_)
    groups: list[Group] = []
    hidden = 0
    for _, found in itertools.groupby(tiles, key=lambda tile: (tile.m, tile.n, tile.k)):
        group = list(found)
        rows = [_row(tile, columns, verdicts, listings) for tile in group]
        shown = [
            row for row in rows if not only_changes or changes_in([cell.fate for cell in row.cells], columns)
        ]
        hidden += len(rows) - len(shown)
        if shown:
            groups.append(Group(variant_of(group[0], None).shape, tuple(shown)))
    bands = tuple(
        (cutlass, len(list(run)))
        for cutlass, run in itertools.groupby(columns, key=lambda column: column.cutlass)
    )
    return Matrix(
        columns,
        bands if any(column.cutlass != column.version for column in columns) else (),
        tuple(groups),
        hidden,
        Bounds(len(tiles), total, len(columns), len(every_release)),
        _since(tiles, columns, verdicts, focus) if len(tiles) == total else "",
        _telling(groups, columns, focus),
    )


def _row(
    tile: Tile,
    columns: Sequence[Column],
    verdicts: Mapping[tuple[int, str], Verdict],
    listings: Mapping[str, Mapping[Key, Listed]],
) -> Row:
    base = reverse("tiles:index")  # once a row: thousands of reversals would cost more than all queries
    key = Key.of(tile)
    cells = tuple(
        cell_of(
            tile,
            column,
            verdicts.get((tile.pk, column.version)),
            listings.get(column.version, {}).get(key),
            base,
        )
        for column in columns
    )
    variant = variant_of(tile, None)
    return Row(tile.pk, variant.epilogue, variant.extra, cells)


def _telling(groups: Sequence[Group], columns: Sequence[Column], focus: str) -> str:
    at = next((index for index, column in enumerate(columns) if column.version == focus), None)
    if at is None:
        return ""
    known = [row for group in groups for row in group.rows if row.cells[at].href]
    worst = min(known, key=lambda row: severity(row.cells[at]), default=None)
    return f"{worst.tile_id}@{focus}" if worst else ""


def severity(cell: Cell) -> tuple[int, int]:
    """The lower, the more a reader should look at it.

    Chosen and wrong, wrong, failed on a GPU, short of shared memory (the fewest bytes first), not compiling.
    """
    if cell.fate is Fate.INCORRECT and cell.variant.chosen:
        return 0, 0
    order = [Fate.INCORRECT, Fate.DEVICE_FAILURE, Fate.OVERFLOW, Fate.COMPILE_ERROR]
    if cell.fate not in order:
        return len(order) + 1, 0
    return order.index(cell.fate) + 1, -min(cell.variant.margin_bytes or 0, 0)


def changes_in(fates: Sequence[Fate], columns: Sequence[Column]) -> bool:
    """Whether a row's fate differs between surveyed releases."""
    return len({fate for fate, column in zip(fates, columns, strict=True) if column.surveyed}) > 1


def _since(
    tiles: Sequence[Tile],
    columns: Sequence[Column],
    verdicts: Mapping[tuple[int, str], Verdict],
    focus: str,
) -> str:
    known = [column.version for column in columns if column.surveyed]
    earlier = [] if focus not in known else known[: known.index(focus)]
    if not earlier:
        return ""
    before = max(earlier, key=newest_order)
    return changes(_fates(tiles, verdicts, before), _fates(tiles, verdicts, focus), before)


def _fates(
    tiles: Sequence[Tile], verdicts: Mapping[tuple[int, str], Verdict], version: str
) -> dict[str, Fate]:
    return {
        variant.name: variant.fate
        for tile in tiles
        if (verdict := verdicts.get((tile.pk, version))) is not None
        for variant in [variant_of(tile, verdict)]
    }
