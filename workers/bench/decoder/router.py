"""Which experts a token goes to, and how many rows each expert got. Needs torch.

Softmax scores are renormalised over the experts chosen, which is the softmax of their logits alone. Sigmoid
scores are renormalised too, but for the only expert of a top-1, and scaled. Where experts stand in groups,
only the groups whose two best scores sum highest are seen (DeepSeek-V3, 2024, section 2.1.2, with a bias of
zero: random weights have no use for balancing).
"""

from __future__ import annotations

from typing import Any, Protocol

from workers.bench.models import Model


class Counts:
    """On the device: rows by layer and expert, and how many experts each layer touched a step."""

    def __init__(self, torch: Any, layers: int, experts: int, device: str) -> None:
        self.rows = torch.zeros(layers, experts, dtype=torch.int32, device=device)
        #: the step that last touched an expert
        self.stamps = torch.zeros(layers, experts, dtype=torch.int32, device=device)
        #: touches, summed over steps
        self.touched = torch.zeros(layers, dtype=torch.int32, device=device)

    def clear(self) -> None:
        self.rows.zero_()
        self.touched.zero_()


class Choice(Protocol):
    def __call__(self, logits: Any, layer: int, step: Any) -> tuple[Any, Any]:
        """[rows, experts] logits → [rows, top_k] int32 ids and float32 weights; counted for `layer` under the
        number [1] int32 of this step, which is never 0."""


class TorchChoice:
    """Plain torch."""

    def __init__(self, torch: Any, model: Model, counts: Counts) -> None:
        self._torch = torch
        self._of = model
        self._counts = counts

    def __call__(self, logits: Any, layer: int, step: Any) -> tuple[Any, Any]:
        ids, weights = choose(self._torch, self._of, logits)
        counts, flat = self._counts, ids.flatten()
        counts.rows[layer].index_add_(0, flat, self._torch.ones_like(flat, dtype=self._torch.int32))
        # A new stamp on a copy, so that an expert hit twice counts once.
        old = counts.stamps[layer].clone()
        counts.stamps[layer].index_copy_(0, flat, step.expand(len(flat)))
        counts.touched[layer].add_((counts.stamps[layer] != old).sum())
        return ids.int(), weights


def choose(torch: Any, of: Model, logits: Any) -> tuple[Any, Any]:
    """[rows, experts] → [rows, top_k] int64 ids and float32 weights, best first."""
    logits = logits.float()
    scores = logits.sigmoid() if of.scoring == "sigmoid" else logits
    seen = scores
    if of.groups > 1:
        grouped = scores.unflatten(-1, (of.groups, -1))
        best = grouped.topk(2, -1).values.sum(-1).topk(of.top_groups, -1).indices
        kept = torch.zeros_like(grouped[..., 0], dtype=torch.bool).scatter_(-1, best, True)
        seen = grouped.masked_fill(~kept[..., None], float("-inf")).flatten(-2)
    chosen = seen.topk(of.top_k, -1)
    if of.scoring == "softmax":
        return chosen.indices, chosen.values.softmax(-1) * of.routed_scaling
    weights = chosen.values
    if of.top_k > 1:
        weights = weights / weights.sum(-1, keepdim=True)
    return chosen.indices, weights * of.routed_scaling


def choice(torch: Any, model: Model, counts: Counts, device: str) -> Choice:
    """By torch's own operations on a CPU, on a GPU by a kernel of ours, in one launch."""
    if device == "cpu":
        return TorchChoice(torch, model, counts)
    from workers.bench.decoder.router_triton import TritonChoice

    return TritonChoice(torch, model, counts)
