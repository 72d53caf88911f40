"""What stands near one tile variant: other epilogues, the next tiles, itself on other architectures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from django.db.models import Q

from benchapp.catalog.models import Release
from benchapp.tiles import words
from benchapp.tiles.families import RESCUE
from benchapp.tiles.fates import GLYPHS, Variant, look
from benchapp.tiles.models import Tile, Verdict
from benchapp.tiles.queries import variant_of

#: Rows of a table of neighbours; the closest ones are kept.
MOST_SIBLINGS = 12
#: Verdicts looked at to find them.
MOST_READ = 400
EXTENTS = ("m", "n", "k")


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbour:
    """A variant near the one looked at; `label` says in what it differs."""

    tile_id: int
    label: str
    variant: Variant
    look: str
    glyph: str
    text: str
    spill_store_bytes: int | None = None
    current: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbours:
    """`siblings` are other fusions, swaps, schedules and clusters of the tile, `next` the tiles one step
    away in M, N or K, `rescues` the same variant compiled with another stage count."""

    siblings: tuple[Neighbour, ...]
    more_siblings: int
    next: tuple[Neighbour, ...]
    rescues: tuple[Neighbour, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Elsewhere:
    """The same variant on another architecture; without a verdict `neighbour` is None."""

    arch: str
    neighbour: Neighbour | None
    said: str


def neighbour(tile: Tile, verdict: Verdict, label: str, *, current: bool = False) -> Neighbour:
    variant = variant_of(tile, verdict)
    return Neighbour(
        tile_id=tile.pk,
        label=label,
        variant=variant,
        look=look(variant.fate),
        glyph=GLYPHS[variant.fate],
        text=words.cell(variant),
        spill_store_bytes=verdict.spill_store_bytes,
        current=current,
    )


def near(tile: Tile, release: Release) -> list[Verdict]:
    """Verdicts in this release of all that `arrange` and `elsewhere` place, the tile's own among them."""
    extents = {f"tile__{extent}": getattr(tile, extent) for extent in EXTENTS}
    same_tile = Q(**extents)
    same_epilogue = Q(tile__fusion=tile.fusion, tile__swap_ab=tile.swap_ab)
    one_step = Q()
    for extent in EXTENTS:
        one_step |= Q(**{name: value for name, value in extents.items() if name != f"tile__{extent}"})
    along = one_step & same_epilogue & Q(tile__cluster=tile.cluster, tile__schedule=tile.schedule)
    here = Q(tile__arch=tile.arch)
    own = Q(tile__family=tile.family)
    rescue = Q(tile__family=_counterpart(tile.family)) & same_tile & same_epilogue
    return list(
        Verdict.objects.filter(
            (here & own & (same_tile | along)) | (here & rescue) | (own & same_tile & same_epilogue),
            release=release,
            tile__inputs=tile.inputs,
            tile__output=tile.output,
        )
        .select_related("tile")
        .order_by("tile__m", "tile__n", "tile__k", "tile_id")[:MOST_READ]
    )


def _counterpart(family: str) -> str:
    return family.removesuffix(RESCUE) if family.endswith(RESCUE) else family + RESCUE


def arrange(tile: Tile, verdicts: Iterable[Verdict]) -> Neighbours:
    """Sort what `near` found."""
    same, others, rescues = [], [], []
    for verdict in verdicts:
        if verdict.tile.arch != tile.arch:
            continue
        if verdict.tile.family != tile.family:
            rescues.append(neighbour(verdict.tile, verdict, _family_label(verdict.tile)))
        elif _extents(verdict.tile) == _extents(tile):
            same.append(verdict)
        else:
            others.append(verdict)
    closest = sorted(same, key=lambda verdict: (_distance(tile, verdict.tile), _epilogue_order(verdict.tile)))
    kept = sorted(closest[:MOST_SIBLINGS], key=lambda verdict: _epilogue_order(verdict.tile))
    several = len({(verdict.tile.cluster, verdict.tile.schedule) for verdict in same}) > 1
    siblings = tuple(
        neighbour(one.tile, one, _epilogue(one.tile, several), current=one.tile_id == tile.pk) for one in kept
    )
    return Neighbours(
        siblings, len(same) - len(kept), tuple(_next(tile, others)), tuple(rescues[:MOST_SIBLINGS])
    )


def _extents(tile: Tile) -> tuple[int, int, int]:
    return tile.m, tile.n, tile.k


def _distance(tile: Tile, other: Tile) -> int:
    """In how many of fusion, swap, schedule and cluster two variants differ."""
    names = ("fusion", "swap_ab", "schedule", "cluster")
    return sum(getattr(tile, name) != getattr(other, name) for name in names)


def _epilogue_order(tile: Tile) -> tuple[str, str, bool, str, bool, int]:
    return tile.cluster, tile.schedule, tile.fusion.lower() != "none", tile.fusion, tile.swap_ab, tile.pk


def _epilogue(tile: Tile, several: bool) -> str:
    said = variant_of(tile, None).epilogue
    return f"{said} {tile.cluster} {tile.schedule}".strip() if several else said


def _family_label(tile: Tile) -> str:
    return "one stage less" if tile.family.endswith(RESCUE) else "as the release ships it"


def _next(tile: Tile, others: Sequence[Verdict]) -> Iterable[Neighbour]:
    """The nearest smaller and larger tile along each of M, N and K."""
    for extent in EXTENTS:
        here = getattr(tile, extent)
        along = [one for one in others if getattr(one.tile, extent) != here]
        smaller = [one for one in along if getattr(one.tile, extent) < here]
        larger = [one for one in along if getattr(one.tile, extent) > here]
        for found in (
            max(smaller, key=lambda one: getattr(one.tile, extent), default=None),
            min(larger, key=lambda one: getattr(one.tile, extent), default=None),
        ):
            if found is not None:
                yield neighbour(found.tile, found, extent.upper())


def elsewhere(
    tile: Tile, verdicts: Iterable[Verdict], surveyed_archs: Iterable[str]
) -> tuple[Elsewhere, ...]:
    """The same tile and epilogue on every other architecture, of what `near` found.

    Clusters and schedules differ between architectures: the one most like this variant is shown. Where a
    survey looked and found none, that is said.
    """
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.tile.arch != tile.arch:
            found.setdefault(verdict.tile.arch, []).append(verdict)
    return tuple(
        _on(arch, tile, found.get(arch, [])) for arch in sorted({*found, *surveyed_archs} - {tile.arch})
    )


def _on(arch: str, tile: Tile, verdicts: Sequence[Verdict]) -> Elsewhere:
    if not verdicts:
        return Elsewhere(arch, None, "not among its tiles")
    best = min(verdicts, key=lambda one: (_distance(tile, one.tile), one.tile_id))
    exact = _distance(tile, best.tile) == 0
    label = "" if exact else f"{best.tile.cluster} {best.tile.schedule}".strip()
    shown = neighbour(best.tile, best, label)
    return Elsewhere(arch, shown, shown.text)
