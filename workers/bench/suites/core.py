"""Case lists for a visit to an H200."""

from __future__ import annotations

from workers.bench.cases.base import Case
from workers.bench.cases.ceiling import Copy
from workers.bench.cases.gemm import Gemm, GroupedGemm
from workers.bench.cases.step import (
    DecodeAttention,
    PrefillAttention,
    Quantize,
    RmsNorm,
    Rope,
    Sampling,
    SiluAndMul,
)
from workers.bench.models import model
from workers.bench.suites.gemms import sweep
from workers.bench.suites.step import MIB, empty_kernels

_FIRST_M = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (1, 64, 4096)


def first() -> list[Case]:
    """Decode batches over a large model's projections, then squares up to the chip's full rate."""
    return [
        *sweep(_FIRST_M, 4096, 7168, "bf16"),
        *sweep(_FIRST_M, 7168, 2048, "bf16"),
        *sweep((1, 16, 256), 4096, 6144, "bf16"),
        *(Gemm(edge, edge, edge, "bf16") for edge in (2048, 4096, 8192)),
        Gemm(4096, 4096, 4096, "tf32"),
        Gemm(4096, 4096, 4096, "fp32"),
    ]


def core() -> list[Case]:
    """About two minutes with every backend of a release: one of each kind, and both traps.

    Traps: an fp8 product of 16 tokens, whose time by events is mostly the host's; nvfp4 quantisation on a
    GPU where its kernel does nothing, the larger input far beyond the L2.
    """
    of = model("Qwen3-30B-A3B")
    heads = (of.q_heads, of.kv_heads, of.head_dim)
    return [
        *sweep((1, 16, 64, 256), 4096, 7168, "bf16"),
        *sweep((1, 16, 256), 7168, 2048, "bf16"),
        *sweep((1, 16, 64, 256), 4096, 7168, "fp8"),
        *sweep((16, 256), 7168, 2048, "fp8"),
        *(Gemm(8192, 8192, 8192, dtype) for dtype in ("bf16", "fp8")),
        Gemm(128, 4096, 7168, "fp8_block"),
        Gemm(16, 4096, 7168, "nvfp4"),
        Gemm(16, 4096, 7168, "mxfp8"),
        GroupedGemm(8, 1024, 4096, 7168, "bf16"),
        *(DecodeAttention(batch, 4096, *heads, "bf16") for batch in (1, 16, 64, 256)),
        PrefillAttention(1, 4096, *heads, "bf16"),
        *(RmsNorm(tokens, 7168, "bf16") for tokens in _TOKENS),
        *(SiluAndMul(tokens, 2048, "bf16") for tokens in _TOKENS),
        *(Rope(tokens, of.q_heads, of.kv_heads, of.head_dim, "bf16") for tokens in _TOKENS),
        *(Sampling(batch, of.vocab, "fp32") for batch in _TOKENS),
        *(Quantize(tokens, 7168, "bf16", "nvfp4") for tokens in (4096, 16_384)),
        Copy(256 * MIB),
        Copy(2048 * MIB),
        *empty_kernels(),
    ]
