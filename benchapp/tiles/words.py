"""Words that every sentence of the room is made of: numbers, lists, sizes, and what one cell says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.tiles.fates import Variant

_REASON_IN_WORDS = {
    "smem_overflow": "does not fit",
    "compile_error": "does not compile",
    "no_dispatch": "candidate, never dispatched",
    "no_candidate": "instantiated, never offered by the tactic list",
    "incorrect": "wrong result",
    "not_supported": "not supported",
    "init_failed": "fits, but initialize() fails on the GPU",
    "launch_failed": "fits, but its launch fails",
    "crashed": "crashes on the GPU",
    "timeout": "runs past its time",
}
_STAGE_IN_WORDS = {
    "": "not tested",
    "candidate": "candidate, not looked at further",
    "dispatched": "dispatched, not compiled yet",
    "compiled": "compiles; shared memory not read yet",
    "fits": "fits",
    "initialised": "fits and initialises",
    "ran": "runs; result not checked",
    "correct": "correct on the GPU",
}
_KIND_IN_WORDS = {"device": "on a GPU", "imported": "imported", "sources": "from the sources"}
_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def count(number: int) -> str:
    """ "two" up to twelve, figures beyond."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """ "a, b and c"; beyond `most` names "a, b, c and 5 more"."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def size(number: int) -> str:
    return f"{number:,} B"


def stages(number: int) -> str:
    return f"{number} stage{'' if number == 1 else 's'}"


def ids(tactics: Sequence[int]) -> str:
    return ", ".join(map(str, tactics)) or "none"


def signed(margin: int | None) -> str:
    """ "+3,072 B" to spare, "−1,024 B" short; "" where unknown."""
    if margin is None:
        return ""
    return f"{'−' if margin < 0 else '+' if margin else ''}{size(abs(margin))}"


def cell(variant: Variant) -> str:
    """One cell for who sees neither colour nor shape: rung, bytes to spare or short, stages, spills, tier."""
    margin = variant.margin_bytes
    said = [_REASON_IN_WORDS.get(variant.reason) or _STAGE_IN_WORDS[variant.stage]]
    if variant.reason and variant.reason not in _REASON_IN_WORDS:
        said = [f"failed: {variant.reason}"]
    if variant.chosen:
        said.insert(0, "chosen by an autotuner")
    if margin is not None:
        said.append(f"short by {size(-margin)}" if margin < 0 else f"{size(margin)} to spare")
    if variant.stages is not None:
        said.append(stages(variant.stages))
    if variant.spill_store_bytes is not None:
        said.append(f"spills {size(variant.spill_store_bytes)}" if variant.spill_store_bytes else "no spills")
    said.append(_KIND_IN_WORDS.get(variant.kind, f"{variant.kind} tier" if variant.kind else ""))
    return ", ".join(filter(None, said))
