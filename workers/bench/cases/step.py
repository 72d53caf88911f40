"""Kernels of a decode step beside its GEMMs: attention, norm, activation, quantisation, RoPE, sampling.

Their arithmetic is small beside their traffic, and no tensor-core peak is stated for it, but for prefill
attention's two products.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from workers.bench.cases.base import Fields, Params, Value, Work
from workers.bench.roofline import BYTES_PER_ELEMENT

BF16 = ("bf16",)
#: tokens a page of the KV cache
PAGE = 16
_INT32, _FP32 = 4.0, 4.0


def _text(kind: str, params: Params) -> str:
    return f"{kind}:{','.join(f'{name}={value}' for name, value in params.items())}"


class _Named:
    """What the kinds of this module share: their fields are their parameters, in the order written."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def params(self) -> Params:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    @property
    def weight(self) -> tuple[Value, ...]:
        return ()

    def __str__(self) -> str:
        return _text(self.kind, self.params)


@dataclasses.dataclass(frozen=True, slots=True)
class _Attention(_Named):
    """Grouped-query attention over a paged KV cache, causal; the context holds the queries' own tokens."""

    batch: int
    context: int
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str

    @classmethod
    def _fields(cls, fields: Fields) -> tuple[int, int, int, int, int, str]:
        told = (
            fields.extent("batch", 65_536),
            fields.extent("context"),
            fields.extent("q_heads", 1024),
            fields.extent("kv_heads", 1024),
            fields.extent("head_dim", 1024),
            fields.one_of("dtype", BF16),
        )
        if told[2] % told[3]:
            raise fields.fault("q_heads", "a multiple of kv_heads")
        return told

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.q_heads, self.kv_heads, self.head_dim)


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeAttention(_Attention):
    """One new token for each of `batch` sequences of `context` tokens."""

    kind: ClassVar[str] = "decode_attention"
    sweep: ClassVar[str] = "batch"

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> DecodeAttention:
        fields = Fields(params, where)
        case = cls(*cls._fields(fields))
        fields.end()
        return case

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

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> PrefillAttention:
        fields = Fields(params, where)
        case = cls(*cls._fields(fields))
        fields.end()
        return case

    @property
    def work(self) -> Work:
        per = BYTES_PER_ELEMENT[self.dtype]
        query = self.batch * self.context * self.q_heads * self.head_dim * per
        cache = 2.0 * self.batch * self.context * self.kv_heads * self.head_dim * per
        pairs = self.batch * self.context * (self.context + 1) / 2
        return Work(4.0 * pairs * self.q_heads * self.head_dim, query + cache, query, "bf16")


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows(_Named):
    """Something done to each of `tokens` rows of `hidden` elements."""

    tokens: int
    hidden: int
    dtype: str

    @classmethod
    def _fields(cls, fields: Fields) -> tuple[int, int, str]:
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

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> RmsNorm:
        fields = Fields(params, where)
        case = cls(*cls._fields(fields))
        fields.end()
        return case

    @property
    def work(self) -> Work:
        weight = self.hidden * BYTES_PER_ELEMENT[self.dtype]
        return Work(4.0 * self.tokens * self.hidden, self._input + weight, self._input, None)


@dataclasses.dataclass(frozen=True, slots=True)
class SiluAndMul(_Rows):
    """y = silu(gate) · up; `hidden` is the width of y, and a row holds gate and up side by side."""

    kind: ClassVar[str] = "silu_and_mul"
    sweep: ClassVar[str] = "tokens"

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> SiluAndMul:
        fields = Fields(params, where)
        case = cls(*cls._fields(fields))
        fields.end()
        return case

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
    def read(cls, params: Mapping[str, Any], where: str) -> Quantize:
        fields = Fields(params, where)
        case = cls(*cls._fields(fields), fields.one_of("to", ("fp8", "mxfp8", "mxfp4", "nvfp4")))
        fields.end()
        return case

    @property
    def work(self) -> Work:
        out = self.tokens * self.hidden * BYTES_PER_ELEMENT[self.to]
        return Work(2.0 * self.tokens * self.hidden, self._input, out, None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.hidden, self.to)


@dataclasses.dataclass(frozen=True, slots=True)
class Rope(_Named):
    """Rotary embedding of the queries and keys of `tokens`, in place, from a table of cos and sin."""

    kind: ClassVar[str] = "rope"
    sweep: ClassVar[str] = "tokens"
    tokens: int
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> Rope:
        fields = Fields(params, where)
        case = cls(
            fields.extent("tokens"),
            fields.extent("q_heads", 1024),
            fields.extent("kv_heads", 1024),
            fields.extent("head_dim", 1024),
            fields.one_of("dtype", BF16),
        )
        fields.end()
        return case

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
class Sampling(_Named):
    """One token for each of `batch` rows of probabilities over `vocab`: top-k and top-p."""

    kind: ClassVar[str] = "sampling"
    sweep: ClassVar[str] = "batch"
    batch: int
    vocab: int
    dtype: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> Sampling:
        fields = Fields(params, where)
        case = cls(fields.extent("batch", 65_536), fields.extent("vocab"), fields.one_of("dtype", ("fp32",)))
        fields.end()
        return case

    @property
    def work(self) -> Work:
        return Work(
            float(self.batch * self.vocab), self.batch * self.vocab * _FP32, self.batch * _INT32, None
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.vocab,)
