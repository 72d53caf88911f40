"""How much a case matters: the weight of its changes in an alert. Pure.

| case | weight |
|---|---|
| whole model's step, server under load | 4 |
| kernel that a model's decode step calls | 1 + 2 min(1, calls × seconds / `STEP_S`) |
| any other kernel, collective | 1 |
| JIT module | 0.5 |
| ceiling (copy, empty kernel) | 0.25 |

An alert has the weight of its weightiest change, times 1 + log10 of how many series moved: ten together
matter twice as much as one, a hundred three times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from benchapp.runs.steps import SERVING, STEPS
from workers.bench.calls import calls_per_step
from workers.bench.cases.ceiling import Copy, EmptyKernel
from workers.bench.cases.modules import JitModule

#: A decode step of a served model takes about so long; a kernel with all of its calls as long weighs 3.
STEP_S = 0.01
WHOLE, KERNEL, BUILD, CEILING = 4.0, 1.0, 0.5, 0.25


def weight(kind: str, params: Mapping[str, Any], seconds: float | None) -> float:
    """Weight of a case that takes `seconds` a call; None where its metric is no time."""
    if kind in STEPS or kind == SERVING:
        return WHOLE
    if kind == JitModule.kind:
        return BUILD
    if kind in (Copy.kind, EmptyKernel.kind):
        return CEILING
    if seconds is None:
        return KERNEL
    try:
        calls = max(calls_per_step(kind, params).values(), default=0)
    except (KeyError, TypeError):  # an imported case of the kind may lack a parameter
        calls = 0
    return KERNEL + 2 * min(1.0, calls * seconds / STEP_S)


def together(weights: Iterable[float]) -> float:
    """Importance of an alert whose changes have these weights."""
    listed = list(weights)
    return max(listed, default=0.0) * (1 + math.log10(max(1, len(listed))))
