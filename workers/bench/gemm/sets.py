"""How many sets of inputs a case is measured over, what that makes of the L2, and whether it fits at all."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from workers.bench.cases.base import Case
from workers.bench.cases.ceiling import Copy
from workers.bench.cases.gemm import Gemm, GroupedGemm
from workers.bench.cases.moe import Moe, MoeLayer
from workers.bench.document import L2Policy
from workers.bench.operators.base import Operator, Ready
from workers.bench.roofline import BYTES_PER_ELEMENT

L2 = Literal["auto", "rotated", "flushed"]
L2_CHOICES: tuple[L2, ...] = ("auto", "rotated", "flushed")
#: sets together, and what a flush reads, hold this many times the last-level cache: what a set left there is
#: gone by its next turn
CACHE_MULTIPLE = 2
#: at most this share of free memory goes into sets; the check needs room as well
MEMORY_SHARE = 0.4
#: tiny cases would need thousands of sets, whose making would outlast the measuring
MAX_SETS = 256
#: inputs are drawn in fp32 and scaled before they become a narrow format
_DRAWING_BYTES = 8


class DoesNotFitError(Exception):
    """The case cannot fit: said before trying, where trying could take the machine down."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """`count` sets in turn, with a flush before every call or without, and the policy that this truly is."""

    count: int
    flush: bool
    policy: L2Policy


def need_bytes(case: Case) -> float:
    """Bytes of one set while it is drawn and checked, roughly and not too many."""
    held = case.work.bytes
    if isinstance(case, Gemm):
        return held + _DRAWING_BYTES * max(case.m, case.n) * case.k + 2 * case.m * case.n
    if isinstance(case, GroupedGemm):  # weights lie there whether rows reach them or not
        weights = case.groups * case.n * case.k * BYTES_PER_ELEMENT[case.dtype]
        return max(held, weights) + _DRAWING_BYTES * max(case.m, case.n) * case.k
    if isinstance(case, Moe | MoeLayer):  # so do those of experts that no token reaches
        return max(held, case.held_bytes)
    return held if isinstance(case, Copy) else 2 * held


def refuse_too_large(case: Case, free_bytes: float) -> None:
    """Raises DoesNotFitError where not even one set and its check fit."""
    need = need_bytes(case)
    if need > free_bytes:
        raise DoesNotFitError(
            f"{case} needs {need / 2**30:,.1f} GiB with its inputs and its check, "
            f"{free_bytes / 2**30:,.1f} GiB are free."
        )


def plan(touched: float, held: float, cache_bytes: int | None, free_bytes: float, l2: L2) -> Plan:
    """How to see to it that a call finds nothing of its own in a cache of `cache_bytes`.

    A call touches `touched` bytes of a set that holds `held`. "rotated" only where all sets together exceed
    CACHE_MULTIPLE caches; where that cannot be had, "auto" flushes. Of an unknown cache nothing is said.
    """
    if cache_bytes is None:
        return Plan(1, False, "unknown")
    if l2 == "flushed":
        return Plan(1, True, "flushed")
    wanted = max(2, math.ceil(CACHE_MULTIPLE * cache_bytes / max(touched, 1.0)))
    affordable = max(1, min(MAX_SETS, int(free_bytes * MEMORY_SHARE / max(held, 1.0))))
    if wanted <= affordable:
        return Plan(wanted, False, "rotated")
    return Plan(1, True, "flushed") if l2 == "auto" else Plan(affordable, False, "unknown")


def fill(torch: Any, operator: Operator, case: Case, first: Ready, count: int) -> list[Ready]:
    """`first` and as many more sets, each drawn anew, as make `count`."""
    return [first, *(operator.ready(torch, case) for _ in range(count - 1))]


def poison(torch: Any, outputs: tuple[Any, ...]) -> None:
    """Fill with bytes of ones: NaN in every float format, and nothing a kernel would write in the others.

    An element that is not written can then not pass for right.
    """
    for each in outputs:
        if each.is_contiguous():
            each.view(-1).view(torch.uint8).fill_(255)
        elif each.is_floating_point():
            each.fill_(math.nan)
        else:
            each.fill_(torch.iinfo(each.dtype).max)
