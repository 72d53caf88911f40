"""Tiles larger than a release holds: whether they would fit, and what size buys. Pure functions.

Sizes are bytes, tiles (M, N, K) in elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchapp.tiles.fates import Variant, shape
from benchapp.tiles.intensity import tile_intensity
from benchapp.tiles.reasons import FEWEST_STAGES, stage_bytes
from benchapp.tiles.words import count, size
from benchapp.web.templatetags.units import operand_types

Tile = tuple[int, int, int]


def larger(
    largest: Sequence[Variant], anywhere: Mapping[Tile, int], unshipped: Sequence[Variant], cutlass: str
) -> Iterator[str]:
    """What is known of the next size up: the shorter side of each of the `largest` tiles doubled.

    `anywhere` counts the versions that list a tile; `unshipped` fit, built from CUTLASS `cutlass`.
    """
    next_up: dict[Tile, Variant] = {}
    for variant in largest:
        m, n, k = variant.tile
        tile = (m, 2 * n, k) if n <= m else (2 * m, n, k)
        next_up.setdefault(tile, variant)
    for tile, basis in sorted(next_up.items())[:2]:
        if tile in anywhere:
            versions = anywhere[tile]
            others = f"{count(versions)} other version{'s list' if versions > 1 else ' lists'} it"
            yield f"The next size up, {shape(tile)}, is not in this version; {others}, so its list omits it."
            continue
        start = f"No version known here lists the next size up, {shape(tile)}: nothing offers it."
        built = [variant for variant in unshipped if variant.tile == tile]
        if built:
            best = min(built, key=lambda v: (v.spill_store_bytes or 0, v.need_bytes or 0))
            spills = (
                ""
                if best.spill_store_bytes is None
                else f" and spills {size(best.spill_store_bytes)} a thread"
                if best.spill_store_bytes
                else " and spills nothing"
            )
            yield (
                f"{start} CUTLASS {cutlass} can build it: {size(best.need_bytes or 0)} at "
                f"{best.stages} stages, which fits{spills}."
            )
        elif (need := need_of_next(basis, tile)) is not None and basis.limit_bytes:
            verdict = (
                "so shared memory is not what keeps it out"
                if need <= basis.limit_bytes
                else "so shared memory would keep it out"
            )
            yield f"{start} By the same arithmetic two stages of it need about {size(need)}, {verdict}."
        else:
            yield start


def need_of_next(basis: Variant, tile: Tile) -> int | None:
    """Bytes that FEWEST_STAGES stages of `tile` would need, estimated from the parts of `basis`.

    A stage's share of A grows with M, that of B with N; all else (epilogue, pipelines, padding) is taken to
    stay, as CUTLASS's epilogues work through subtiles of fixed size.
    """
    one = stage_bytes(basis)
    if one is None or not basis.stages or basis.need_bytes is None:
        return None
    a, b = (
        sum(part for name, part in basis.parts.items() if name in (f"operand_{side}", f"scales_{side}"))
        for side in ("a", "b")
    )
    if a + b != one * basis.stages:
        return None
    grown = (a * tile[0] // basis.tile[0] + b * tile[1] // basis.tile[1]) // basis.stages
    return FEWEST_STAGES * grown + basis.need_bytes - one * basis.stages


def gain(inputs: str, area: int, variants: Iterable[Variant]) -> Iterator[str]:
    """What tiles of M × N = `area` do for each byte of operands, beside the next smaller ones."""
    types = operand_types(inputs)
    a, b = types[0], types[-1]
    sizes = {variant.tile[:2] for variant in variants}
    big = max(((m, n) for m, n in sizes if m * n == area), default=None)
    told = {
        mn: found for mn in sizes if mn[0] * mn[1] < area and (found := tile_intensity(*mn, a, b)) is not None
    }
    if big is None or not told or (top := tile_intensity(*big, a, b)) is None:
        return
    below = max(told, key=lambda mn: (told[mn][0], mn))
    bare, scaled = told[below]
    times = top[0] / bare
    more = (big[0] * big[1]) / (below[0] * below[1])
    with_scales = (
        f"; with their scales {top[1]:.1f} against {scaled:.1f} FLOP/B"
        if abs(top[1] - 2 * top[0]) > 0.05
        else ""
    )
    area_ = "twice" if more == 2 else f"{more:.3g} times"
    yield (
        f"What size buys: a {shape(big)} tile does {top[0]:.1f} MAC for each byte of operands, "
        f"{times:.2f} times the {bare:.1f} of {shape(below)}, for {area_} the area"
        f"{with_scales}."
    )
