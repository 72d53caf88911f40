"""Attention of a layer from its normed hidden states to what it adds: products, norms, rotary embedding, and
a cache that does the rest. Needs torch."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from workers.bench.decoder.kernels import Kernels
from workers.bench.decoder.weights import Grouped, Latent
from workers.bench.model_work import Layout


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """Of one rank: sequences, and tokens of each, those that steps will add among them."""

    batch: int
    context: int


class Cache(Protocol):
    """What every cache does. One phase at a time: the last of `plan` and `plan_prefill` says which. Whoever
    plans has made sure that the device has read what the plan before last handed over."""

    def resize(self, batch: int) -> None:
        """From here on steps are of `batch` sequences, the first ones."""

    def fill(self) -> None:
        """Random content everywhere, of the size that keys and values have."""

    def plan(self, length: int) -> None:
        """The host's part of a step after which every sequence has `length` tokens."""

    def prepare(self, positions: Any) -> None:
        """The device's part that all layers share, of a step at the [batch] int32 `positions`."""

    def plan_prefill(self, first: int, count: int, length: int) -> Any:
        """Of `count` sequences from `first` on, `length` tokens each. Their [count · length] int32
        positions."""


class GroupedCache(Cache, Protocol):
    def attend(self, layer: int, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        """Appends [rows, kv heads, dim] of keys and values, and attends with [rows, heads, dim] of queries →
        the same shape, dense. `sinks`: [heads] float32 or None."""


class LatentCache(Cache, Protocol):
    @property
    def prefilling(self) -> bool: ...

    def append(self, layer: int, latent: Any, rope: Any) -> None:
        """[rows, kv rank] and [rows, rope dim]."""

    def attend(self, layer: int, q: Any, q_rope: Any) -> Any:
        """One token a sequence: [batch, heads, kv rank] of queries multiplied into the latent's space and
        [batch, heads, rope dim] → [batch, heads, kv rank]."""


class Attention(Protocol):
    def __call__(self, layer: int, weights: Any, h: Any, positions: Any) -> Any:
        """[rows, hidden] → [rows, hidden], this rank's part of the sum over its heads."""


class GroupedAttention:
    """Queries in groups that share a head of the cache."""

    def __init__(self, torch: Any, layout: Layout, kernels: Kernels, cache: GroupedCache) -> None:
        self._linear = torch.nn.functional.linear
        self._kernels = kernels
        self._cache = cache
        self._heads, self._kv_heads = layout.model.heads(layout.tp)
        self._dim = layout.model.head_dim

    def __call__(self, layer: int, weights: Grouped, h: Any, positions: Any) -> Any:
        qkv = self._linear(h, weights.qkv, weights.qkv_bias)
        heads = qkv.view(len(h), -1, self._dim)
        q, k, v = heads.split((self._heads, self._kv_heads, self._kv_heads), 1)
        if weights.q_norm is not None:
            self._kernels.norm_(q, weights.q_norm)
            self._kernels.norm_(k, weights.k_norm)
        self._kernels.rope_(q, k, positions)
        out = self._cache.attend(layer, q, k, v, weights.sinks)
        return self._linear(out.flatten(1), weights.o, weights.o_bias)


class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, 2024): a decode step multiplies the weights that would expand
    the cache into query and output instead; a prefill expands its own tokens and attends by torch's
    scaled_dot_product_attention."""

    def __init__(self, torch: Any, layout: Layout, kernels: Kernels, cache: LatentCache) -> None:
        assert layout.model.mla is not None
        self._torch = torch
        self._linear = torch.nn.functional.linear
        self._kernels = kernels
        self._cache = cache
        self._mla = layout.model.mla
        self._heads = layout.model.heads(layout.tp)[0]
        self._length = 1

    def prefill_of(self, length: int) -> None:
        """Tokens of each sequence in the prefill that comes."""
        self._length = length

    def __call__(self, layer: int, weights: Latent, h: Any, positions: Any) -> Any:
        mla = self._mla
        rank, rope = mla.kv_lora_rank, mla.qk_rope_head_dim
        q, latent, k_rope = self._linear(h, weights.qkv_a).split((mla.q_lora_rank, rank, rope), 1)
        q = self._kernels.norm(q, weights.q_a_norm)
        self._kernels.norm_(latent, weights.kv_a_norm)
        heads = self._linear(q, weights.q_b).view(len(h), self._heads, -1)
        q_nope, q_rope = heads.split((mla.qk_nope_head_dim, rope), -1)
        self._kernels.rope_(q_rope, k_rope[:, None], positions)
        self._cache.append(layer, latent, k_rope)
        if self._cache.prefilling:
            out = self._expanded(weights, heads, latent, k_rope)
        else:
            absorbed = self._by_head(q_nope, weights.k_b)
            out = self._by_head(self._cache.attend(layer, absorbed, q_rope), weights.v_b.transpose(1, 2))
        return self._linear(out.flatten(1), weights.o)

    def _by_head(self, x: Any, weight: Any) -> Any:
        """[rows, heads, K] · [heads, K, N] → [rows, heads, N], written where it belongs."""
        out = x.new_empty(x.shape[0], x.shape[1], weight.shape[2])
        self._torch.bmm(x.transpose(0, 1), weight, out=out.transpose(0, 1))
        return out

    def _expanded(self, weights: Latent, q: Any, latent: Any, k_rope: Any) -> Any:
        rows, heads = len(latent), self._heads
        k_nope = self._linear(latent, weights.k_b.flatten(0, 1)).view(rows, heads, -1)
        v = self._linear(latent, weights.v_b.flatten(0, 1)).view(rows, heads, -1)
        k = self._torch.cat((k_nope, k_rope[:, None].expand(-1, heads, -1)), -1)
        by_sequence = (each.unflatten(0, (-1, self._length)).transpose(1, 2) for each in (q, k, v))
        out = self._torch.nn.functional.scaled_dot_product_attention(*by_sequence, is_causal=True)
        return out.transpose(1, 2).flatten(0, 1)
