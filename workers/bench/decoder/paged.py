"""Paged caches with FlashInfer's attention: one plan a step, which all layers share. Needs torch.

Pages of 16 tokens, each [tokens, heads, dim] (NHD), scattered over the cache. Everything that a captured
step reads lies in buffers made once for a batch; a plan copies into them from pinned memory.

On SM90 grouped attention asks for "fa2" by name: the prefill kernel, which packs the queries of a group into
a tile of the tensor cores, decodes too. Latent attention takes "fa3" there, which only Hopper has.
"""

from __future__ import annotations

from typing import Any

from workers.bench.cases.step import PAGE
from workers.bench.decoder.attention import Capacity
from workers.bench.model_work import Layout
from workers.bench.operators.base import UnsupportedError

BACKEND = "fa2"
#: tiles of the fa2 kernel: queries packed in one while decoding, and at most while prefilling
_DECODE_TILE, _PREFILL_TILE = 16, 128
_SLACK_BYTES = 2**25
_LATENT_WORKSPACE_BYTES = 2**28


class Table:
    """Which pages the sequences have, and the buffers that tell a captured step."""

    def __init__(self, torch: Any, capacity: Capacity, device: str) -> None:
        self._torch = torch
        self._device = device
        each = -(-capacity.context // PAGE)
        self.count = capacity.batch * each
        self._pages = torch.randperm(self.count, device=device).int().view(capacity.batch, each)

    def resize(self, batch: int) -> None:
        torch = self._torch
        self._batch = batch
        self._planned = 0
        self.sequences = self._on_device(batch)
        torch.arange(batch, out=self.sequences)
        self.indptr, self.last_page_len = self._on_device(batch + 1), self._on_device(batch)
        self.lengths = self._on_device(batch)
        self.indices = self._on_device(batch * self._pages.shape[1])
        self.starts = self._pinned(batch + 1)
        torch.arange(batch + 1, out=self.starts)
        self.host_indptr, self.host_last = self._pinned(batch + 1), self._pinned(batch)
        self.host_lengths = self._pinned(batch)

    def _on_device(self, count: int) -> Any:
        return self._torch.zeros(count, dtype=self._torch.int32, device=self._device)

    def _pinned(self, count: int) -> Any:
        return self._torch.zeros(count, dtype=self._torch.int32, pin_memory=True)

    def grow(self, length: int) -> Any:
        """Every sequence has `length` tokens now. The indices of their pages, on the device."""
        pages = -(-length // PAGE)
        self._torch.mul(self.starts, pages, out=self.host_indptr)
        self.host_last.fill_((length - 1) % PAGE + 1)
        self.host_lengths.fill_(length)
        indices = self.indices[: self._batch * pages]
        if pages != self._planned:
            indices.view(self._batch, pages).copy_(self._pages[: self._batch, :pages])
            self._planned = pages
        return indices

    def of(self, first: int, count: int, length: int) -> tuple[Any, Any, Any]:
        """indptr and last_page_len on the host, indices on the device, of some sequences alone."""
        torch = self._torch
        pages = -(-length // PAGE)
        indptr = torch.arange(count + 1, dtype=torch.int32) * pages
        last = torch.full((count,), (length - 1) % PAGE + 1, dtype=torch.int32)
        # one page of each is a column: flat, and not contiguous
        return indptr, self._pages[first : first + count, :pages].flatten().contiguous(), last


class _Paged:
    def __init__(self, torch: Any, library: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        self._torch = torch
        self._library = library
        self._layout = layout
        self._of = layout.model
        self._heads, self._kv_heads = layout.model.heads(layout.tp)
        self._device = device
        self._table = Table(torch, capacity, device)
        self.prefilling = False

    def prepare(self, positions: Any) -> None:
        table = self._table
        self._rows = (table.sequences, positions)
        self._where = (table.indices, table.indptr, table.last_page_len)

    def _begin_prefill(self, first: int, count: int, length: int) -> tuple[Any, Any, Any]:
        """Says where rows of a prefill go; the table of its sequences, on the host but for the indices."""
        torch = self._torch
        self.prefilling = True
        indptr, indices, last = self._table.of(first, count, length)
        where = {"dtype": torch.int32, "device": self._device}
        positions = torch.arange(length, **where).repeat(count)
        sequences = torch.arange(count, **where).repeat_interleave(length)
        self._rows = (sequences, positions)
        self._where = (indices, indptr.to(self._device), last.to(self._device))
        return indptr, indices, last

    def _empty(self, *shape: int) -> list[Any]:
        torch = self._torch
        made = (
            torch.zeros(self._table.count, PAGE, *shape, dtype=torch.bfloat16, device=self._device)
            for _ in range(self._layout.layers)
        )
        return list(made)


class PagedGrouped(_Paged):
    """`attention.GroupedCache`."""

    def __init__(self, torch: Any, library: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        super().__init__(torch, library, layout, capacity, device)
        of = layout.model
        if of.sinks and not hasattr(library, "BatchAttentionWithAttentionSinkWrapper"):
            raise UnsupportedError(
                f"This FlashInfer has no BatchAttentionWithAttentionSinkWrapper, and {of.name} has sinks."
            )
        #: tokens before its own that a query sees, by kind of layer; -1: all
        self._windows = (of.sliding_window - 1, -1) if of.sliding_window else (-1,)
        workspace = torch.zeros(self._workspace_bytes(capacity.batch), dtype=torch.uint8, device=device)
        self._workspace = workspace
        self._prefills = {window: self._prefill_wrapper(window) for window in self._windows}
        self._decodes: dict[int, Any] = {}
        self._keys = self._empty(self._kv_heads, of.head_dim)
        self._values = self._empty(self._kv_heads, of.head_dim)

    def _workspace_bytes(self, batch: int) -> int:
        """As fa2's scheduler asks for partial results: of a padded number of tiles while decoding, and of two
        blocks a multiprocessor while prefilling."""
        blocks: int = 2 * self._torch.cuda.get_device_properties(self._device).multi_processor_count
        group = self._heads // self._kv_heads
        tiles = -(-batch * group // _DECODE_TILE) + batch
        decode = max(blocks // self._kv_heads, tiles) * _DECODE_TILE
        prefill = blocks // self._kv_heads * _PREFILL_TILE
        return 4 * self._heads * max(decode, prefill) * (self._of.head_dim + 1) + _SLACK_BYTES

    def _prefill_wrapper(self, window: int, **graph: Any) -> Any:
        if not self._of.sinks:
            return self._library.BatchPrefillWithPagedKVCacheWrapper(
                self._workspace, "NHD", backend=BACKEND, **graph
            )
        dtype = self._torch.bfloat16
        return self._library.BatchAttentionWithAttentionSinkWrapper(
            self._workspace, "NHD", backend=BACKEND, q_data_type=dtype, kv_data_type=dtype,
            head_dim_qk=self._of.head_dim, head_dim_vo=self._of.head_dim, window_left=window, **graph,
        )  # fmt: skip

    def _decode_wrapper(self, window: int) -> Any:
        table = self._table
        if not self._of.sinks and window < 0:
            return self._library.BatchDecodeWithPagedKVCacheWrapper(
                self._workspace, "NHD", use_cuda_graph=True, use_tensor_cores=True,
                paged_kv_indptr_buffer=table.indptr, paged_kv_indices_buffer=table.indices,
                paged_kv_last_page_len_buffer=table.last_page_len, backend=BACKEND,
            )  # fmt: skip
        return self._prefill_wrapper(
            window, use_cuda_graph=True, qo_indptr_buf=self._torch.zeros_like(table.indptr),
            paged_kv_indptr_buf=table.indptr, paged_kv_indices_buf=table.indices,
            paged_kv_last_page_len_buf=table.last_page_len,
        )  # fmt: skip

    def resize(self, batch: int) -> None:
        self._table.resize(batch)
        self._decodes = {window: self._decode_wrapper(window) for window in self._windows}

    def fill(self) -> None:
        for each in (*self._keys, *self._values):
            each.normal_()

    def plan(self, length: int) -> None:
        self.prefilling = False
        table = self._table
        indices = table.grow(length)
        for window, wrapper in self._decodes.items():
            pages = (table.host_indptr, indices, table.host_last)
            if not self._of.sinks and window < 0:
                wrapper.plan(*pages, **self._shape(), head_dim=self._of.head_dim, window_left=window)
            else:
                wrapper.plan(
                    table.starts, *pages, **self._shape(), head_dim_qk=self._of.head_dim, causal=False,
                    window_left=window,
                )  # fmt: skip

    def plan_prefill(self, first: int, count: int, length: int) -> Any:
        pages = self._begin_prefill(first, count, length)
        starts = self._torch.arange(count + 1, dtype=self._torch.int32) * length
        for window, wrapper in self._prefills.items():
            wrapper.plan(
                starts, *pages, **self._shape(), head_dim_qk=self._of.head_dim, causal=True,
                window_left=window,
            )  # fmt: skip
        return self._rows[1]

    def _shape(self) -> dict[str, Any]:
        dtype = self._torch.bfloat16
        return {
            "num_qo_heads": self._heads,
            "num_kv_heads": self._kv_heads,
            "page_size": PAGE,
            "q_data_type": dtype,
            "kv_data_type": dtype,
        }

    def attend(self, layer: int, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        cache = (self._keys[layer], self._values[layer])
        self._library.page.append_paged_kv_cache(k, v, *self._rows, cache, *self._where, kv_layout="NHD")
        wrappers = self._prefills if self.prefilling else self._decodes
        # Of each two layers the first has the window.
        wrapper = wrappers[self._windows[layer % len(self._windows)]]
        if sinks is None:
            return wrapper.run(q, cache)
        return wrapper.run(q, cache, sinks, self._of.head_dim**-0.5)


class PagedLatent(_Paged):
    """`attention.LatentCache`."""

    def __init__(self, torch: Any, library: Any, layout: Layout, capacity: Capacity, device: str) -> None:
        super().__init__(torch, library, layout, capacity, device)
        assert layout.model.mla is not None
        self._mla = mla = layout.model.mla
        self._workspace = torch.zeros(_LATENT_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self._backend = "fa3" if torch.cuda.get_device_capability(device)[0] == 9 else BACKEND
        self._latents = self._empty(mla.kv_lora_rank)
        self._ropes = self._empty(mla.qk_rope_head_dim)

    def resize(self, batch: int) -> None:
        self._table.resize(batch)
        table = self._table
        self._wrapper = self._library.mla.BatchMLAPagedAttentionWrapper(
            self._workspace, use_cuda_graph=True, qo_indptr=self._torch.zeros_like(table.indptr),
            kv_indptr=table.indptr, kv_indices=table.indices, kv_len_arr=table.lengths,
            backend=self._backend,
        )  # fmt: skip

    def fill(self) -> None:
        for each in (*self._latents, *self._ropes):
            each.normal_()

    def plan(self, length: int) -> None:
        self.prefilling = False
        table, mla, dtype = self._table, self._mla, self._torch.bfloat16
        indices = table.grow(length)
        scale = (mla.qk_nope_head_dim + mla.qk_rope_head_dim) ** -0.5
        self._wrapper.plan(
            table.starts, table.host_indptr, indices, table.host_lengths, self._heads,
            mla.kv_lora_rank, mla.qk_rope_head_dim, PAGE, False, scale, dtype, dtype,
        )  # fmt: skip
        table.last_page_len.copy_(table.host_last, non_blocking=True)

    def plan_prefill(self, first: int, count: int, length: int) -> Any:
        self._begin_prefill(first, count, length)
        return self._rows[1]

    def append(self, layer: int, latent: Any, rope: Any) -> None:
        self._library.page.append_paged_mla_kv_cache(
            latent, rope, *self._rows, self._latents[layer], self._ropes[layer], *self._where
        )

    def attend(self, layer: int, q: Any, q_rope: Any) -> Any:
        return self._wrapper.run(q, q_rope, self._latents[layer], self._ropes[layer])
