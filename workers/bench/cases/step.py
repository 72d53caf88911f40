"""Kernels of a decode step beside its GEMMs: attention, norm, activation, quantisation, RoPE, sampling.

Their arithmetic is small beside their traffic, and no tensor-core peak is stated for it, but for prefill
attention's two products.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from workers.bench.cases.base import Fields, Named, Value, Work
from workers.bench.roofline import BYTES_PER_ELEMENT

BF16 = ("bf16",)
#: tokens a page of the KV cache
PAGE = 16
_INT32, _FP32 = 4.0, 4.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Attention(Named):
    """Grouped-query attention over a paged KV cache, causal; the context holds the queries' own tokens."""

    batch: int
    context: int
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        batch, context = fields.extent("batch", 65_536), fields.extent("context")
        q_heads, kv_heads = fields.extent("q_heads", 1024), fields.extent("kv_heads", 1024)
        head_dim, dtype = fields.extent("head_dim", 1024), fields.one_of("dtype", BF16)
        if q_heads % kv_heads:
            raise fields.fault("q_heads", "a multiple of kv_heads")
        return batch, context, q_heads, kv_heads, head_dim, dtype

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.q_heads, self.kv_heads, self.head_dim)


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeAttention(_Attention):
    """One new token for each of `batch` sequences of `context` tokens."""

    kind: ClassVar[str] = "decode_attention"
    sweep: ClassVar[str] = "batch"

    @property
    def work(self) -> Work:
        per = BYTES_PER_ELEMENT[self.dtype]
        query = self.batch * self.q_heads * self.head_dim * per
        cache = 2.0 * self.batch * self.context * self.kv_heads * self.head_dim * per
        flops = 4.0 * self.batch * self.context * self.q_heads * self.head_dim
        return Work(flops, query + cache, query, None)


@dataclasses.dataclass(frozen=True, slots=True)
class PrefillAttention(_Attention):
    """`context` tokens of each of `batch` sequences at once, each attending to itself and those before."""

    kind: ClassVar[str] = "prefill_attention"
    sweep: ClassVar[str] = "context"

    @property
    def work(self) -> Work:
        per = BYTES_PER_ELEMENT[self.dtype]
        query = self.batch * self.context * self.q_heads * self.head_dim * per
        cache = 2.0 * self.batch * self.context * self.kv_heads * self.head_dim * per
        pairs = self.batch * self.context * (self.context + 1) / 2
        return Work(4.0 * pairs * self.q_heads * self.head_dim, query + cache, query, "bf16")


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows(Named):
    """Something done to each of `tokens` rows of `hidden` elements."""

    tokens: int
    hidden: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        return fields.extent("tokens"), fields.extent("hidden"), fields.one_of("dtype", BF16)

    @property
    def _input(self) -> float:
        return self.tokens * self.hidden * BYTES_PER_ELEMENT[self.dtype]

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.hidden,)


@dataclasses.dataclass(frozen=True, slots=True)
class RmsNorm(_Rows):
    """y = x / rms(x) · w."""

    kind: ClassVar[str] = "rmsnorm"
    sweep: ClassVar[str] = "tokens"

    @property
    def work(self) -> Work:
        weight = self.hidden * BYTES_PER_ELEMENT[self.dtype]
        return Work(4.0 * self.tokens * self.hidden, self._input + weight, self._input, None)


@dataclasses.dataclass(frozen=True, slots=True)
class SiluAndMul(_Rows):
    """y = silu(gate) · up; `hidden` is the width of y, and a row holds gate and up side by side."""

    kind: ClassVar[str] = "silu_and_mul"
    sweep: ClassVar[str] = "tokens"

    @property
    def work(self) -> Work:
        return Work(5.0 * self.tokens * self.hidden, 2 * self._input, self._input, None)


@dataclasses.dataclass(frozen=True, slots=True)
class Quantize(_Rows):
    """Rows of `dtype` to the format `to`, scales computed and written too."""

    kind: ClassVar[str] = "quantize"
    sweep: ClassVar[str] = "tokens"
    to: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        to = fields.one_of("to", ("fp8", "mxfp8", "mxfp4", "nvfp4"))
        return fields.extent("tokens"), fields.extent("hidden"), fields.one_of("dtype", BF16), to

    @property
    def work(self) -> Work:
        out = self.tokens * self.hidden * BYTES_PER_ELEMENT[self.to]
        return Work(2.0 * self.tokens * self.hidden, self._input, out, None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.hidden, self.to)


@dataclasses.dataclass(frozen=True, slots=True)
class Rope(Named):
    """Rotary embedding of the queries and keys of `tokens`, in place, from a table of cos and sin."""

    kind: ClassVar[str] = "rope"
    sweep: ClassVar[str] = "tokens"
    tokens: int
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        return (
            fields.extent("tokens"),
            fields.extent("q_heads", 1024),
            fields.extent("kv_heads", 1024),
            fields.extent("head_dim", 1024),
            fields.one_of("dtype", BF16),
        )

    @property
    def work(self) -> Work:
        moved = self.tokens * (self.q_heads + self.kv_heads) * self.head_dim * BYTES_PER_ELEMENT[self.dtype]
        table = self.tokens * (self.head_dim * _FP32 + _INT32)
        return Work(
            3.0 * self.tokens * (self.q_heads + self.kv_heads) * self.head_dim, moved + table, moved, None
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.q_heads, self.kv_heads, self.head_dim)


@dataclasses.dataclass(frozen=True, slots=True)
class Sampling(Named):
    """One token for each of `batch` rows of probabilities over `vocab`: top-k and top-p."""

    kind: ClassVar[str] = "sampling"
    sweep: ClassVar[str] = "batch"
    batch: int
    vocab: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        return fields.extent("batch", 65_536), fields.extent("vocab"), fields.one_of("dtype", ("fp32",))

    @property
    def work(self) -> Work:
        return Work(
            float(self.batch * self.vocab), self.batch * self.vocab * _FP32, self.batch * _INT32, None
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.vocab,)
