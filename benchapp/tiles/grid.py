"""The M × N grid of one release: all variants of each tile in one cell, a block of rows for each K."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.urls import reverse

from benchapp.tiles.cells import Cell, cell_of
from benchapp.tiles.families import package
from benchapp.tiles.fates import Fate
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed
from benchapp.tiles.matrix import severity
from benchapp.tiles.models import Stage, Tile, Verdict
from benchapp.tiles.queries import MOST_TOLD, Column, Narrow, Selection, row_order, tiles_of
from benchapp.tiles.words import listed, signed, stages

#: So many variants of a tile are drawn glyph by glyph; more are counted.
MOST_GLYPHS = 6
#: A grid holds no more places; tiles that share few extents would make millions of them.
MOST_PLACES = 10_000
_KIND_ORDER = ("device", "full", "body", "types", "imported", "sources")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """One M × N at one K. Without `cells` nobody has looked at it in any release."""

    m: int
    n: int
    k: int
    look: str
    cells: tuple[Cell, ...] = ()
    #: glyphs in the order of the variants, each with its look; or counts of them
    glyphs: tuple[tuple[str, str], ...] = ()
    stages: str = ""
    #: the smallest margin, or the largest shortfall, in bytes
    margin_bytes: int | None = None
    spill_store_bytes: int | None = None
    kinds: tuple[str, ...] = ()
    classes: str = ""
    title: str = ""
    href: str = ""
    #: what `cell=` of the page's address says when this place is open
    name: str = ""

    @property
    def margin(self) -> str:
        return signed(self.margin_bytes)


@dataclasses.dataclass(frozen=True, slots=True)
class Band:
    """All rows of one K."""

    k: int
    rows: tuple[tuple[int, tuple[Place, ...]], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    column: Column
    ns: tuple[int, ...]
    bands: tuple[Band, ...]
    #: the address parameter of the place that opens the page
    telling: str
    #: variants looked at, and how many there are
    variants: int
    of_variants: int
    before: str = ""
    after: str = ""


def grid(
    selection: Selection,
    narrow: Narrow,
    columns: Sequence[Column],
    focus: str,
    listings: Mapping[Key, Listed],
    query: str,
) -> Grid | None:
    """The grid of the release `focus`, None where it is unknown.

    Rows and columns are those of all releases, so that two releases can be laid over each other.
    `query` is the filters' query string, for the addresses of places that hold several variants.
    """
    at = next((index for index, column in enumerate(columns) if column.version == focus), None)
    if at is None:
        return None
    found = tiles_of(selection, narrow)
    tiles = list(found[: MOST_TOLD + 1])
    total = found.count() if len(tiles) > MOST_TOLD else len(tiles)
    tiles = _drawable(tiles[:MOST_TOLD])
    verdicts = {
        verdict.tile_id: verdict
        for verdict in Verdict.objects.filter(
            tile__in=tiles, release__version=focus, release__package=package(selection.family)
        ).order_by()
    }
    base = reverse("tiles:index")
    cells: dict[tuple[int, int, int], list[Cell]] = defaultdict(list)
    ids: dict[tuple[int, int, int], int] = {}
    for tile in tiles:
        item = listings.get(Key.of(tile))
        cells[tile.m, tile.n, tile.k].append(cell_of(tile, columns[at], verdicts.get(tile.pk), item, base))
        if tile.pk in verdicts:
            ids[tile.m, tile.n, tile.k] = tile.pk
    ns = sorted({n for _, n, _ in cells})
    bands = []
    for k in sorted({k for _, _, k in cells}):
        ms = sorted({m for m, _, of in cells if of == k})
        rows = tuple(
            (m, tuple(_place(m, n, k, cells.get((m, n, k), []), ids, focus, base, query) for n in ns))
            for m in ms
        )
        bands.append(Band(k, rows))
    known = [column.version for column in columns if column.surveyed]
    here = known.index(focus) if focus in known else None
    return Grid(
        columns[at],
        tuple(ns),
        tuple(bands),
        _telling(bands),
        len(tiles),
        total,
        known[here - 1] if here else "",
        known[here + 1] if here is not None and here + 1 < len(known) else "",
    )


def _drawable(tiles: list[Tile]) -> list[Tile]:
    """As many tiles, in their order, as a grid of MOST_PLACES has places for."""
    rows: set[tuple[int, int]] = set()
    ns: set[int] = set()
    for at, tile in enumerate(tiles):
        rows.add((tile.k, tile.m))
        ns.add(tile.n)
        if len(rows) * len(ns) > MOST_PLACES:
            return tiles[:at]
    return tiles


def _place(
    m: int,
    n: int,
    k: int,
    cells: Sequence[Cell],
    ids: Mapping[tuple[int, int, int], int],
    focus: str,
    base: str,
    query: str,
) -> Place:
    known = [cell for cell in cells if cell.href]
    if not known:
        if not cells:
            return Place(m, n, k, "empty", title=f"{m}×{n}×{k}: nobody has looked at it")
        first = cells[0]
        return Place(
            m, n, k, first.look, tuple(cells), ((first.glyph, first.look),),
            title=f"{m}×{n}×{k} in {focus}: {first.text}",
        )  # fmt: skip
    worst = min(known, key=severity)
    looks = {cell.look for cell in known}
    mixed = "survived" in looks and len(looks) > 1
    margins = [margin for cell in known if (margin := cell.variant.margin_bytes) is not None]
    spilt = [cell.variant.spill_store_bytes for cell in known if cell.variant.spill_store_bytes is not None]
    kinds = {cell.variant.kind for cell in known}
    flags = [
        "mixed" if mixed else "",
        "chosen" if any(cell.variant.chosen for cell in known) else "",
        "spills" if any(cell.variant.spills for cell in known) else "",
        "heavy" if any(cell.variant.spills_heavily for cell in known) else "",
    ]
    alone = len(known) == 1
    return Place(
        m,
        n,
        k,
        worst.look,
        tuple(known),
        _glyphs(known),
        _stages(known),
        min(margins, default=None),
        max(spilt, default=None),
        tuple(kind for kind in _KIND_ORDER if kind in kinds),
        " ".join(filter(None, [worst.look, *flags])),
        f"{m}×{n}×{k} in {focus}: {_said(known)}",
        known[0].href if alone else f"{base}at/{m}x{n}x{k}/{focus}/{query}",
        f"{ids[m, n, k]}@{focus}" if alone else f"{m}x{n}x{k}@{focus}",
    )


def _glyphs(cells: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
    if len(cells) <= MOST_GLYPHS:
        return tuple((cell.glyph or "▨", cell.look) for cell in cells)
    counted = Counter((cell.glyph or "▨", cell.look) for cell in cells)
    return tuple((f"{number}{glyph}", look) for (glyph, look), number in counted.most_common())


def _stages(cells: Iterable[Cell]) -> str:
    """ "2–3 stages": pipeline stages from least to most."""
    found = sorted({cell.variant.stages for cell in cells if cell.variant.stages is not None})
    if len(found) > 1:
        return f"{found[0]}–{found[-1]} stages"
    return stages(found[0]) if found else ""


def _said(cells: Sequence[Cell]) -> str:
    if len(cells) == 1:
        return f"{cells[0].variant.epilogue}: {cells[0].text}"
    fitting = sum(cell.variant.reached(Stage.FITS) for cell in cells)
    others = [
        f"{cell.variant.epilogue} {cell.variant.extra}".rstrip() + f" {cell.text}"
        for cell in cells
        if cell.fate is not Fate.SURVIVED
    ]
    return f"{fitting} of {len(cells)} variants fit" + (f"; {listed(others, most=3)}" if others else "")


def _telling(bands: Iterable[Band]) -> str:
    places = [place for band in bands for _, row in band.rows for place in row if place.href]
    worst = min(places, key=lambda place: min(map(severity, place.cells)), default=None)
    return worst.name if worst else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """All variants of one tile in one release, for the panel beside the grid."""

    shape: str
    version: str
    href: str
    rows: tuple[Cell, ...]
    fitting: int


def pool(
    selection: Selection,
    narrow: Narrow,
    tile: tuple[int, int, int],
    column: Column,
    listings: Mapping[Key, Listed],
    query: str,
) -> Pool | None:
    """None where the release holds no variant of the tile. `tile` is (M, N, K) in elements."""
    m, n, k = tile
    verdicts = (
        Verdict.objects.filter(
            tile__in=tiles_of(selection, narrow).filter(m=m, n=n, k=k).order_by(),
            release__version=column.version,
            release__package=package(selection.family),
        )
        .select_related("tile")
        .order_by(*row_order("tile__"))[:MOST_TOLD]
    )
    base = reverse("tiles:index")
    rows = tuple(
        cell_of(verdict.tile, column, verdict, listings.get(Key.of(verdict.tile)), base)
        for verdict in verdicts
    )
    if not rows:
        return None
    return Pool(
        rows[0].variant.shape,
        column.version,
        f"{base}at/{m}x{n}x{k}/{column.version}/{query}",
        rows,
        sum(row.variant.reached(Stage.FITS) for row in rows),
    )
