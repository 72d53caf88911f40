"""Why variants end where they do, and which of their siblings do not. Pure functions over `Variant`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchapp.tiles.fates import Fate, Variant
from benchapp.tiles.models import Stage
from benchapp.tiles.words import count, size, stages

#: CUTLASS asks for two at least: “Specialization requires Stages set to value 2 or more.”
FEWEST_STAGES = 2


def siblings_that_fit(siblings: Iterable[Variant]) -> str:
    """ "with fusion none (98,304 B at 3 stages) or with finalize · swap (74,752 B at 2 stages)", or ""."""
    by_fusion: dict[str, list[Variant]] = defaultdict(list)
    for variant in siblings:
        if variant.reached(Stage.FITS):
            by_fusion[f"{variant.fusion.lower()} {variant.extra}".rstrip()].append(variant)
    said = []
    for fusion, found in by_fusion.items():
        if {variant.swap_ab for variant in found} == {True, False} and len(set(map(_need, found))) == 1:
            said.append(f"with fusion {fusion}, swapped or not{_need(found[0])}")
        else:
            said += [
                f"with {'' if v.swap_ab else 'fusion '}{f'{v.epilogue} {v.extra}'.rstrip()}{_need(v)}"
                for v in found
            ]
    return " or ".join(said)


def _need(variant: Variant) -> str:
    if variant.need_bytes is None:
        return ""
    at = "" if variant.stages is None else f" at {stages(variant.stages)}"
    return f" ({size(variant.need_bytes)}{at})"


def padding(overflow: Sequence[Variant]) -> str:
    """What ends a sentence on a shortfall that alignment padding causes; "" where it does not."""
    cause = ", by alignment padding that the automatic stage count leaves out"
    return cause if padding_overflows(overflow) else ""


def padding_overflows(overflow: Sequence[Variant]) -> bool:
    """Whether alignment padding is the cause: by the parts found, all would fit without it."""
    return all(
        variant.margin_bytes is not None
        and variant.parts.get("padding", 0) > 0
        and variant.parts["padding"] + variant.margin_bytes >= 0
        for variant in overflow
    )


def stage_bytes(variant: Variant) -> int | None:
    """Operands and scales of one pipeline stage; None where the parts are unknown."""
    held = sum(part for name, part in variant.parts.items() if name.startswith(("operand", "scale")))
    return held // variant.stages if held and variant.stages else None


def explain(variant: Variant, siblings: Sequence[Variant]) -> tuple[str, ...]:
    """Why one variant ended where it did; `siblings` are all variants of its tile in the same release."""
    margin, fate = variant.margin_bytes, variant.fate
    said = []
    if fate is Fate.OVERFLOW:
        if variant.need_bytes is not None and variant.limit_bytes is not None and margin is not None:
            at = f"At {count(variant.stages)} stages it" if variant.stages else "It"
            said.append(
                f"{at} needs {size(variant.need_bytes)}, {size(-margin)} more than the "
                f"{size(variant.limit_bytes)} that one block may use{padding([variant])}."
            )
        rescue = siblings_that_fit(siblings)
        said.append(
            f"The tile is not the obstacle: it fits {rescue}."
            if rescue
            else "No variant of this tile is known to fit in this version."
        )
        said.append("Accumulators do not live in shared memory and take no part in this.")
    elif fate is Fate.COMPILE_ERROR:
        said.append("The compiler rejected it, so whether it would fit is unknown; the log says where.")
    elif fate is Fate.NO_DISPATCH:
        said.append(
            "The tactic list offers it, but no dispatch of this version reaches it: it can never run."
        )
    elif fate is Fate.NO_CANDIDATE:
        said.append(
            "It is compiled into the library, but the tactic list never offers it: nothing can choose it."
        )
    elif fate is Fate.INCORRECT:
        said.append("It runs, but disagrees with the reference: not to be used, however fast it is.")
    elif fate is Fate.DEVICE_FAILURE and margin is not None and margin >= 0:
        said.append(f"Shared memory is not the reason: it fits with {size(margin)} to spare.")
    elif fate is Fate.SURVIVED and margin is not None:
        said.append(
            f"It leaves {size(margin)} of the {size(variant.limit_bytes or 0)} that one block may use."
        )
    if fate in (Fate.SURVIVED, Fate.OVERFLOW) and not variant.reached(Stage.INITIALISED):
        known = "Found by compiling" if variant.tier else "Known"
        said.append(
            known
            + (
                ", without a GPU: whether it initialises, runs and computes correctly is open."
                if fate is Fate.SURVIVED
                else "; no GPU is needed to know it."
            )
        )
    return tuple(said)
