"""The router's choice as one kernel a layer: scores, groups, top-k, weights and counts. Needs Triton."""

from __future__ import annotations

from typing import Any

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from workers.bench.decoder.router import Counts
from workers.bench.models import Model


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _choose(  # type: ignore[no-untyped-def]
    logits, ids, weights, rows, stamps, touched, step,
    stride, scaling,
    experts: tl.constexpr, padded: tl.constexpr, top: tl.constexpr, top_padded: tl.constexpr,
    groups: tl.constexpr, top_groups: tl.constexpr, sigmoid: tl.constexpr,
):  # fmt: skip
    """One token a program. `logits` has `stride` elements a row; padded and top_padded are powers of two."""
    token = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, padded)
    here = expert < experts
    score = tl.load(logits + token * stride + expert, mask=here, other=0.0).to(tl.float32)
    if sigmoid:
        score = tl.sigmoid(score)
    score = tl.where(here, score, float("-inf"))

    if groups > 1:
        # Only where padded is experts.
        grouped = tl.reshape(score, (groups, padded // groups))
        member = tl.arange(0, padded // groups)[None, :]
        first = tl.argmax(grouped, axis=1)
        best = tl.max(grouped, axis=1)
        rest = tl.where(member == first[:, None], float("-inf"), grouped)
        worth = best + tl.max(rest, axis=1)
        group = tl.arange(0, groups)
        seen = tl.zeros((groups,), dtype=tl.int32)
        for _ in tl.static_range(top_groups):
            chosen = tl.argmax(worth, axis=0)
            seen = tl.where(group == chosen, 1, seen)
            worth = tl.where(group == chosen, float("-inf"), worth)
        grouped = tl.where(seen[:, None] == 1, grouped, float("-inf"))
        score = tl.reshape(grouped, (padded,))

    slot = tl.arange(0, top_padded)
    found = tl.zeros((top_padded,), dtype=tl.int32)
    value = tl.full((top_padded,), float("-inf"), dtype=tl.float32)
    for turn in tl.static_range(top):
        chosen = tl.argmax(score, axis=0)
        found = tl.where(slot == turn, chosen, found)
        value = tl.where(slot == turn, tl.max(score, axis=0), value)
        score = tl.where(expert == chosen, float("-inf"), score)

    used = slot < top
    if sigmoid:
        weight = tl.where(used, value, 0.0)
        if top > 1:
            weight = weight / tl.sum(weight, axis=0)
    else:
        weight = tl.exp(value - tl.max(value, axis=0))
        weight = weight / tl.sum(weight, axis=0)
    tl.store(ids + token * top + slot, found, mask=used)
    tl.store(weights + token * top + slot, weight * scaling, mask=used)

    tl.atomic_add(rows + found, 1, mask=used)
    now = tl.load(step)
    old = tl.atomic_xchg(stamps + found, now, mask=used)
    tl.atomic_add(touched, tl.sum(tl.where(used & (old != now), 1, 0), axis=0))


class TritonChoice:
    """`router.Choice` on a GPU."""

    def __init__(self, torch: Any, model: Model, counts: Counts) -> None:
        self._torch = torch
        self._of = model
        self._counts = counts
        self._padded = triton.next_power_of_2(model.experts)
        if model.groups > 1 and self._padded != model.experts:
            raise ValueError(f"{model.experts} experts in groups: this kernel wants a power of two of them.")

    def __call__(self, logits: Any, layer: int, step: Any) -> tuple[Any, Any]:
        torch, of, counts = self._torch, self._of, self._counts
        shape = (logits.shape[0], of.top_k)
        ids = torch.empty(shape, dtype=torch.int32, device=logits.device)
        weights = torch.empty(shape, dtype=torch.float32, device=logits.device)
        _choose[(shape[0],)](
            logits, ids, weights, counts.rows[layer], counts.stamps[layer], counts.touched[layer:], step,
            logits.stride(0), of.routed_scaling,
            experts=of.experts, padded=self._padded, top=of.top_k,
            top_padded=triton.next_power_of_2(of.top_k), groups=of.groups, top_groups=of.top_groups,
            sigmoid=of.scoring == "sigmoid", num_warps=1,
        )  # fmt: skip
        return ids, weights
