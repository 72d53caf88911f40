"""Named case lists."""

from __future__ import annotations

from workers.bench.cases.gemm import Gemm as Case


def _sweep(ms: tuple[int, ...], n: int, k: int, dtype: str) -> list[Case]:
    return [Case(m, n, k, dtype) for m in ms]


_DECODE_M = (1, 2, 4, 8, 16, 32, 64, 128, 256)

SUITES: dict[str, tuple[Case, ...]] = {
    # Under a minute on two cores; N = K = 1024 keeps bf16 bearable on CPUs without bf16 instructions.
    "cpu-smoke": (
        *_sweep((1, 16, 64, 256), 1024, 1024, "bf16"),
        *_sweep((1, 16, 64, 256), 1024, 1024, "fp32"),
        *_sweep((1, 16, 64, 256), 2048, 1024, "fp32"),
    ),
    # Decode batches over a large model's projection shapes, then squares up to the chip's full rate.
    "h200-first": (
        *_sweep(_DECODE_M, 4096, 7168, "bf16"),
        *_sweep(_DECODE_M, 7168, 2048, "bf16"),
        *_sweep((1, 16, 256), 4096, 6144, "bf16"),
        *(Case(edge, edge, edge, "bf16") for edge in (2048, 4096, 8192)),
        Case(4096, 4096, 4096, "tf32"),
        Case(4096, 4096, 4096, "fp32"),
    ),
}
