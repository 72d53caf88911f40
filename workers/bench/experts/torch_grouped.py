"""Routed experts by torch alone: one grouped product for all experts, or expert by expert on a CPU."""

from __future__ import annotations

from typing import Any

from workers.bench.experts.activation import activate
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.operators.base import UnsupportedError

#: bytes at which a row of a grouped product's operands must begin
_ALIGNMENT = 16


def backends(torch: Any) -> list[Backend]:
    return [Grouped(), Loop()]


class Grouped:
    """Pairs of token and expert sorted by expert, and torch's grouped product over them."""

    name = "torch.grouped_mm"

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        multiply = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        if multiply is None:
            raise UnsupportedError(f"torch {torch.__version__} has no grouped_mm.")
        if layer.dtype != "bf16":
            raise UnsupportedError(f"torch.grouped_mm multiplies bf16 here, not {layer.dtype}.")
        for width in (layer.hidden, layer.inter):
            if width * weights.down.element_size() % _ALIGNMENT:
                raise UnsupportedError(
                    f"torch.grouped_mm wants rows at multiples of {_ALIGNMENT} bytes, and {width} elements of"
                    f" {layer.dtype} are none."
                )
        return _GroupedExperts(torch, layer, weights, multiply)

    def part_of(self, kernel: str) -> str | None:
        """Element-wise kernels serve several parts under one name."""
        if "GroupProblemShape" in kernel:
            return "product"
        return "dispatch" if any(word in kernel for word in ("sort", "Sort", "grouped_gemm_data")) else None


class _GroupedExperts:
    def __init__(self, torch: Any, layer: Layer, weights: Weights, multiply: Any) -> None:
        self._torch = torch
        self._layer = layer
        self._multiply = multiply
        self._weights = weights
        device = weights.down.device
        self._experts = torch.arange(layer.local_experts, device=device)

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        torch, layer, own = self._torch, self._layer, self._weights
        local = ids.flatten().long() - layer.first_expert
        here = (local >= 0) & (local < layer.local_experts)
        # Other ranks' pairs sort behind all groups, where no product reaches.
        expert, order = torch.where(here, local, layer.local_experts).sort(stable=True)
        ends = torch.searchsorted(expert, self._experts, right=True).int()
        token = order // layer.top_k

        product = self._multiply(hidden[token], own.up_gate.transpose(1, 2), offs=ends)
        bounded = expert.clamp(max=layer.local_experts - 1)
        if own.up_gate_bias is not None:
            product = product + own.up_gate_bias[bounded]
        out = self._multiply(activate(layer, product), own.down.transpose(1, 2), offs=ends)
        if own.down_bias is not None and layer.tp_rank == 0:
            out = out + own.down_bias[bounded]
        # Rows behind the last group hold whatever lay in memory, NaN too.
        out = torch.where((expert < layer.local_experts)[:, None], out, 0)
        out.mul_(weights.flatten()[order, None])
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return out[back].view(*ids.shape, layer.hidden).sum(1)


class Loop:
    """Expert by expert, in whatever dtype the tensors have: for a CPU, and for float32."""

    name = "torch.loop"

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        if weights.down.device.type != "cpu":
            raise UnsupportedError("torch.loop reads on the host which experts are hit: it is for a CPU.")
        if layer.dtype not in ("bf16", "fp32"):
            raise UnsupportedError(f"torch.loop multiplies bf16 or fp32, not {layer.dtype}.")
        return _LoopExperts(torch, layer, weights)

    def part_of(self, kernel: str) -> str | None:
        return None


class _LoopExperts:
    def __init__(self, torch: Any, layer: Layer, weights: Weights) -> None:
        self._torch = torch
        self._layer = layer
        self._weights = weights

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        torch, layer, own = self._torch, self._layer, self._weights
        total = torch.zeros(hidden.shape[0], layer.hidden, dtype=torch.float32)
        for expert in (ids - layer.first_expert).unique().tolist():
            if not 0 <= expert < layer.local_experts:
                continue
            token, slot = (ids == layer.first_expert + expert).nonzero(as_tuple=True)
            product = hidden[token] @ own.up_gate[expert].t()
            if own.up_gate_bias is not None:
                product = product + own.up_gate_bias[expert]
            out = activate(layer, product) @ own.down[expert].t()
            if own.down_bias is not None and layer.tp_rank == 0:
                out = out + own.down_bias[expert]
            total.index_add_(0, token, out.float() * weights[token, slot, None])
        return total.to(hidden.dtype)
