"""Caches as plain tensors with attention written out in torch: the path of a machine without FlashInfer, and
a constant to hold FlashInfer's against. A step reads the whole capacity and masks what is not there yet, so
that it can be captured in a CUDA graph. Needs torch."""

from __future__ import annotations

from typing import Any

from workers.bench.decoder.attention import Capacity
from workers.bench.model_work import Layout


class _Dense:
    """[batch, …, capacity, width] tensors of each layer."""

    def __init__(self, torch: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        self._torch = torch
        self._of = layout.model
        self._heads, self._kv_heads = layout.model.heads(layout.tp)
        self._device = device
        self._batch = capacity.batch
        self._slots = torch.arange(capacity.context, device=device)
        self._first = self._length = 0
        self.prefilling = False

    def _empty(self, layers: int, *shape: int) -> list[Any]:
        torch = self._torch
        made = (torch.zeros(shape, dtype=torch.bfloat16, device=self._device) for _ in range(layers))
        return list(made)

    def resize(self, batch: int) -> None:
        self._batch = batch

    def plan(self, length: int) -> None:
        self.prefilling = False

    def prepare(self, positions: Any) -> None:
        # Every sequence of a batch is as long as the others.
        self._at = positions[:1].long()
        later = self._slots > self._at
        self._mask = later
        if self._of.sliding_window:
            self._window_mask = later | (self._slots <= self._at - self._of.sliding_window)

    def plan_prefill(self, first: int, count: int, length: int) -> Any:
        self.prefilling = True
        self._first, self._length = first, length
        positions = self._torch.arange(length, dtype=self._torch.int32, device=self._device)
        return positions.repeat(count)

    def _windowed(self, layer: int) -> bool:
        """Of each two layers the first, where the model has a window."""
        return bool(self._of.sliding_window) and layer % 2 == 0


class DenseGrouped(_Dense):
    """`attention.GroupedCache`."""

    def __init__(self, torch: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        super().__init__(torch, layout, capacity, device)
        shape = (capacity.batch, self._kv_heads, capacity.context, layout.model.head_dim)
        self._keys = self._empty(layout.layers, *shape)
        self._values = self._empty(layout.layers, *shape)

    def fill(self) -> None:
        for each in (*self._keys, *self._values):
            each.normal_()

    def attend(self, layer: int, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        if self.prefilling:
            return self._prefill(layer, q, k, v, sinks)
        batch, group = self._batch, self._heads // self._kv_heads
        keys, values = self._keys[layer][:batch], self._values[layer][:batch]
        keys.index_copy_(2, self._at, k[:, :, None])
        values.index_copy_(2, self._at, v[:, :, None])
        grouped = q.reshape(batch, self._kv_heads, group, -1)
        mask = self._window_mask if self._windowed(layer) else self._mask
        return self._weigh(grouped, keys, values, mask, sinks).flatten(1, 2)

    def _weigh(self, q: Any, keys: Any, values: Any, mask: Any, sinks: Any) -> Any:
        """q [batch, kv heads, rows, dim], rows of a whole group; `mask` is true where nothing is seen."""
        scores = (q @ keys.transpose(2, 3)).float() * q.shape[-1] ** -0.5
        scores = scores.masked_fill(mask, float("-inf"))
        if sinks is not None:
            # One more logit in the softmax, which leads to no value.
            rows = q.shape[2] * self._kv_heads // self._heads
            column = sinks.view(self._kv_heads, -1).repeat_interleave(rows, 1)
            scores = self._torch.cat((scores, column[None, :, :, None].expand(len(q), -1, -1, -1)), -1)
            shares = scores.softmax(-1)[..., :-1]
        else:
            shares = scores.softmax(-1)
        return shares.to(values.dtype) @ values

    def _prefill(self, layer: int, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        length, group = self._length, self._heads // self._kv_heads
        q, k, v = (each.unflatten(0, (-1, length)).transpose(1, 2) for each in (q, k, v))
        here = slice(self._first, self._first + len(q))
        self._keys[layer][here, :, :length] = k
        self._values[layer][here, :, :length] = v
        if sinks is None and not self._windowed(layer):
            out = self._torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=group > 1
            )
            return out.transpose(1, 2).flatten(0, 1)
        row, column = self._slots[:length, None], self._slots[None, :length]
        mask = column > row
        if self._windowed(layer):
            mask |= column <= row - self._of.sliding_window
        out = self._torch.empty_like(q)
        for index in range(len(q)):  # one by one: scores take length² of memory for each head
            grouped = q[index : index + 1].reshape(1, self._kv_heads, group * length, -1)
            made = self._weigh(
                grouped, k[index : index + 1], v[index : index + 1], mask.repeat(group, 1), sinks
            )
            out[index] = made.view(self._heads, length, -1)
        return out.transpose(1, 2).flatten(0, 1)


class DenseLatent(_Dense):
    """`attention.LatentCache`."""

    def __init__(self, torch: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        super().__init__(torch, layout, capacity, device)
        assert layout.model.mla is not None
        self._mla = layout.model.mla
        shape = (capacity.batch, capacity.context)
        self._latents = self._empty(layout.layers, *shape, self._mla.kv_lora_rank)
        self._ropes = self._empty(layout.layers, *shape, self._mla.qk_rope_head_dim)

    def fill(self) -> None:
        for each in (*self._latents, *self._ropes):
            each.normal_()

    def append(self, layer: int, latent: Any, rope: Any) -> None:
        for cache, rows in ((self._latents[layer], latent), (self._ropes[layer], rope)):
            if self.prefilling:
                rows = rows.unflatten(0, (-1, self._length))
                cache[self._first : self._first + len(rows), : self._length] = rows
            else:
                cache[: self._batch].index_copy_(1, self._at, rows[:, None])

    def attend(self, layer: int, q: Any, q_rope: Any) -> Any:
        latents, ropes = self._latents[layer][: self._batch], self._ropes[layer][: self._batch]
        scores = (q @ latents.transpose(1, 2)).float() + (q_rope @ ropes.transpose(1, 2)).float()
        scores = scores * (self._mla.qk_nope_head_dim + self._mla.qk_rope_head_dim) ** -0.5
        return scores.masked_fill(self._mask, float("-inf")).softmax(-1).to(q.dtype) @ latents
