"""Which backends compute the routed experts of a layer, as this Python offers them."""

from __future__ import annotations

import importlib
from typing import Any

from workers.bench.document import BenchError
from workers.bench.experts.base import Backend

#: modules beside this one; each has `backends(torch) -> list[Backend]`, empty where its library is missing
MODULES = ("torch_grouped", "triton_fused", "flashinfer_cutlass", "flashinfer_trtllm", "flashinfer_cute_dsl")


def backends(torch: Any) -> list[Backend]:
    """Every backend of the libraries that are here. Which of them does a layer on this device, each says
    itself when it is made."""
    found: list[Backend] = []
    for name in MODULES:
        module = importlib.import_module(f"workers.bench.experts.{name}")
        found.extend(module.backends(torch))
    return found


def by_name(torch: Any, name: str) -> Backend:
    """Raises BenchError where no library here has it."""
    found = {each.name: each for each in backends(torch)}
    if name not in found:
        raise BenchError(
            "unknown_backend",
            f"Experts by {name[:60]}: expected one of {', '.join(found)}, as installed here.",
        )
    return found[name]
