"""The kernels that every timer times: 2 µs to 2 ms on an H200, of torch alone. Needs torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from workers.bench.gemm.sets import CACHE_MULTIPLE
from workers.bench.timers.base import Load

Make = Callable[[Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """`work(torch, *tensors)` over tensors on the GPU that `make(torch)` draws anew."""

    name: str
    make: Make
    work: Callable[..., Any]


def sets_of(torch: Any, kernel: Kernel, l2_bytes: int) -> list[tuple[Any, ...]]:
    """Tensors that together hold CACHE_MULTIPLE times the L2."""
    first = kernel.make(torch)
    held = sum(each.numel() * each.element_size() for each in first)
    count = max(2, math.ceil(CACHE_MULTIPLE * l2_bytes / held))
    return [first, *(kernel.make(torch) for _ in range(count - 1))]


def load_of(torch: Any, kernel: Kernel, sets: list[tuple[Any, ...]]) -> Load:
    def call(tensors: tuple[Any, ...]) -> Callable[[], tuple[Any, ...]]:
        return lambda: (kernel.work(torch, *tensors),)

    return Load([call(tensors) for tensors in sets])


def _mm(m: int, n: int, k: int) -> Kernel:
    def make(torch: Any) -> tuple[Any, ...]:
        # Zeros draw little power, so that the clock holds: it is timers that are compared.
        a, b = (torch.zeros(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
        return a, b, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    return Kernel(f"mm bf16 {m}x{n}x{k}", make, lambda torch, a, b, d: torch.mm(a, b.t(), out=d))


def _scale(rows: int, hidden: int) -> Kernel:
    def make(torch: Any) -> tuple[Any, ...]:
        x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
        return x, torch.randn(hidden, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)

    return Kernel(f"mul bf16 {rows}x{hidden}", make, lambda torch, x, w, y: torch.mul(x, w, out=y))


def _softmax(rows: int, columns: int) -> Kernel:
    def make(torch: Any) -> tuple[Any, ...]:
        x = torch.randn(rows, columns, device="cuda")
        return x, torch.empty_like(x)

    return Kernel(f"softmax fp32 {rows}x{columns}", make, lambda torch, x, y: torch.softmax(x, -1, out=y))


def _add(rows: int, hidden: int) -> Kernel:
    def make(torch: Any) -> tuple[Any, ...]:
        return tuple(torch.zeros(rows, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    return Kernel(f"add bf16 {rows}x{hidden}", make, lambda torch, x, w, y: torch.add(x, w, out=y))


#: No copies: in a graph these are another engine's work than in a stream (1 GiB: 776 µs against 503).
KERNELS = (
    _scale(64, 7168), _softmax(64, 8192), _mm(16, 4096, 1024), _mm(1024, 1024, 1024), _scale(1024, 7168),
    _mm(16, 4096, 7168), _mm(2048, 2048, 2048), _add(8192, 7168), _mm(4096, 4096, 4096),
    _mm(8192, 8192, 8192),
)  # fmt: skip
