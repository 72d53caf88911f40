"""What a kernel's name tells: whose it is, and which part of a step. Pure.

Names as CUPTI tells them, demangled.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import re
from collections.abc import Callable, Sequence
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


def refined(name: str, part: Part | None, part_of: Callable[[str], str | None]) -> Part:
    """The part of a kernel that experts launched, as their backend knows it by name; the others' is that of
    the range that launched them."""
    if part not in (None, "other", *EXPERT_PARTS):
        return part  # type: ignore[return-value]
    told = part_of(name)
    if told in EXPERT_PARTS:
        return cast(Part, told)
    return part or "other"


def align(names: Sequence[str], known: Sequence[Launched]) -> list[Part]:
    """Parts of a replayed graph's kernels, from the same step launched one by one.

    Where both orders agree, one by one; a kernel that only the graph has is what most kernels of its name
    were, or "other".
    """
    matcher = difflib.SequenceMatcher(None, [each.name for each in known], list(names), autojunk=False)
    votes: dict[str, collections.Counter[Part]] = {}
    for each in known:
        votes.setdefault(each.name, collections.Counter())[each.part] += 1
    parts: list[Part] = [votes[name].most_common(1)[0][0] if name in votes else "other" for name in names]
    for from_, to, length in matcher.get_matching_blocks():
        for offset in range(length):
            parts[to + offset] = known[from_ + offset].part
    return parts
