"""Kernels beside the products, and ceilings."""

from __future__ import annotations

from workers.bench.cases.base import Case
from workers.bench.cases.ceiling import Copy, EmptyKernel
from workers.bench.cases.gemm import Gemm
from workers.bench.cases.step import (
    DecodeAttention,
    PrefillAttention,
    Quantize,
    RmsNorm,
    Rope,
    Sampling,
    SiluAndMul,
)
from workers.bench.document import GPU_TIMERS
from workers.bench.models import model

TOKENS = (1, 16, 64, 256, 1024, 4096)
MIB = 2**20
#: Attention is measured at head_dim 128 only: FlashInfer builds a module for each.
ATTENTION_MODELS = ("Qwen3-30B-A3B", "Qwen3-235B-A22B", "Mixtral-8x7B")


def step() -> list[Case]:
    """Widths of GLM-5, DeepSeek-V3 and Qwen3; batches of a decode step and chunks of a prefill."""
    cases: list[Case] = []
    for hidden in (2048, 4096, 6144, 7168):
        cases += [RmsNorm(tokens, hidden, "bf16") for tokens in TOKENS]
    for hidden in (256, 768, 1536, 2048):
        cases += [SiluAndMul(tokens, hidden, "bf16") for tokens in TOKENS]
    for to in ("nvfp4", "mxfp4", "mxfp8", "fp8"):
        cases += [Quantize(tokens, 7168, "bf16", to) for tokens in (*TOKENS, 16_384)]
    for q_heads, kv_heads in ((32, 4), (64, 4)):
        cases += [Rope(tokens, q_heads, kv_heads, 128, "bf16") for tokens in TOKENS]
    for vocab in (129_280, 151_936):
        cases += [Sampling(batch, vocab, "fp32") for batch in TOKENS]
    for name in ATTENTION_MODELS:
        of = model(name)
        heads = (of.q_heads, of.kv_heads, of.head_dim)
        cases += [
            DecodeAttention(batch, context, *heads, "bf16")
            for context in (1024, 4096, 16_384)
            for batch in (1, 4, 16, 64, 256)
            if batch * context <= 2**20
        ]
        cases += [PrefillAttention(1, context, *heads, "bf16") for context in (512, 1024, 2048, 4096, 8192)]
    return cases


def ceilings() -> list[Case]:
    return [
        *(Copy(size * MIB) for size in (1, 4, 16, 64, 256, 1024, 4096)),
        *(Gemm(edge, edge, edge, dtype) for dtype in ("bf16", "fp8") for edge in (4096, 8192, 16_384)),
        *empty_kernels(),
    ]


def reference() -> list[Case]:
    """What no library here moves, one of each: bandwidth, launches, arithmetic. Some seconds."""
    return [
        Copy(2048 * MIB),
        *(Gemm(8192, 8192, 8192, dtype) for dtype in ("bf16", "fp8")),
        *empty_kernels(),
    ]


def empty_kernels() -> list[Case]:
    """One by each timer."""
    return [EmptyKernel(timer) for timer in GPU_TIMERS]
