"""“Why not bigger?”: what stands in the way of larger tiles in one release, from the evidence alone.

Pure functions. Sizes are bytes, tiles (M, N, K) in elements; the bigger tile is the one of larger M × N.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchapp.tiles.fates import Fate, Variant
from benchapp.tiles.intensity import tile_intensity
from benchapp.tiles.listings import Listed
from benchapp.tiles.models import Stage
from benchapp.tiles.words import count, listed, padding_overflows, siblings_that_fit, size
from benchapp.web.templatetags.units import operand_types

Tile = tuple[int, int, int]
#: CUTLASS asks for two at least: “Specialization requires Stages set to value 2 or more.”
FEWEST_STAGES = 2
#: Architectures whose tensor cores accumulate in tensor memory; on others it is registers.
TENSOR_MEMORY = ("sm100", "sm101", "sm103", "sm110")


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one selection in one release."""

    version: str
    arch: str
    inputs: str
    variants: Sequence[Variant]
    #: what the release's own sources list; empty where no survey read them
    listings: Sequence[Listed] = ()
    #: tiles that some release lists or holds, and in how many versions
    anywhere: Mapping[Tile, int] = dataclasses.field(default_factory=dict)
    #: fitting variants that no release ships, built from the same CUTLASS
    unshipped: Sequence[Variant] = ()
    cutlass: str = ""
    #: whether a release ships these variants, rather than somebody having tried them
    shipped: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class WhyNot:
    """`answer` in a few words, and the sentences that bear it out."""

    answer: str
    sentences: tuple[str, ...]


def why_not(known: Evidence) -> WhyNot:
    """For any evidence, none included."""
    looked_at = [variant for variant in known.variants if variant.fate not in _LISTS_ONLY]
    if not looked_at:
        return WhyNot(
            "Nobody has looked.",
            (
                f"No evidence on {known.version} says how far its {known.arch.upper()} tiles get: until a "
                "survey has compiled them, nothing can be said about larger ones.",
                *_unreached(known),
            ),
        )
    area = max(map(_area, looked_at))
    largest = [variant for variant in looked_at if _area(variant) == area]
    sentences = [
        *_about_largest(known, largest),
        *_contents(known, largest),
        *_spills(largest),
        *_unreached(known),
        *_larger(known, largest),
        *_search_space(known),
        *_intensity(known, area, looked_at),
        "More surviving tiles do not mean more speed: which is fastest takes a measurement, and few tokens "
        "are bound by memory bandwidth whatever the tile.",
    ]
    return WhyNot(_answer(largest), tuple(sentences))


_LISTS_ONLY = frozenset({Fate.NO_DISPATCH, Fate.NO_CANDIDATE, Fate.UNTESTED})


def _area(variant: Variant) -> int:
    return variant.tile[0] * variant.tile[1]


def _shape(tile: Sequence[int]) -> str:
    return "×".join(map(str, tile))


def _shapes(variants: Iterable[Variant]) -> list[str]:
    return list(dict.fromkeys(variant.shape for variant in variants))


def _fitting(variants: Iterable[Variant]) -> list[Variant]:
    return [variant for variant in variants if variant.reached(Stage.FITS)]


def _answer(largest: Sequence[Variant]) -> str:
    fates = {variant.fate for variant in largest}
    short = [-margin for v in largest if v.fate is Fate.OVERFLOW and (margin := v.margin_bytes) is not None]
    if fates <= {Fate.SURVIVED}:
        if any(variant.spills_heavily for variant in largest):
            return "Not shared memory: registers. The largest tiles fit and spill heavily."
        return "Nothing stands in the way of the largest tiles it lists: all fit."
    if not _fitting(largest):
        if fates == {Fate.OVERFLOW}:
            return "Shared memory: no variant of the largest tiles fits."
        if fates == {Fate.COMPILE_ERROR}:
            return "The compiler: no variant of the largest tiles compiles."
        return "No variant of the largest tiles is known to fit."
    if short:
        by = size(max(short))
        epilogues = {variant.epilogue for variant in largest if variant.fate is Fate.OVERFLOW}
        if len(epilogues) == 1:
            return f"Not the tiles' size: one epilogue, {epilogues.pop()}, by {by}."
        return f"Not the tiles' size: some of their epilogues, by up to {by}."
    if Fate.INCORRECT in fates:
        return "Not shared memory: some of the largest tiles compute wrong results."
    return "Not shared memory: the largest tiles fit, and some fail for other reasons."


def _about_largest(known: Evidence, largest: Sequence[Variant]) -> Iterator[str]:
    shapes, fitting = _shapes(largest), _fitting(largest)
    one = len(shapes) == 1
    limit = next((v.limit_bytes for v in largest if v.limit_bytes is not None), None)
    within = "" if limit is None else f" in the {size(limit)} that one block may use on {known.arch.upper()}"
    hold = "holds" if known.shipped else "was tried with"
    total, what = len(largest), f"The largest tile{'' if one else 's'} that {known.version} {hold}"
    what += f", {listed(shapes)}, "
    if len(fitting) == total:
        fit = "fits in its only variant" if total == 1 else f"fit{'s' if one else ''} in all {total} variants"
        yield f"{what}{fit}{within}."
    elif fitting:
        yield (
            f"{what}{'is' if one else 'are'} not forbidden by shared memory: {count(len(fitting))} of "
            f"{'its' if one else 'their'} {count(total)} variants fit{within}."
        )
    else:
        yield f"{what}{'does' if one else 'do'} not fit in any of {count(total)} variants{within}."
    if short := [variant for variant in largest if variant.fate is Fate.OVERFLOW]:
        yield from _shortfall(largest, short)
    for fate, verb in ((Fate.COMPILE_ERROR, "do not compile"), (Fate.DEVICE_FAILURE, "fail on the GPU")):
        if found := [variant for variant in largest if variant.fate is fate]:
            yield f"Of these variants, {count(len(found))} {verb}: {listed([v.name for v in found])}."


def _shortfall(largest: Sequence[Variant], short: Sequence[Variant]) -> Iterator[str]:
    """Which miss, by how much and why; what the others need; whether one stage less would do."""
    needs = [variant for variant in short if variant.margin_bytes is not None]
    if not needs:
        return
    tightest = max(needs, key=lambda variant: variant.margin_bytes or 0)
    rescue = siblings_that_fit([variant for variant in largest if variant.shape == tightest.shape])
    epilogues = {variant.epilogue for variant in short}
    at = f" at {tightest.stages} stages" if tightest.stages else ""
    padded = padding_overflows(short)
    cause = ", alignment padding that the automatic stage count leaves out" if padded else ""
    who = f"The closest to it, {tightest.name},"
    if _fitting(largest) and len(epilogues) == 1:
        who = f"Only {tightest.fusion.lower()} fusion {'with' if tightest.swap_ab else 'without'} swap"
    yield (
        f"{who} misses: it needs {size(tightest.need_bytes or 0)}{at} against "
        f"{size(tightest.limit_bytes or 0)}, {size(-(tightest.margin_bytes or 0))} too many{cause}."
    )
    if rescue:
        yield f"The same tile fits {rescue}."
    stage = stage_bytes(tightest)
    if stage is None or not tightest.stages:
        return
    if tightest.stages > FEWEST_STAGES:
        less = (tightest.need_bytes or 0) - stage
        fits = less <= (tightest.limit_bytes or 0)
        end = "fit: the stage count is in the way, not the tile" if fits else "still not fit"
        yield (
            f"With {tightest.stages - 1} stages instead of {tightest.stages} it would need "
            f"about {size(less)} and {end}."
        )
    elif tightest.stages == FEWEST_STAGES:
        yield "Two stages are the fewest that a pipeline may have, so no stage count helps."


def stage_bytes(variant: Variant) -> int | None:
    """Operands and scales of one pipeline stage; None where the parts are unknown."""
    held = sum(part for name, part in variant.parts.items() if name.startswith(("operand", "scale")))
    return held // variant.stages if held and variant.stages else None


def _contents(known: Evidence, largest: Sequence[Variant]) -> Iterator[str]:
    sized = [variant for variant in largest if variant.parts and variant.stages]
    if not sized:
        return
    fullest = max(sized, key=lambda variant: variant.need_bytes or 0)
    operands, scales, epilogue = (
        sum(part for name, part in fullest.parts.items() if name.startswith(prefix))
        for prefix in ("operand", "scale", "epilogue")
    )
    said = [f"operands ({size(operands)} in {fullest.stages} stages)"]
    said += [f"their scales ({size(scales)})"] if scales else []
    said += [f"the epilogue ({size(epilogue)})"] if epilogue else []
    where = "tensor memory" if known.arch.startswith(TENSOR_MEMORY) else "registers"
    yield (
        f"What fills shared memory, in {fullest.name}, are {listed(said)}. Accumulators take none of it: "
        f"they live in {where}."
    )


def _spills(largest: Sequence[Variant]) -> Iterator[str]:
    fitting = _fitting(largest)
    known = [variant for variant in fitting if variant.spill_store_bytes is not None]
    if not known:
        if fitting:
            yield "Whether the largest tiles spill registers is open until a full compile has told."
        return
    spilling = sorted((v for v in known if v.spills), key=lambda v: v.spill_store_bytes or 0)
    if not spilling:
        yield f"None of the {count(len(known))} compiled in full spills registers."
        return
    worst = spilling[-1]
    heavy = " Fitting beside heavy spills is no good news." if worst.spills_heavily else ""
    yield (
        f"Of {count(len(known))} compiled in full, {count(len(spilling))} "
        f"spill{'s' if len(spilling) == 1 else ''} registers, {worst.name} the most: "
        f"{size(worst.spill_store_bytes or 0)} a thread.{heavy}"
    )


def _unreached(known: Evidence) -> Iterator[str]:
    """What dispatch or the tactic list keeps out, whatever shared memory would say."""
    never = {item.tile: item.tactics for item in known.listings if item.candidate and not item.dispatched}
    never |= {v.tile: 0 for v in known.variants if v.fate is Fate.NO_DISPATCH and v.tile not in never}
    if never:
        tactics = sum(i.tactics for i in known.listings if i.candidate and not i.dispatched)
        named = f" ({tactics} tactics)" if tactics else ""
        yield (
            f"The tactic list also offers {listed([_shape(tile) for tile in sorted(never)])}{named}, which "
            "no dispatch reaches: dispatch stands in the way there, not shared memory."
        )
    unoffered = {item.tile for item in known.listings if item.instantiated and not item.candidate}
    unoffered |= {variant.tile for variant in known.variants if variant.fate is Fate.NO_CANDIDATE}
    unoffered -= {item.tile for item in known.listings if item.candidate}
    if unoffered:
        yield (
            f"Compiled into the library but never offered by the tactic list, so that nothing can choose it: "
            f"{listed([_shape(tile) for tile in sorted(unoffered)])}."
        )


def _larger(known: Evidence, largest: Sequence[Variant]) -> Iterator[str]:
    """The next size up: the shorter side of each largest tile doubled."""
    if not known.shipped:
        return
    next_up: dict[Tile, Variant] = {}
    for variant in largest:
        m, n, k = variant.tile
        tile = (m, 2 * n, k) if n <= m else (2 * m, n, k)
        next_up.setdefault(tile, variant)
    for tile, basis in sorted(next_up.items())[:2]:
        if tile in known.anywhere:
            versions = known.anywhere[tile]
            others = f"{count(versions)} other version{'s list' if versions > 1 else ' lists'} it"
            yield f"The next size up, {_shape(tile)}, is not in this version; {others}, so its list omits it."
            continue
        start = f"No version known here lists the next size up, {_shape(tile)}: nothing offers it."
        built = [variant for variant in known.unshipped if variant.tile == tile]
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
                f"{start} CUTLASS {known.cutlass} can build it: {size(best.need_bytes or 0)} at "
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


def _search_space(known: Evidence) -> Iterator[str]:
    if not known.shipped:
        return
    total = sum(item.instantiated for item in known.listings) or sum(
        variant.fate is not Fate.NO_DISPATCH for variant in known.variants
    )
    written = "the only variant is" if total == 1 else f"all {total} variants are"
    yield (
        f"Generated files are the search space, not the survivors: {written} written out before anything is "
        "compiled."
    )


def _intensity(known: Evidence, area: int, variants: Iterable[Variant]) -> Iterator[str]:
    types = operand_types(known.inputs)
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
        f"What size buys: a {_shape(big)} tile does {top[0]:.1f} MAC for each byte of operands, "
        f"{_shape(below)} does {bare:.1f}: {times:.2f} times as many for {area_} the area"
        f"{with_scales}."
    )
