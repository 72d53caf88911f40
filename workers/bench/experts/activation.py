"""What stands between the two products of an expert. Needs torch."""

from __future__ import annotations

from typing import Any

from workers.bench.experts.base import Layer

#: of gpt-oss (its modeling code: `alpha`, `limit`); the part that is no gate is raised by SHIFT
ALPHA, LIMIT, SHIFT = 1.702, 7.0, 1.0


def activate(layer: Layer, product: Any) -> Any:
    """[rows, 2 · inter] of up beside gate (plain: [rows, inter]) → [rows, inter], in the dtype given.

    swiglu: silu(gate) · up. clamped_swiglu, as in gpt-oss: g · sigmoid(1.702 g) · (u + 1), g no more than 7
    and u within ±7. plain: max(up, 0)².
    """
    if layer.activation == "plain":
        return product.relu().square()
    up, gate = product.chunk(2, -1)
    if layer.activation == "clamped_swiglu":
        gate = gate.clamp(max=LIMIT)
        return gate * (gate * ALPHA).sigmoid() * (up.clamp(-LIMIT, LIMIT) + SHIFT)
    return gate * gate.sigmoid() * up
