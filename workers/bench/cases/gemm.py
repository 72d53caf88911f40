"""Matrix products: dense and grouped."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from workers.bench import roofline
from workers.bench.cases.base import Fields, Params, Value, Work

#: tf32 holds fp32 in memory and multiplies on the tensor cores with a 10-bit mantissa. fp8 is E4M3 with one
#: scale a tensor, fp8_block one fp32 scale per 1×128 of A and 128×128 of B, mxfp8 and mxfp4 one 8-bit scale
#: per 32 elements, nvfp4 one E4M3 scale per 16 and one fp32 a tensor.
PLAIN = ("bf16", "fp16", "fp32", "tf32")
NARROW = ("fp8", "fp8_block", "mxfp8", "mxfp4", "nvfp4")
FORMATS = PLAIN + NARROW
#: D[M,N] = A[M,K] · B[N,K]ᵀ, all row-major: B lies as a linear layer's weight does
LAYOUT = "nt"
#: what narrow inputs are multiplied into
OUTPUT = "bf16"
MAX_GROUPS = 1024


def output_of(dtype: str) -> str:
    """The format of D for A and B of `dtype`."""
    return OUTPUT if dtype in NARROW else dtype


def activations_of(dtype: str) -> str:
    """The format of A beside a weight of `dtype`."""
    return "fp8_rows" if dtype == "fp8_block" else dtype


def _extents(fields: Fields) -> tuple[int, int, int, str]:
    """M, N, K and the format; what is constant may be said, and is then checked."""
    m, n, k = (fields.extent(name) for name in ("m", "n", "k"))
    dtype = fields.one_of("dtype", FORMATS)
    for name, value in _constants(dtype).items():
        fields.one_of(name, (value,), value)
    fields.end()
    return m, n, k, dtype


def _constants(dtype: str) -> dict[str, str]:
    return {"layout": LAYOUT} | ({"out": OUTPUT} if dtype in NARROW else {})


@dataclasses.dataclass(frozen=True, slots=True)
class Gemm:
    """D[M,N] = A[M,K] · B[N,K]ᵀ: extents in elements, `dtype` the format of A and B."""

    kind: ClassVar[str] = "gemm"
    sweep: ClassVar[str] = "m"
    m: int
    n: int
    k: int
    dtype: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> Gemm:
        return cls(*_extents(Fields(params, where)))

    @property
    def params(self) -> Params:
        return {"m": self.m, "n": self.n, "k": self.k, "dtype": self.dtype, **_constants(self.dtype)}

    @property
    def work(self) -> Work:
        m, n, k, dtype = self.m, self.n, self.k, self.dtype
        return Work(
            roofline.gemm_flops(m, n, k),
            roofline.gemm_read_bytes(m, n, k, activations_of(dtype), dtype),
            roofline.gemm_write_bytes(m, n, output_of(dtype)),
            roofline.rate_of(dtype, dtype),
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.dtype, self.n, self.k)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}:{self.dtype}"


@dataclasses.dataclass(frozen=True, slots=True)
class GroupedGemm:
    """`groups` products over a weight each, as a MoE layer's: D_g[M_g,N] = A_g[M_g,K] · B_g[N,K]ᵀ.

    M is the rows of all groups together, spread evenly (the first M mod groups have one row more); a group
    without rows reads no weight.
    """

    kind: ClassVar[str] = "grouped_gemm"
    sweep: ClassVar[str] = "m"
    groups: int
    m: int
    n: int
    k: int
    dtype: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> GroupedGemm:
        fields = Fields(params, where)
        return cls(fields.extent("groups", MAX_GROUPS), *_extents(fields))

    @property
    def rows(self) -> list[int]:
        """Rows of each group."""
        each, more = divmod(self.m, self.groups)
        return [each + (group < more) for group in range(self.groups)]

    @property
    def params(self) -> Params:
        return {
            "groups": self.groups, "m": self.m, "n": self.n, "k": self.k,
            "dtype": self.dtype, **_constants(self.dtype),
        }  # fmt: skip

    @property
    def work(self) -> Work:
        m, n, k = self.m, self.n, self.k
        rows, weight = (roofline.BYTES_PER_ELEMENT[name] for name in (activations_of(self.dtype), self.dtype))
        hit = min(self.groups, m)
        return Work(
            roofline.gemm_flops(m, n, k),
            m * k * rows + hit * n * k * weight,
            roofline.gemm_write_bytes(m, n, output_of(self.dtype)),
            roofline.rate_of(self.dtype, self.dtype),
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.dtype, self.groups, self.n, self.k)

    def __str__(self) -> str:
        return f"grouped_gemm:groups={self.groups},m={self.m},n={self.n},k={self.k},dtype={self.dtype}"
