"""Routed experts in float32, expert by expert: what backends are held against. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers.bench.experts.activation import activate
from workers.bench.experts.base import Layer, Weights


def routed_experts(
    torch: Any,
    layer: Layer,
    weights: Weights,
    hidden: Any,
    ids: Any,
    scales: Any,
    rounded: Callable[[Any], Any] | None = None,
) -> Any:
    """[T, hidden] float32: this rank's part of the sum for [T, hidden] tokens, [T, top_k] global ids of their
    experts and [T, top_k] weights `scales`.

    Any device; one expert's weights are expanded at once. `rounded` is what a narrow format makes of the rows
    of either product before they are multiplied. The bias of FC2 is rank 0's of the tensor-parallel ones.
    """
    kept = rounded or (lambda rows: rows)
    rows = kept(hidden.float())
    total = torch.zeros(hidden.shape[0], layer.hidden, device=hidden.device)
    for expert in range(layer.local_experts):
        token, slot = (ids == layer.first_expert + expert).nonzero(as_tuple=True)
        if not len(token):
            continue
        product = rows[token] @ weights.up_gate[expert].float().t()
        if weights.up_gate_bias is not None:
            product += weights.up_gate_bias[expert].float()
        out = kept(activate(layer, product)) @ weights.down[expert].float().t()
        if weights.down_bias is not None and layer.tp_rank == 0:
            out += weights.down_bias[expert].float()
        total.index_add_(0, token, out * scales[token, slot].float()[:, None])
    return total
