"""Decode and prefill attention over a paged KV cache: FlashInfer's wrappers, and torch's own for prefill.

Pages of 16 tokens, each [tokens, heads, dim] (NHD), scattered over the cache. Planning is no part of a call.
The sets of a case share one plan and its workspace: the page table is theirs all, queries and caches are not.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.step import PAGE, DecodeAttention, PrefillAttention
from workers.bench.document import Correctness
from workers.bench.operators.asking import in_its_words
from workers.bench.operators.attention_reference import Sample, check, rows_of
from workers.bench.operators.base import Operator, Ready
from workers.bench.operators.support import Simple, called, device, flashinfer

#: room for partial results of a sequence split over several blocks
WORKSPACE_BYTES = 2**28
INPUTS = "normal(0, 1), fresh; pages in random order"
#: tensor-core decode pads the queries of a group to a tile; below this the tile is mostly padding
TENSOR_CORE_GROUP = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """The page table of a case: `batch` sequences of `context` tokens."""

    indptr: Any
    indices: Any
    last_page_len: Any
    count: int


def operators(torch: Any, case: Case) -> list[Operator]:
    """What this Python's libraries offer for `case` on this device.

    Decode: "flashinfer.batch_decode" is the kernel on CUDA cores, which the wrapper takes unless told
    otherwise; "….tensor_cores" is its fa2 prefill kernel with one query a sequence, for groups of 4 heads
    or more to one of the cache; "….trtllm-gen" on SM100. Prefill: "flashinfer.batch_prefill.fa2", ".fa3" on
    SM90, ".trtllm-gen" on SM100, and "torch.scaled_dot_product_attention" without pages as a mark that no
    FlashInfer version moves.
    """
    library = flashinfer(torch)
    major = torch.cuda.get_device_capability()[0] if device(torch) == "cuda" else 0
    match case:
        case DecodeAttention() if library is not None:
            return [_Decode(library, variant) for variant in decode_variants(case, major)]
        case PrefillAttention():
            found = [] if library is None else [_Prefill(library, name) for name in prefill_backends(major)]
            return [*found, Simple("torch.scaled_dot_product_attention", _torch_prefill)]
    return []


def decode_variants(case: DecodeAttention, major: int) -> list[str | None]:
    """Variants of the decode wrapper to ask for on a GPU of compute capability `major`."""
    variants: list[str | None] = [None]
    if case.q_heads // case.kv_heads >= TENSOR_CORE_GROUP:
        variants.append("tensor_cores")
    return [*variants, "trtllm-gen"] if major == 10 else variants


def prefill_backends(major: int) -> list[str]:
    """Backends of the prefill wrapper to ask for on a GPU of compute capability `major`."""
    return ["fa2", *{9: ["fa3"], 10: ["trtllm-gen"]}.get(major, [])]


def page_table(torch: Any, batch: int, context: int) -> Pages:
    """Every sequence's pages, drawn from one cache in random order."""
    where = device(torch)
    each = -(-context // PAGE)
    return Pages(
        indptr=torch.arange(batch + 1, dtype=torch.int32, device=where) * each,
        indices=torch.randperm(batch * each, device=where).int(),
        last_page_len=torch.full((batch,), (context - 1) % PAGE + 1, dtype=torch.int32, device=where),
        count=batch * each,
    )


class _Wrapped:
    """A wrapper of FlashInfer's, planned with the first set of a case."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._planned: tuple[Case, Any, Pages] | None = None

    def _plan(self, torch: Any, case: Any) -> tuple[Any, Pages]:
        if self._planned is None or self._planned[0] != case:
            pages = page_table(torch, case.batch, case.context)
            # zeroed: trtllm-gen keeps counters in it
            workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device(torch))
            self._planned = case, self._wrapper(torch, case, workspace, pages), pages
        return self._planned[1:]

    def _wrapper(self, torch: Any, case: Any, workspace: Any, pages: Pages) -> Any:
        raise NotImplementedError

    def _ready(self, torch: Any, case: Any, rows: int, causal: bool) -> Ready:
        wrapper, pages = self._plan(torch, case)
        where = {"dtype": torch.bfloat16, "device": device(torch)}
        query = torch.randn(rows, case.q_heads, case.head_dim, **where)
        shape = (pages.count, PAGE, case.kv_heads, case.head_dim)
        keys, values = torch.randn(shape, **where), torch.randn(shape, **where)
        out = torch.empty_like(query)

        def call() -> tuple[Any, ...]:
            wrapper.run(query, (keys, values), out=out)
            return (out,)

        def sequence(index: int) -> Sample:
            mine = pages.indices[pages.indptr[index] : pages.indptr[index + 1]].long()
            cached = (each[mine].flatten(0, 1)[: case.context] for each in (keys, values))
            return Sample(query[rows_of(rows, case.batch, index)], *cached)

        return Ready(call, lambda made: check(torch, case, made[0], sequence, causal), INPUTS)


class _Decode(_Wrapped):
    def __init__(self, library: Any, variant: str | None) -> None:
        super().__init__(library)
        self._variant = variant
        self.backend = f"flashinfer.batch_decode.{variant}" if variant else "flashinfer.batch_decode"

    def _wrapper(self, torch: Any, case: Any, workspace: Any, pages: Pages) -> Any:
        wrapper = self._library.BatchDecodeWithPagedKVCacheWrapper(
            workspace,
            "NHD",
            use_tensor_cores=self._variant == "tensor_cores",
            backend=self._variant if self._variant == "trtllm-gen" else "auto",
        )
        wrapper.plan(
            pages.indptr, pages.indices, pages.last_page_len,
            case.q_heads, case.kv_heads, case.head_dim, PAGE,
            q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16,
        )  # fmt: skip
        return wrapper

    def ready(self, torch: Any, case: Any) -> Ready:
        with in_its_words():
            return called(torch, self._ready(torch, case, case.batch, causal=False))


class _Prefill(_Wrapped):
    def __init__(self, library: Any, name: str) -> None:
        super().__init__(library)
        self._name = name
        self.backend = f"flashinfer.batch_prefill.{name}"

    def _wrapper(self, torch: Any, case: Any, workspace: Any, pages: Pages) -> Any:
        wrapper = self._library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend=self._name)
        starts = torch.arange(case.batch + 1, dtype=torch.int32, device=device(torch)) * case.context
        wrapper.plan(
            starts, pages.indptr, pages.indices, pages.last_page_len,
            case.q_heads, case.kv_heads, case.head_dim, PAGE,
            causal=True, q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16,
        )  # fmt: skip
        return wrapper

    def ready(self, torch: Any, case: Any) -> Ready:
        with in_its_words():
            return called(torch, self._ready(torch, case, case.batch * case.context, causal=True))


def _torch_prefill(torch: Any, case: PrefillAttention) -> Ready:
    where = {"dtype": torch.bfloat16, "device": device(torch)}
    shape = (case.batch, case.context)
    query = torch.randn(*shape, case.q_heads, case.head_dim, **where)
    keys, values = (torch.randn(*shape, case.kv_heads, case.head_dim, **where) for _ in range(2))
    attend = functools.partial(
        torch.nn.functional.scaled_dot_product_attention,
        *(each.transpose(1, 2) for each in (query, keys, values)),
        is_causal=True,
        enable_gqa=case.q_heads != case.kv_heads,
    )

    def verify(made: tuple[Any, ...]) -> Correctness:
        out = made[0].transpose(1, 2).flatten(0, 1)
        return check(
            torch, case, out, lambda index: Sample(query[index], keys[index], values[index]), causal=True
        )

    return Ready(lambda: (attend(),), verify, "normal(0, 1), fresh; no pages")
