"""Routed experts by kernels of our own in Triton: the same code whatever FlashInfer's version.

Four kernels a call (five from LARGE pairs on), with grids for the worst routing, so that a CUDA graph holds
for any: a block of rows that no expert fills ends at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.operators.asking import module_of
from workers.bench.operators.base import UnsupportedError

#: pairs of token and expert from which on a kernel of its own counts them
LARGE = 8192
#: rows of a block that tensor cores need at least, and the most that pay
_ROWS = (16, 128)
#: ids that one program counts at once, and rows that it compares with its own at once
_LOOK, _PART = 1024, 32
_COMBINED = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """Columns of the output and of the sum that one program takes in one step, and how it does so."""

    n: int
    k: int
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True, slots=True)
class Tiles:
    rows: int
    fc1: Tile
    fc2: Tile


def tiles(pairs: int, layer: Layer) -> Tiles:
    """For `pairs` pairs of token and expert over all of the layer's experts.

    Rows: the mean of an expert and half as much again, so that few experts need a second block, which would
    read their weights once more. Few rows are bound by the weights: long, narrow tiles, many in flight.
    """
    mean = 1.5 * pairs / layer.experts
    rows = _ROWS[0]
    while rows < min(mean, _ROWS[1]):
        rows *= 2
    if rows >= 128:
        return Tiles(rows, Tile(128, 64, 8, 3), Tile(128, 64, 8, 4))
    if rows == 64:
        return Tiles(rows, Tile(64, 64, 4, 4), Tile(128, 64, 4, 4))
    if pairs <= 64:
        return Tiles(rows, Tile(32, 128, 4, 4), Tile(32, 128, 4, 4))
    return Tiles(rows, Tile(64, 128, 4, 3), Tile(64, 128, 4, 4))


def blocks_at_most(pairs: int, rows: int, local_experts: int) -> int:
    """Blocks of `rows` rows that any routing of `pairs` pairs to `local_experts` experts can fill: each that
    is hit leaves at most one of them not full."""
    hit = min(pairs, local_experts)
    return hit + (pairs - hit) // rows


def backends(torch: Any) -> list[Backend]:
    return [] if module_of("triton") is None else [Fused()]


class Fused:
    """bf16, every activation, biases, slices of experts and of their width."""

    name = "triton.fused_experts"

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        if layer.dtype != "bf16":
            raise UnsupportedError(f"triton.fused_experts multiplies bf16, not {layer.dtype}.")
        if weights.down.device.type == "cpu":
            raise UnsupportedError("triton.fused_experts runs on a GPU.")
        return FusedExperts(torch, layer, weights)

    def part_of(self, kernel: str) -> str | None:
        return {
            "moe_count": "dispatch", "moe_place": "dispatch", "moe_fc1": "fc1", "moe_fc2": "fc2",
            "moe_combine": "combine",
        }.get(kernel)  # fmt: skip


class FusedExperts:
    def __init__(self, torch: Any, layer: Layer, weights: Weights) -> None:
        from workers.bench.experts import triton_kernels

        self._kernels = triton_kernels
        self._torch = torch
        self._layer = layer
        self._up_gate, self._down = weights.up_gate.contiguous(), weights.down.contiguous()
        self._up_gate_bias = weights.up_gate_bias
        self._down_bias = weights.down_bias if layer.tp_rank == 0 else None
        #: a power of two that holds the local experts; histograms of few bins gain nothing
        self._experts = max(16, 1 << (layer.local_experts - 1).bit_length())

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        torch, layer, kernels = self._torch, self._layer, self._kernels
        tokens, pairs = hidden.shape[0], ids.numel()
        at = tiles(pairs, layer)
        blocks = blocks_at_most(pairs, at.rows, layer.local_experts)

        def empty(*shape: int, dtype: Any = hidden.dtype) -> Any:
            return torch.empty(shape, dtype=dtype, device=hidden.device)

        order = empty(blocks * at.rows, dtype=torch.int32)
        owner, filled = empty(blocks, dtype=torch.int32), empty(blocks, dtype=torch.int32)
        middle, rows = empty(blocks * at.rows, layer.inter), empty(pairs, layer.hidden)
        out = empty(tokens, layer.hidden)

        counted = pairs >= LARGE
        chunk = 512 if counted else 128
        chunks = -(-pairs // chunk)
        counts = empty(chunks, self._experts, dtype=torch.int32) if counted else order
        where = (layer.first_expert, layer.local_experts)
        if counted:
            kernels.moe_count[(chunks,)](ids, counts, pairs, *where, width=chunk, bins=self._experts)
        kernels.moe_place[(chunks,)](
            ids, counts, order, owner, filled, pairs, *where, blocks, chunks, block_m=at.rows, width=chunk,
            bins=self._experts, counted=counted, look=_LOOK, part=_PART, num_warps=16,
        )  # fmt: skip
        bias = self._up_gate_bias
        kernels.moe_fc1[(blocks * -(-layer.inter // at.fc1.n),)](
            hidden, self._up_gate, self._up_gate if bias is None else bias, middle, order, owner, filled,
            layer.inter, layer.hidden, top_k=layer.top_k, has_bias=bias is not None,
            activation=layer.activation, **_launch(at.rows, at.fc1, layer.hidden),
        )  # fmt: skip
        bias = self._down_bias
        kernels.moe_fc2[(blocks * -(-layer.hidden // at.fc2.n),)](
            middle, self._down, self._down if bias is None else bias, weights, rows, order, owner, filled,
            layer.hidden, layer.inter, has_bias=bias is not None, **_launch(at.rows, at.fc2, layer.inter),
        )  # fmt: skip
        kernels.moe_combine[(tokens, -(-layer.hidden // _COMBINED))](
            ids, rows, out, layer.hidden, *where, top_k=layer.top_k, block_n=_COMBINED
        )
        return out


def _launch(rows: int, tile: Tile, k: int) -> dict[str, int | bool]:
    return {
        "block_m": rows, "block_n": tile.n, "block_k": tile.k, "even_k": k % tile.k == 0,
        "num_warps": tile.warps, "num_stages": tile.stages,
    }  # fmt: skip
