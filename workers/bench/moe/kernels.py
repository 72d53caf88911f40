"""What a kernel's name tells: whose it is, and which part of a step. Pure.

Names as CUPTI tells them, demangled.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from workers.bench.document import Part

#: parts that one call of fused experts may hold; which of them a kernel is, only its backend knows
EXPERT_PARTS: frozenset[Part] = frozenset({"dispatch", "fc1", "activation", "fc2", "combine"})
#: words of names, the first that is found counts
_LIBRARIES = (
    ("nccl", re.compile(r"^nccl|ncclDevKernel|ncclKernel")),
    ("flashinfer", re.compile(r"flashinfer|tensorrt_llm|trtllm|\bmoe::dev\b", re.I)),
    ("torch", re.compile(r"\bat::|at_cuda_detail|\bc10::|\btorch::")),
    (
        "cublas",
        re.compile(
            r"nvjet|cublas|sm90_xmma|sm80_xmma|^ampere_|^volta_|gemv|gemmk1|gemmSN|cutlass_80_|splitKreduce"
        ),
    ),
    ("cuda", re.compile(r"^(memcpy|memset)\b", re.I)),
)
#: a kernel of a language that names them as it is told, with no C++ around it
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def library_of(name: str, around: str) -> str:
    """ "flashinfer", "cublas", "torch", "triton", "nccl", "cuda" of copies and fills, or "other".

    CUTLASS names its kernels alike whoever compiled them: those are the library's that launched them, whose
    name is `around` ("flashinfer" of flashinfer.cutlass_fused_moe).
    """
    for library, words in _LIBRARIES:
        if words.search(name):
            return library
    if "cutlass" in name or "cute" in name:
        return around
    return "triton" if _PLAIN.fullmatch(name) else "other"


@dataclasses.dataclass(frozen=True, slots=True)
class Launched:
    """A kernel in the order of launches, and the part whose range launched it."""

    name: str
    part: Part


def refined(kernels: Iterable[tuple[str, str | None]], part_of: Callable[[str], str | None]) -> list[Part]:
    """The parts of a step's kernels, of each its name and the part of the range that launched it.

    What experts launched is what their backend knows it by; of its products the first in a row of them is
    FC1, and those that follow are FC2.
    """
    parts: list[Part] = []
    products = 0
    for name, part in kernels:
        if part not in (None, "other", *EXPERT_PARTS):
            products = 0
            parts.append(cast(Part, part))
            continue
        told = part_of(name)
        if told == "product":
            told = "fc2" if products else "fc1"
            products += 1
        parts.append(cast(Part, told if told in EXPERT_PARTS else part or "other"))
    return parts


def align(names: Sequence[str], known: Sequence[Launched]) -> list[Part]:
    """Parts of a replayed graph's kernels, from the same step launched one by one.

    Where both orders agree, one by one; a kernel that only the graph has is what most kernels of its name
    were, or "other".
    """
    votes: dict[str, collections.Counter[Part]] = {}
    for each in known:
        votes.setdefault(each.name, collections.Counter())[each.part] += 1
    parts: list[Part] = [votes[name].most_common(1)[0][0] if name in votes else "other" for name in names]
    before = [each.name for each in known]
    # Most steps are the same but for some kernels at one place; of the rest the longest runs agree.
    head = _shared(before, names)
    tail = _shared(before[head:][::-1], names[head:][::-1])
    middle = difflib.SequenceMatcher(
        None, before[head : len(before) - tail], list(names[head : len(names) - tail]), autojunk=False
    )
    blocks = [
        (0, 0, head),
        *((head + one, head + other, size) for one, other, size in middle.get_matching_blocks()),
    ]
    for from_, to, length in [*blocks, (len(before) - tail, len(names) - tail, tail)]:
        for offset in range(length):
            parts[to + offset] = known[from_ + offset].part
    return parts


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many names both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
