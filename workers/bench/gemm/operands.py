"""Buffers of one case: fresh random inputs, poisoned outputs, enough sets to outrun a cache. Needs torch."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from workers.bench.cases.gemm import Gemm as Case
from workers.bench.document import L2Policy

#: what multiplies: part of what makes a series, so every measurement names it
BACKEND = "torch.mm"
INPUTS = "normal(0, 1), fresh"
#: sets together hold this many times the last-level cache: what a set left there is gone by its next turn
CACHE_MULTIPLE = 2
#: at most this share of free memory goes into operands; the float64 reference needs room as well
MEMORY_SHARE = 0.4
#: tiny cases would need tens of thousands of sets, whose handling would outlast the measuring
MAX_SETS = 512


@dataclasses.dataclass(frozen=True, slots=True)
class Operands:
    """A [M,K], B [N,K] and D [M,N], row-major, of one dtype."""

    a: Any
    b: Any
    d: Any


class DoesNotFitError(Exception):
    """The case cannot fit: said before trying, where trying could take the machine down."""


def torch_dtype(torch: Any, dtype: str) -> Any:
    return {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "tf32": torch.float32,
    }[dtype]


def need_bytes(case: Case) -> float:
    """Bytes of one set and of the float64 copies (inputs, output, reference, temporaries) of its check."""
    float64 = 8.0 * (case.m * case.k + case.n * case.k + 5 * case.m * case.n)
    return case.bytes + float64


def plan_sets(case: Case, cache_bytes: int | None, free_bytes: float) -> tuple[int, L2Policy]:
    """How many operand sets to rotate over, and the policy that this truly is.

    "rotated" only where all sets together exceed CACHE_MULTIPLE caches of known size.
    Raises DoesNotFitError where not even one set and its check fit.
    """
    if need_bytes(case) > free_bytes:
        raise DoesNotFitError(
            f"{case} needs {need_bytes(case) / 2**30:,.1f} GiB with its float64 check, "
            f"{free_bytes / 2**30:,.1f} GiB are free."
        )
    if cache_bytes is None:
        return 1, "unknown"
    wanted = max(2, math.ceil(CACHE_MULTIPLE * cache_bytes / case.bytes))
    affordable = max(1, min(MAX_SETS, int(free_bytes * MEMORY_SHARE / case.bytes)))
    return (wanted, "rotated") if wanted <= affordable else (affordable, "unknown")


def make_sets(torch: Any, case: Case, device: str, count: int) -> list[Operands]:
    """`count` sets with inputs drawn anew; outputs hold NaN."""
    dtype = torch_dtype(torch, case.dtype)
    return [
        Operands(
            a=torch.randn(case.m, case.k, dtype=dtype, device=device),
            b=torch.randn(case.n, case.k, dtype=dtype, device=device),
            d=torch.full((case.m, case.n), math.nan, dtype=dtype, device=device),
        )
        for _ in range(count)
    ]


def poison(sets: list[Operands]) -> None:
    """Fill every output with NaN: an element that is not written can then not pass for right."""
    for each in sets:
        each.d.fill_(math.nan)


def multiply(torch: Any, operands: Operands) -> None:
    """D = A · Bᵀ into the buffer that is there."""
    torch.mm(operands.a, operands.b.t(), out=operands.d)
