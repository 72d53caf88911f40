"""Matrices as the number formats hold them: quantised from random values, and read back exactly. Needs torch.

Every format is given by its definition, so that a reference can be computed from what the kernel was
handed: E2M1, E4M3 and E8M0 as in OCP Microscaling v1.0; nvfp4 is E2M1 with an E4M3 scale per 16 elements and
one fp32 scale a tensor; fp8_block is E4M3 with one fp32 scale per 1 × 128 of the activations and per
128 × 128 of a weight.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.bench.cases.gemm import PLAIN
from workers.bench.operators.base import UnsupportedError

E2M1_MAX = 6.0
E4M3_MAX = 448.0
#: largest power of two of an element: floor(log2 of the format's maximum)
_E2M1_EMAX, _E4M3_EMAX = 2, 8
_E8M0_BIAS = 127
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: elements along K that share a scale
BLOCK = {"nvfp4": 16, "mxfp4": 32, "mxfp8": 32, "fp8_block": 128}
#: the swizzled layout of block scales comes in tiles of 128 rows × 4 scales
TILE_ROWS, TILE_SCALES = 128, 4


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """[rows, K] as `dtype` holds it.

    `data` is [rows, K] of the format's own type, or [rows, K/2] bytes of two E2M1 codes each (the even
    element in the low half). `scales` are block scales, row-major and unswizzled: [rows, K/block], of a
    weight in fp8_block [⌈rows/128⌉, K/128]; E4M3 for nvfp4, bytes of E8M0 for mxfp4 and mxfp8, fp32 for
    fp8_block. `scale` is one fp32 without dimensions. An element's value is code × block scale × scale.
    """

    dtype: str
    data: Any
    scales: Any = None
    scale: Any = None

    @property
    def rows(self) -> int:
        return int(self.data.shape[0])

    def values(self, torch: Any, rows: Any) -> Any:
        """The rows numbered by the index tensor `rows`, exactly, as float64 [len(rows), K]."""
        codes = take(torch, self.data, rows)
        if codes.dtype == torch.uint8:
            codes = unpack_e2m1(torch, codes)
        values = codes.double()
        if self.scales is not None:
            per_row = self.scales.shape[0] == self.rows
            scales = take(torch, self.scales, rows if per_row else rows // BLOCK["fp8_block"])
            scales = from_e8m0(torch, scales) if scales.dtype == torch.uint8 else scales.double()
            values = (values.unflatten(1, (scales.shape[1], -1)) * scales.unsqueeze(2)).flatten(1)
        return values if self.scale is None else values * self.scale.double()


def draw(torch: Any, rows: int, k: int, dtype: str, device: str, weight: bool = False) -> Matrix:
    """Fresh normal(0, 1) values in `dtype`. UnsupportedError where K does not divide into its blocks."""
    check_k(k, dtype)
    if dtype in PLAIN:
        return Matrix(dtype, torch.randn(rows, k, dtype=plain_dtype(torch, dtype), device=device))
    return quantise(torch, torch.randn(rows, k, device=device), dtype, weight)


def take(torch: Any, held: Any, rows: Any) -> Any:
    """Rows by an index tensor; those of 8-bit types as bytes, which every torch can index."""
    return held.view(torch.uint8)[rows].view(held.dtype) if held.element_size() == 1 else held[rows]


def check_k(k: int, dtype: str) -> None:
    block = BLOCK.get(dtype, 1)
    if k % block:
        raise UnsupportedError(f"{dtype} holds K in blocks of {block}, and {k} is no multiple of it.")


def plain_dtype(torch: Any, dtype: str) -> Any:
    """The torch type that holds bf16, fp16, fp32 or tf32."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)


def quantise(torch: Any, x: Any, dtype: str, weight: bool = False) -> Matrix:
    """fp32 [rows, K] to one of the narrow formats, each scale the least that does not saturate its block
    (of E8M0, as OCP says, the power of two under it)."""
    if dtype == "fp8":
        scale = (x.abs().amax() / E4M3_MAX).clamp(min=1e-12)
        return Matrix(dtype, to_e4m3(torch, x / scale), scale=scale)
    blocks = x.unflatten(1, (-1, BLOCK[dtype]))
    if dtype == "fp8_block":
        return _fp8_block(torch, blocks, weight)
    largest = blocks.abs().amax(2)
    if dtype == "nvfp4":
        # The tensor's scale puts the largest block scale at E4M3's maximum.
        scale = (x.abs().amax() / (E4M3_MAX * E2M1_MAX)).clamp(min=1e-30)
        scales = to_e4m3(torch, largest / (E2M1_MAX * scale))
        divisor = scales.float() * scale
        codes = blocks / torch.where(divisor > 0, divisor, 1.0).unsqueeze(2)
        return Matrix(dtype, pack_e2m1(torch, codes.flatten(1)), scales, scale)
    if dtype not in ("mxfp4", "mxfp8"):
        raise ValueError(f"{dtype!r} is no narrow format.")
    exponents = to_e8m0(torch, largest, _E2M1_EMAX if dtype == "mxfp4" else _E4M3_EMAX)
    codes = (blocks / from_e8m0(torch, exponents).float().unsqueeze(2)).flatten(1)
    packed = pack_e2m1(torch, codes) if dtype == "mxfp4" else to_e4m3(torch, codes)
    return Matrix(dtype, packed, exponents)


def _fp8_block(torch: Any, blocks: Any, weight: bool) -> Matrix:
    largest = blocks.abs().amax(2)
    if weight:
        side = BLOCK["fp8_block"]
        short = -largest.shape[0] % side
        padded = torch.nn.functional.pad(largest, (0, 0, 0, short))
        largest = padded.unflatten(0, (-1, side)).amax(1)
    scales = (largest / E4M3_MAX).clamp(min=1e-12)
    each = scales.repeat_interleave(BLOCK["fp8_block"], 0)[: blocks.shape[0]] if weight else scales
    return Matrix("fp8_block", to_e4m3(torch, blocks / each.unsqueeze(2)).flatten(1), scales)


def to_e4m3(torch: Any, x: Any) -> Any:
    """Rounded to nearest even; beyond 448 saturated, where torch's own cast gives NaN."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def to_e8m0(torch: Any, largest: Any, emax: int) -> Any:
    """Bytes of 2^(⌊log2 largest⌋ − emax), the shared scale of OCP Microscaling v1.0, section 6.3."""
    _, exponent = torch.frexp(largest.clamp(min=2.0**-100))
    return (exponent - 1 - emax + _E8M0_BIAS).clamp(0, 254).to(torch.uint8)


def from_e8m0(torch: Any, exponents: Any) -> Any:
    """The powers of two, as float64."""
    return torch.ldexp(torch.ones_like(exponents, dtype=torch.float64), exponents.int() - _E8M0_BIAS)


def pack_e2m1(torch: Any, x: Any) -> Any:
    """[rows, K] to bytes [rows, K/2]: rounded to nearest, ties to the even code, beyond 6 saturated."""
    size = x.abs()
    # Half-way points; at every second one the even code lies above.
    code = (size > 0.25).to(torch.uint8)
    for point, above in ((0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False)):
        code += size >= point if above else size > point
    code |= torch.signbit(x).to(torch.uint8) << 3
    return code[:, ::2] | code[:, 1::2] << 4


def unpack_e2m1(torch: Any, packed: Any) -> Any:
    """Bytes [rows, K/2] to fp32 [rows, K]."""
    table = torch.tensor(E2M1_VALUES + tuple(-value for value in E2M1_VALUES), device=packed.device)
    codes = torch.stack((packed & 15, packed >> 4), 2).flatten(1)
    return table[codes.int()]


def swizzle(torch: Any, scales: Any) -> Any:
    """Block scales [rows, C] in the layout tensor cores read: [⌈rows/128⌉·128, ⌈C/4⌉·4], zeros between.

    Tiles of 128 rows × 4 scales follow each other along C first; within a tile, row r and scale c lie at
    (r mod 32)·16 + ⌊r/32⌋·4 + c (cuBLAS, "1D block scaling factors layout").
    """
    rows, columns = scales.shape
    short = (0, -columns % TILE_SCALES, 0, -rows % TILE_ROWS)
    padded = torch.nn.functional.pad(scales.view(torch.uint8), short)
    tiles = padded.view(-1, 4, 32, padded.shape[1] // TILE_SCALES, TILE_SCALES)
    return tiles.permute(0, 3, 2, 1, 4).contiguous().view(padded.shape).view(scales.dtype)


def column_major(torch: Any, scales: Any, multiple: int = 1) -> Any:
    """The same [rows, C] with neighbouring rows side by side, columns `multiple` rows apart at least."""
    rows, columns = scales.shape
    held = scales.new_zeros(columns, rows + -rows % multiple)
    held[:, :rows] = scales.t()
    return held.t()[:rows]
