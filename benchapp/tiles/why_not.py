"""“Why not bigger?”: what stands in the way of larger tiles in one release, from the evidence alone.

Pure functions. Sizes are bytes, tiles (M, N, K) in elements; the bigger tile is the one of larger M × N.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchapp.tiles.fates import Fate, Variant, shape
from benchapp.tiles.listings import Listed
from benchapp.tiles.models import Stage
from benchapp.tiles.next_size import Tile, gain, larger
from benchapp.tiles.reasons import FEWEST_STAGES, padding_overflows, siblings_that_fit, stage_bytes
from benchapp.tiles.words import count, listed, size

#: Architectures whose tensor cores accumulate in tensor memory; on others it is registers.
TENSOR_MEMORY = ("sm100", "sm101", "sm103", "sm110")


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
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


def why_not(known: Known) -> WhyNot:
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
        *(larger(largest, known.anywhere, known.unshipped, known.cutlass) if known.shipped else ()),
        *_search_space(known),
        *gain(known.inputs, area, looked_at),
        "More surviving tiles do not mean more speed: which is fastest takes a measurement, and few tokens "
        "are bound by memory bandwidth whatever the tile.",
    ]
    return WhyNot(_answer(largest), tuple(sentences))


_LISTS_ONLY = frozenset({Fate.NO_DISPATCH, Fate.NO_CANDIDATE, Fate.UNTESTED})


def _area(variant: Variant) -> int:
    return variant.tile[0] * variant.tile[1]


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
        return "Nothing stands in the way of the largest tiles it dispatches: all fit."
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


def _about_largest(known: Known, largest: Sequence[Variant]) -> Iterator[str]:
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


def _contents(known: Known, largest: Sequence[Variant]) -> Iterator[str]:
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


def _unreached(known: Known) -> Iterator[str]:
    """What dispatch or the tactic list keeps out, whatever shared memory would say."""
    never = {item.key.tile: item.tactics for item in known.listings if item.candidate and not item.dispatched}
    never |= {v.tile: 0 for v in known.variants if v.fate is Fate.NO_DISPATCH and v.tile not in never}
    if never:
        tactics = sum(i.tactics for i in known.listings if i.candidate and not i.dispatched)
        named = f" ({tactics} tactics)" if tactics else ""
        yield (
            f"The tactic list also offers {listed([shape(tile) for tile in sorted(never)])}{named}, which "
            "no dispatch reaches: dispatch stands in the way there, not shared memory."
        )
    unoffered = {item.key.tile for item in known.listings if item.instantiated and not item.candidate}
    unoffered |= {variant.tile for variant in known.variants if variant.fate is Fate.NO_CANDIDATE}
    unoffered -= {item.key.tile for item in known.listings if item.candidate}
    if unoffered:
        yield (
            f"Compiled into the library but never offered by the tactic list, so that nothing can choose it: "
            f"{listed([shape(tile) for tile in sorted(unoffered)])}."
        )


def _search_space(known: Known) -> Iterator[str]:
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
