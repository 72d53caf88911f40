"""Which operators compute a case: every library's, as this Python offers them on the current device."""

from __future__ import annotations

import importlib
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.operators.base import Operator

_PRODUCTS = ("torch_gemm", "flashinfer_gemm", "flashinfer_grouped", "sgl_gemm")
_STEP = ("step",)
#: modules beside this one, by kind of case; each has `operators(torch, case) -> list[Operator]`
MODULES = {
    "gemm": _PRODUCTS,
    "grouped_gemm": _PRODUCTS,
    "decode_attention": ("attention",),
    "prefill_attention": ("attention",),
    "rmsnorm": _STEP,
    "silu_and_mul": _STEP,
    "quantize": _STEP,
    "rope": _STEP,
    "sampling": _STEP,
    "moe": ("moe",),
    "moe_layer": ("moe",),
    "copy": ("ceilings",),
    "empty_kernel": ("ceilings",),
}


def operators(torch: Any, case: Case) -> list[Operator]:
    """Empty where no library here knows such a case. What a library knows but does not do on this device is
    there, and raises UnsupportedError when made ready."""
    found: list[Operator] = []
    for name in MODULES.get(case.kind, ()):
        module = importlib.import_module(f"workers.bench.operators.{name}")
        found.extend(module.operators(torch, case))
    return found
