"""The sentences that a page on one release opens with. Pure functions over `Variant`."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from benchapp.tiles.fates import LADDER, Fate, Variant, shape
from benchapp.tiles.models import Stage
from benchapp.tiles.reasons import padding, siblings_that_fit
from benchapp.tiles.words import count, listed, size

#: So many tiles that overflow are explained one by one; of more only the counts are told.
MOST_EXPLAINED = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """The headline could be repeated in a meeting; `because` says why, `beware` what it does not say."""

    headline: str
    because: tuple[str, ...] = ()
    beware: tuple[str, ...] = ()


def summary(
    version: str,
    arch: str,
    variants: Sequence[Variant],
    *,
    package: str = "FlashInfer",
    among: str = "",
    tactics: str = "",
    counts_only: bool = False,
) -> Summary:
    """What a reader should take away about one release; `variants` are all that the release holds.

    `among` names the filters that narrow them; then no reasons are given, since those need what is left out.
    `tactics` is a sentence about the tactic ids. With `counts_only` the variants need neither tile nor bytes,
    and no reasons are given either.
    """
    if not variants or all(variant.fate is Fate.UNTESTED and not variant.stage for variant in variants):
        of = f" ({among})" if among else ""
        return Summary(
            f"Nothing is known about {package} {version} on {arch.upper()}{of} yet: no survey has looked."
        )
    named = version if package == "FlashInfer" else f"{package} {version}"
    return Summary(
        f"In {named}{f', with {among}' if among else ''}, {_tally(variants)}.",
        (*([tactics] if tactics else []), *(() if counts_only or among else _because(variants))),
        (
            _depth(variants),
            "More survivors do not mean more speed: which variant is fastest takes a measurement.",
        ),
    )


def _tally(variants: Sequence[Variant]) -> str:
    """ "14 of 16 variants fit; two miss by 1,024 B"."""
    total = len(variants)
    fitting = sum(variant.reached(Stage.FITS) for variant in variants)
    if total == 1:
        said = ["the only variant fits"] if fitting else ["the only variant does not get as far as fitting"]
    elif fitting == total:
        said = [f"all {total:,} variants fit"]
    elif fitting == 0:
        said = [f"none of {total:,} variants is known to fit"]
    else:
        said = [f"{fitting:,} of {total:,} variants fit"]
    groups: dict[Fate, list[Variant]] = defaultdict(list)
    for variant in variants:
        groups[variant.fate].append(variant)
    if short := groups[Fate.OVERFLOW]:
        said.append(f"{count(len(short))} {_miss(short)}")
    for fate, one, many in (
        (Fate.COMPILE_ERROR, "does not compile", "do not compile"),
        (
            Fate.NO_DISPATCH,
            "is a candidate that is never dispatched",
            "are candidates that are never dispatched",
        ),
        (
            Fate.NO_CANDIDATE,
            "is instantiated but never offered",
            "are instantiated but never offered",
        ),
        (Fate.UNSUPPORTED, "is not supported", "are not supported"),
        (Fate.DEVICE_FAILURE, "fails on the GPU", "fail on the GPU"),
        (Fate.INCORRECT, "computes a wrong result", "compute wrong results"),
        (Fate.UNTESTED, "is not tested that far", "are not tested that far"),
    ):
        if found := groups[fate]:
            said.append(f"{count(len(found))} {one if len(found) == 1 else many}")
    return "; ".join(said)


def _miss(short: Sequence[Variant]) -> str:
    verb = "misses" if len(short) == 1 else "miss"
    by = sorted({-margin for variant in short if (margin := variant.margin_bytes) is not None})
    if not by:
        return "does not fit" if len(short) == 1 else "do not fit"
    return f"{verb} by {size(by[0])}" if len(by) == 1 else f"{verb} by {by[0]:,} to {size(by[-1])}"


def _because(variants: Sequence[Variant]) -> Iterable[str]:
    if wrong := [v.name for v in variants if v.fate is Fate.INCORRECT and v.chosen]:
        yield f"An autotuner chose what computes wrong results, and it is not to be used: {listed(wrong)}."
    if wrong := [v.name for v in variants if v.fate is Fate.INCORRECT and not v.chosen]:
        yield f"Wrong on the GPU, and not to be used: {listed(wrong)}."
    overflow = [variant for variant in variants if variant.fate is Fate.OVERFLOW]
    if overflow:
        yield from _about_overflow(overflow, variants)
    if spilling := [variant for variant in variants if variant.spills_heavily]:
        worst = max(variant.spill_store_bytes or 0 for variant in spilling)
        names = listed([variant.name for variant in spilling])
        yield f"Fitting is no good news beside heavy spills (up to {size(worst)} a thread): {names}."
    if broken := [variant.name for variant in variants if variant.fate is Fate.COMPILE_ERROR]:
        yield f"Rejected by the compiler: {listed(broken)}; each cell holds the log."
    if unreached := sorted({variant.tile for variant in variants if variant.fate is Fate.NO_DISPATCH}):
        names = listed([shape(tile) for tile in unreached])
        they = "it: it" if len(unreached) == 1 else "them: they"
        yield f"The tactic list offers {names}, but no dispatch reaches {they} can never run."
    fitting = [
        variant for variant in variants if variant.reached(Stage.FITS) and variant.margin_bytes is not None
    ]
    if fitting and not overflow:
        tightest = min(fitting, key=lambda variant: variant.margin_bytes or 0)
        limit = size(tightest.limit_bytes or 0)
        yield f"The tightest, {tightest.name}, leaves {size(tightest.margin_bytes or 0)} of {limit}."


def _about_overflow(overflow: Sequence[Variant], variants: Sequence[Variant]) -> Iterable[str]:
    """Whether the tile is to blame or only one of its epilogues: what its siblings need answers that."""
    tiles_by_rescue: dict[str, list[str]] = defaultdict(list)
    hopeless = []
    for tile in dict.fromkeys(variant.tile for variant in overflow):
        siblings = [variant for variant in variants if variant.tile == tile]
        if rescue := siblings_that_fit(siblings):
            tiles_by_rescue[rescue].append(shape(tile))
        else:
            hopeless.append(min(siblings, key=lambda variant: variant.need_bytes or 0))
    rescued = sum(map(len, tiles_by_rescue.values()))
    if rescued + len(hopeless) > MOST_EXPLAINED:
        yield (
            f"{count(rescued + len(hopeless)).capitalize()} tiles overflow in some variant: "
            f"{count(rescued)} of them fit in another, {count(len(hopeless))} in none."
        )
        return
    for rescue, shapes in tiles_by_rescue.items():
        fits = "it fits" if len(shapes) == 1 else "both fit" if len(shapes) == 2 else "they fit"
        yield f"Shared memory does not forbid {listed(shapes)}: {fits} {rescue}."
    epilogues = {(variant.fusion.lower(), variant.swap_ab) for variant in overflow}
    if tiles_by_rescue and len(epilogues) == 1:
        fusion, swap = epilogues.pop()
        yield f"Only {fusion} fusion {'with' if swap else 'without'} swap overflows{padding(overflow)}."
    for variant in hopeless:
        margin = variant.margin_bytes
        over = "" if margin is None else f"; the smallest is over by {size(-margin)}"
        yield f"No variant of {variant.shape} fits{over}."


def _depth(variants: Sequence[Variant]) -> str:
    """How far up the ladder the evidence goes."""
    on_device = [
        variant
        for variant in variants
        if variant.reached(Stage.INITIALISED)
        or (variant.failed_stage and LADDER.index(variant.failed_stage) > LADDER.index(Stage.FITS))
    ]
    if not on_device:
        return (
            "No variant is known to have run on a GPU: the ladder ends at “fits” here, and whether they "
            "initialise, run and compute correctly is open."
        )
    correct = sum(variant.stage == Stage.CORRECT for variant in on_device)
    tried = count(len(on_device)).capitalize()
    return (
        f"{tried} went on to a GPU; {count(correct) if correct else 'none'} computed a correct result there."
    )


def changes(before: Mapping[str, Fate], after: Mapping[str, Fate], version: str) -> str:
    """What an upgrade from `version` did, by variant name; empty where nothing moved."""
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    shared = [name for name in before if name in after and before[name] is not after[name]]
    lost = [name for name in shared if before[name] is Fate.SURVIVED]
    won = [name for name in shared if after[name] is Fate.SURVIVED]
    other = len(shared) - len(lost) - len(won)
    said = [
        f"{count(len(names))} {what}"
        for names, what in ((lost, "lost"), (won, "won"), (new, "new"), (gone, "gone"))
        if names
    ]
    if other:
        said.append(f"{count(other)} failing in another way")
    if not said:
        return ""
    named = f" (lost: {listed(lost)})" if lost else ""
    return f"Since {version}: {', '.join(said)}{named}."
