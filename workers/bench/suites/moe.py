"""Layers with experts: whole ones of each model, and routed experts alone by format."""

from __future__ import annotations

from collections.abc import Iterable

from workers.bench.cases.base import Case
from workers.bench.cases.moe import FORMATS, Moe, MoeLayer
from workers.bench.models import model, models

DECODE_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PREFILL_TOKENS = (512, 1024, 4096, 16_384)
SKEWED = ("balanced", "power_law_1.2", "worst")
#: ways to split a layer over more than one GPU
SLICES = ((2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8))
#: both are measured whole on an H200
CORE_MODELS = ("Qwen3-30B-A3B", "gpt-oss-20b")


def decode() -> list[Case]:
    """Every model at batches of a decode step; at 64 tokens also skewed, and one GPU's slices."""
    return _layers((each.name for each in models()), DECODE_TOKENS, 64)


def prefill() -> list[Case]:
    return _layers((each.name for each in models()), PREFILL_TOKENS, 4096)


def core() -> list[Case]:
    """A short visit."""
    return [
        case
        for name in CORE_MODELS
        for case in (
            *(MoeLayer(name, tokens, 1, 1, "uniform", "bf16") for tokens in (1, 8, 64, 256, 4096)),
            *(MoeLayer(name, 64, 1, 1, routed, "bf16") for routed in SKEWED),
            *(MoeLayer(name, 64, tp, ep, "uniform", "bf16") for tp, ep in ((2, 1), (1, 2))),
        )
    ]


def formats() -> list[Case]:
    """Routed experts alone, as aiconfigurator measures them."""
    cases: list[Case] = []
    for name in ("GLM-5", "DeepSeek-V3", "Qwen3-30B-A3B"):
        of = model(name)
        for dtype in FORMATS:
            cases += [
                Moe(tokens, of.hidden, of.moe_intermediate, of.top_k, of.experts, 1, 1, "gated", "uniform",
                    dtype)
                for tokens in (1, 16, 64, 256, 4096)
                if dtype != "int4_wo"  # no backend here multiplies it
            ]  # fmt: skip
    return cases


def _layers(names: Iterable[str], tokens: tuple[int, ...], middle: int) -> list[Case]:
    cases: list[Case] = []
    for name in names:
        cases += [MoeLayer(name, each, 1, 1, "uniform", "bf16") for each in tokens]
        cases += [MoeLayer(name, middle, 1, 1, routed, "bf16") for routed in SKEWED]
        cases += [
            MoeLayer(name, middle, tp, ep, "uniform", "bf16")
            for tp, ep in SLICES
            if model(name).experts % ep == 0
        ]
    return cases
