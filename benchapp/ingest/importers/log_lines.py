"""Lines of server logs that speak of FlashInfer's autotuner. Pure; the wordings are those of
`flashinfer/autotuner.py` and `moe_gemm_tma_ws_launcher.inl`, 0.5.2 to 0.7.4.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import BinaryIO

from workers.bench.document import Reason, Stage

#: Read at once; a longer line comes in pieces, of which each begins with the end of the one before.
BLOCK = 1024 * 1024
OVERLAP = 2 * 1024
#: A line without any of these says nothing of interest: skips, versions, lost contexts. Whole blocks are
#: searched for them, which takes less than half the time of looking at each line.
_WORDS = (
    b"Skipping tactic",
    b"Failed when profiling",
    b"unsupported tactic(s) for",
    b"lashinfer",
    b"lashInfer",
    b"illegal ",
    b"isaligned address",
    b"launch failure",
    b"cudaErrorI",
    b"cudaErrorLaunch",
    b"CUDA_ERROR_I",
)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
#: "[Autotuner]: Skipping tactic <….MoERunner object at 0x…> 15, due to failure while profiling: …", at debug
#: level also "Failed when profiling … 15, shapes=…" and "Skipping tactic … 15 while ranking OP: …".
_SKIPPED = re.compile(
    r"(?:Skipping tactic|Failed when profiling) (?P<runner><[^<>]{0,200}(?:<locals>[^<>]{0,200})?>) "
    r"(?P<tactic>-?\d{1,9}(?!\d)|\[[^\[\]]{0,200}\]|\([^()]{0,200}\))"
    r"(?:,| while ranking (?P<operation>[\w:.]{1,120}):)"
)
#: What FlashInfer 0.6.18 and later say where its debug log is off.
_COUNTED = re.compile(r"Skipped (\d{1,6}) unsupported tactic\(s\) for [\w:.]{1,120}")
_VERSION = re.compile(
    r"flashinfer(?:[-_ ]python)?(?:[-_ ]version)?[\"']?\s{0,3}(?:==|=|:|\s)\s{0,3}[\"']?"
    r"v?(\d{1,4}\.\d{1,4}\.\d{1,4}[0-9a-z.]{0,20})",
    re.IGNORECASE,
)
_CACHE = re.compile(r"/flashinfer/(\d{1,4}\.\d{1,4}\.\d{1,4}[0-9a-z.]{0,20})/(\d{2,3}[af]?)/")
#: The CUTLASS runner, not the one of the same name for TensorRT-LLM's own kernels.
CUTLASS_RUNNER = "get_cutlass_fused_moe_module"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line, or a piece of a long one: its number from 1, its text, and where what begins is left to the
    next piece, which starts with it."""

    number: int
    text: str
    until: int


def interesting(source: BinaryIO) -> Iterator[Line]:
    """Lines that may say something, in bounded memory whatever their length; what is no UTF-8 is replaced."""
    number, rest = 1, b""
    while block := source.read(BLOCK):
        block = rest + block
        end = block.rfind(b"\n") + 1
        if end:
            yield from _lines(block[:end], number)
            number += block.count(b"\n")
            rest = block[end:]
        else:
            rest = block[-OVERLAP:]
            yield _line(number, block[:-OVERLAP], rest)
    yield from _lines(rest, number)


def _lines(block: bytes, number: int) -> Iterator[Line]:
    """The interesting ones of whole lines, of which the first has this number."""
    starts = set[int]()
    for word in _WORDS:
        at = block.find(word)
        while at >= 0:
            starts.add(block.rfind(b"\n", 0, at) + 1)
            end = block.find(b"\n", at)
            at = block.find(word, end) if end >= 0 else -1
    counted = 0
    for start in sorted(starts):
        number += block.count(b"\n", counted, start)
        counted = start
        end = block.find(b"\n", start)
        yield _line(number, block[start : end if end >= 0 else None])


def _line(number: int, head: bytes, tail: bytes = b"") -> Line:
    text = _text(head)
    return Line(number, text + _text(tail), len(text))


def _text(raw: bytes) -> str:
    return (_ANSI.sub(b"", raw) if b"\x1b" in raw else raw).decode("utf-8", "replace").rstrip("\r")


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """A tactic that failed while profiling. `tactic` is None where it is no number."""

    runner: str
    tactic: int | None
    operation: str | None
    why: str
    #: the line from here on, for the excerpt
    said: str


def skipped(line: Line) -> Iterator[Skipped]:
    """Each skip of a line or piece; OVERLAP is longer than a skip and what is kept of its message."""
    for match in _SKIPPED.finditer(line.text):
        if match.start() < line.until:
            tactic = match["tactic"]
            yield Skipped(
                runner=match["runner"],
                tactic=int(tactic) if tactic.lstrip("-").isdecimal() else None,
                operation=match["operation"],
                why=line.text[match.end() : match.end() + 1_000],
                said=line.text[max(0, match.start() - 120) : match.end() + 600],
            )


def counted(line: Line) -> int:
    """How many skips a line only counts."""
    return sum(int(match[1]) for match in _COUNTED.finditer(line.text) if match.start() < line.until)


def versions(line: Line) -> Iterator[tuple[str, str | None]]:
    """(FlashInfer version, architecture's folder or None) that a line names."""
    if "lash" in line.text:
        for found in _CACHE.finditer(line.text):
            yield found[1].rstrip("."), found[2]
        for found in _VERSION.finditer(line.text):
            yield found[1].rstrip("."), None


#: What a message says of the tactic: (words, stage, reason).
_MEANINGS: tuple[tuple[str, Stage, Reason], ...] = (
    ("Failed to initialize cutlass TMA WS grouped gemm", "initialised", "init_failed"),
    ("Failed to run cutlass TMA WS grouped gemm", "ran", "launch_failed"),
    ("Grouped GEMM kernel will fail for params", "initialised", "not_supported"),
    ("Unsupported tile shape config", "dispatched", "no_dispatch"),
    ("Unsupported cluster shape config", "dispatched", "no_dispatch"),
    ("Unsupported tile (", "dispatched", "no_dispatch"),
)
#: After one of these every later call of the same process fails, whatever tile it asks for.
_LOST_CONTEXT = re.compile(
    r"illegal (?:instruction|memory access|address)|misaligned address|unspecified launch failure"
    r"|cudaErrorIllegal|cudaErrorLaunchFailure|CUDA_ERROR_ILLEGAL"
)


def meaning(why: str) -> tuple[Stage, Reason] | None:
    """(stage, reason) of a message, or None where it says nothing certain of the tile."""
    for words, stage, reason in _MEANINGS:
        if words in why:
            return stage, reason
    return None


def lost_context(text: str) -> bool:
    """Whether a line tells of a CUDA error that takes the whole process with it."""
    return _LOST_CONTEXT.search(text) is not None
