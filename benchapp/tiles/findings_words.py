"""Single findings in words: what each says, where it comes from, what its numbers mean. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchapp.tiles import words
from benchapp.tiles.families import OF_TWO_GEMMS
from benchapp.tiles.fates import HEAVY_SPILL_BYTES
from benchapp.tiles.models import Evidence, Listing, Stage
from benchapp.tiles.words import size

#: 32-bit registers of an SM, from sm_70 to sm_121, and the most that one thread can name (CUDA programming
#: guide, compute capability table); ptxas hands them out by eight.
REGISTERS_OF_SM = 65_536
MOST_REGISTERS = 255
REGISTER_STEP = 8

FAILED = {
    "no_candidate": "not in the tactic list: no autotuner can choose it",
    "no_dispatch": "no dispatch of this version reaches it: it can never run",
    "compile_error": "the compiler rejects it",
    "smem_overflow": "needs more shared memory than one block may use",
    "init_failed": "initialize() fails on the GPU",
    "launch_failed": "its launch fails on the GPU",
    "crashed": "crashes on the GPU",
    "timeout": "runs past its time on the GPU",
    "incorrect": "disagrees with the reference: not to be used",
    "not_supported": "not supported",
}
PASSED = {
    Stage.CANDIDATE: "in the tactic list",
    Stage.DISPATCHED: "dispatched and instantiated",
    Stage.COMPILED: "compiles",
    Stage.FITS: "fits",
    Stage.INITIALISED: "initialize() succeeds",
    Stage.RAN: "runs without an error",
    Stage.CORRECT: "agrees with the reference",
}
SOURCES = {
    "heuristic": "the version's tactic list",
    "generator": "the version's generator",
    "device": "a GPU of our own",
    "imported": "an imported file",
}
#: What CUTLASS's assertions mean for a tile, by words of theirs.
_MEANINGS = {
    "Stages set to value 2 or more": "fewer than two pipeline stages fit into shared memory",
    "must evenly divide tile shape": "the tile is no multiple of the smallest shared-memory layout",
    "CTA_Tile and SLayout top-level size equivalence": "TMA cannot copy a tile of this shape in one piece",
    "Only TN layout is supported": "it takes operands that are contiguous along K only",
}
_ASSERTION = re.compile(
    r'static assertion failed with "((?:[^"\\]|\\.)+)"|static assertion failed: "?([^"\n]+)'
)
_MOST_QUOTED = 300


def said(finding: Evidence) -> str:
    """What a finding says in a line: "fits, 3,072 B to spare", "initialize() fails on the GPU"."""
    if finding.stage == Stage.FITS and finding.need_bytes is not None and finding.limit_bytes is not None:
        margin = finding.limit_bytes - finding.need_bytes
        return f"short by {size(-margin)}" if margin < 0 else f"fits, {size(margin)} to spare"
    if not finding.passed:
        return FAILED.get(finding.reason, finding.reason.replace("_", " "))
    return PASSED[Stage(finding.stage)]


def source(finding: Evidence) -> str:
    """Where a finding comes from: "nvcc 13.0.88, types tier", "tilewatch, server.log"."""
    if finding.source == "compiler":
        nvcc = " ".join(filter(None, ["nvcc", finding.stack.components.get("nvcc")]))
        return f"{nvcc}, {finding.tier} tier" if finding.tier else nvcc
    document = finding.document
    if finding.source == "device":
        return f"on {document.target.model}" if document.target and document.target.model else "on a GPU"
    if finding.source == "imported":
        producer = document.facts.get("producer") or "another program"
        return ", ".join(filter(None, [str(producer), document.name]))
    return SOURCES.get(finding.source, finding.source)


def kind(finding: Evidence) -> str:
    """The kind of evidence a finding is, as the one that outweighs or is outweighed."""
    if finding.source == "compiler":
        return f"the {finding.tier} tier" if finding.tier else "the compiler"
    return SOURCES.get(finding.source, finding.source)


def assertion(detail: str) -> str:
    """The first static assertion a compile error speaks of, else the error's first line; "" of nothing."""
    if match := _ASSERTION.search(detail):
        return _quoted(match[1] or match[2])
    return _quoted(next((line for line in detail.splitlines() if line.strip()), ""))


def meaning(message: str) -> str:
    """What an assertion means for a tile; "" of one that is not known."""
    return next((meant for needle, meant in _MEANINGS.items() if needle in message), "")


def _quoted(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + "…"


def tactics(listing: Listing) -> str:
    """ "GEMM1 3 · GEMM2 11, 15", of a dense GEMM "tactic 0": the ids an autotuner knows the variant by."""
    numbered = [("GEMM1", listing.gemm1_tactics), ("GEMM2", listing.gemm2_tactics)]
    if listing.family not in OF_TWO_GEMMS:
        numbered = [("tactic", [*listing.gemm1_tactics, *listing.gemm2_tactics])]
    return " · ".join(f"{name} {', '.join(map(str, ids))}" for name, ids in numbered if ids)


def prediction(finding: Evidence) -> tuple[str, bool]:
    """How CUTLASS's own stage arithmetic compares with the compiler; and whether its error matters.

    It matters where it gives another stage count, or answers "does it fit" differently.
    """
    stages, promised, need = finding.predicted_stages, finding.predicted_bytes, finding.need_bytes
    if promised is None or need is None:
        return "", False
    counts = "CUTLASS's stage arithmetic counts " + ("" if stages is None else f"{words.stages(stages)} and ")
    if stages is not None and finding.stages is not None and stages != finding.stages:
        found = f"{words.stages(finding.stages)} and {size(need)}"
        return f"{counts}{size(promised)}; the compiler finds {found}.", True
    if promised == need:
        return f"{counts}{size(promised)}, exactly what the compiler finds.", False
    limit = finding.limit_bytes
    wrong = limit is not None and (promised <= limit) != (need <= limit)
    missing = _left_out(need - promised, finding.parts)
    sentence = f"{counts}{size(promised)}; the compiler finds {size(need)}: {missing}."
    if wrong and promised < need:
        sentence += " By its own count the tile fits, so it takes one stage too many."
    return sentence, wrong


def _left_out(missing: int, parts: Mapping[str, int]) -> str:
    """What a prediction that is `missing` bytes short does not know of, as far as the parts can tell."""
    if missing < 0:
        return f"{size(-missing)} less"
    padding = parts.get("padding", 0)
    if missing <= padding:
        return f"{size(missing)} of padding it leaves out"
    of_them = f", {size(padding)} of them padding" if padding else ""
    return f"{size(missing)} it leaves out{of_them}"


def one_stage_less(need: int, limit: int, stages: int | None, stage_bytes: int | None) -> str:
    """What an overflowing kernel would need with one stage less, by its parts; "" where none overflows."""
    if need <= limit or not stages or stages < 2 or not stage_bytes:
        return ""
    left = need - stage_bytes
    fits = (
        f"fit with {size(limit - left)} to spare"
        if left <= limit
        else f"still be short by {size(left - limit)}"
    )
    return f"By its parts, with {words.stages(stages - 1)} it would need about {size(left)} and {fits}."


def spills(finding: Evidence | None, fits: bool) -> tuple[str, str]:
    """Whether the compiled kernel spills, in words, and how that looks: survived, uncertain or untested.

    `finding` is the deciding one of stage compiled; ("", "") where there is nothing to say.
    """
    if finding is None or not finding.passed:
        return "", ""
    if finding.spill_store_bytes is None:
        tier = f" ({finding.tier} tier)" if finding.tier else ""
        return f"Spills not measured yet{tier}: only the full tier runs ptxas.", "untested"
    if not finding.spill_store_bytes and not finding.spill_load_bytes:
        return "No spills: what a thread works on stays in registers.", "survived"
    verb = "Fits" if fits else "Compiles"
    stores = finding.spill_store_bytes
    loads = (
        "" if finding.spill_load_bytes is None else f" and {size(finding.spill_load_bytes)} of spill loads"
    )
    meant = (
        "That is not good news: what spills travels through local memory in the main loop's way."
        if stores >= HEAVY_SPILL_BYTES
        else f"That is the worth of {-(-stores // 4)} registers; whether it costs time takes a measurement."
    )
    return f"{verb}, with {size(stores)} of spill stores{loads} a thread. {meant}", "uncertain"


def register_cap(threads: int) -> int:
    """Registers a thread may have when one block of so many threads has an SM to itself."""
    return min(MOST_REGISTERS, REGISTERS_OF_SM // threads // REGISTER_STEP * REGISTER_STEP)


def registers(finding: Evidence) -> str:
    """Why the register count says nothing, where launch bounds set it; "" where it is not known."""
    if finding.registers is None:
        return ""
    if finding.threads and finding.registers == register_cap(finding.threads):
        return (
            f"{finding.registers} registers only repeat the launch bounds of {finding.threads} threads "
            f"({REGISTERS_OF_SM:,} ÷ {finding.threads}, rounded down to a multiple of {REGISTER_STEP}): "
            "spills are the signal."
        )
    return f"{finding.registers} registers a thread."
