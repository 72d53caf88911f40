"""Quantisation of bf16 rows, and whether the codes and scales that were written stand for the input.

Scales lie swizzled, 128 rows × 4 to a tile, as the block-scaled GEMMs read them. A kernel is free in its
choice of scales (up, down or to the nearest), so it is held to two things: each code is the nearest one under
the scale that was written, and what codes and scales stand for is near the input.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from workers.bench.cases.step import Quantize
from workers.bench.document import Correctness
from workers.bench.operators import formats
from workers.bench.operators.asking import takes
from workers.bench.operators.base import Operator, Ready
from workers.bench.operators.correctness import Tally
from workers.bench.operators.support import NORMAL, Simple, device

ROWS_AT_ONCE = 1024
E8M0_NAN = 255


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """Whether two codes share a byte, and how far a value may be from what stands for it.

    `tolerance` is of the largest magnitude of the value's block: half of the widest step between codes at the
    top of the range, or what a scale rounded down cuts off, whichever is more.
    """

    four_bit: bool
    tolerance: float


FORMATS = {
    # E2M1 steps from 4 to 6; a power-of-two scale rounded down leaves up to 8, cut to 6.
    "mxfp4": Format(four_bit=True, tolerance=0.26),
    # An E4M3 scale rounded down by 2^-4 leaves up to 6.4, cut to 6; the half step is 1 of 6.
    "nvfp4": Format(four_bit=True, tolerance=0.19),
    # E4M3 steps by 32 at 448; a power-of-two scale rounded down leaves up to 512, cut to 448.
    "mxfp8": Format(four_bit=False, tolerance=0.13),
    "fp8": Format(four_bit=False, tolerance=0.04),
}


def operators(library: Any | None, case: Quantize) -> list[Operator]:
    """FlashInfer's quantisation to the format in each backend it names; torch's own to fp8."""
    if case.to == "fp8":
        return [Simple("torch.fp8_per_tensor", _torch_fp8)]
    name = f"{case.to}_quantize"
    if not hasattr(library, name):
        return []
    backends = ("cuda", "cute-dsl") if takes(getattr(library, name), "backend") else (None,)
    return [
        Simple(
            f"flashinfer.{name}" if backend in (None, "cuda") else f"flashinfer.{name}.{backend}",
            functools.partial(_ready, library=library, name=name, backend=backend),
        )
        for backend in backends
    ]


def _ready(torch: Any, case: Quantize, *, library: Any, name: str, backend: str | None) -> Ready:
    x = torch.randn(case.tokens, case.hidden, dtype=torch.bfloat16, device=device(torch))
    quantize = functools.partial(getattr(library, name), x)
    if backend is not None:
        quantize = functools.partial(quantize, backend=backend)
    factor = None
    if case.to == "nvfp4":
        # the factor that brings the largest block's scale to the top of E4M3
        factor = (formats.E4M3_MAX * formats.E2M1_MAX / x.abs().amax().float()).reshape(1)
        quantize = functools.partial(quantize, factor)

    def call() -> tuple[Any, ...]:
        codes, scales = quantize()
        return codes.view(torch.uint8), scales.view(torch.uint8)

    def check(made: tuple[Any, ...]) -> Correctness:
        return check_blocks(torch, x, made[0], made[1], 1.0 if factor is None else float(factor), case.to)

    return Ready(call, check, NORMAL)


def check_blocks(torch: Any, x: Any, codes: Any, scales: Any, factor: float, to: str) -> Correctness:
    """Bytes of codes [rows, columns or half of them] and swizzled scales against the input [rows, columns].

    A block stands for code × scale / `factor`. Cosine is with the nearest codes under the scales written; the
    error is to the input, as a share of the largest magnitude in the element's block.
    """
    form, block = FORMATS[to], formats.BLOCK[to]
    rows, columns = x.shape
    scales = unswizzle(scales, rows, columns // block)
    tally, error = Tally(), 0.0
    for start in range(0, rows, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        scale = _scale_values(torch, scales[part], to)[..., None] / factor
        given = x[part].double().reshape(*scale.shape[:2], block)
        written = _code_values(torch, codes[part], form.four_bit).reshape(given.shape) * scale
        tally.count(written)
        nearest = _nearest(torch, given / scale, form.four_bit) * scale
        usable = scale.isfinite() & (scale > 0)
        tally.compare(written, nearest.where(usable, given))
        largest = given.abs().amax(-1, keepdim=True).clamp_min(1e-30)
        away = ((written - given).abs() / largest).where(written.isfinite(), 0.0)
        error = max(error, float(away.max()))
    words = (
        "nearest codes in float64 under the scales written; the error is to the input, of its block's largest"
    )
    return tally.correctness(words, form.tolerance, error)


def unswizzle(scales: Any, rows: int, columns: int) -> Any:
    """Bytes [rows, columns] of scales that lie as `formats.swizzle` lays them. ValueError for too few."""
    tall, wide = -(-rows // formats.TILE_ROWS), -(-columns // formats.TILE_SCALES)
    size = tall * wide * formats.TILE_ROWS * formats.TILE_SCALES
    flat = scales.reshape(-1)
    if flat.numel() < size:
        raise ValueError(f"{flat.numel():,} bytes of scales for {rows} × {columns}, expected {size:,}.")
    tiles = flat[:size].reshape(tall, wide, 32, 4, formats.TILE_SCALES).permute(0, 3, 2, 1, 4)
    return tiles.reshape(tall * formats.TILE_ROWS, wide * formats.TILE_SCALES)[:rows, :columns]


def _scale_values(torch: Any, scales: Any, to: str) -> Any:
    if to == "nvfp4":
        return scales.contiguous().view(torch.float8_e4m3fn).double()
    return formats.from_e8m0(torch, scales).where(scales != E8M0_NAN, math.nan)


def _code_values(torch: Any, codes: Any, four_bit: bool) -> Any:
    if four_bit:
        return formats.unpack_e2m1(torch, codes).double()
    return codes.contiguous().view(torch.float8_e4m3fn).double()


def _nearest(torch: Any, values: Any, four_bit: bool) -> Any:
    """The nearest value that a code stands for, ties to the even code, beyond the largest cut."""
    if four_bit:
        flat = values.flatten(1)
        return formats.unpack_e2m1(torch, formats.pack_e2m1(torch, flat)).double().view(values.shape)
    return formats.to_e4m3(torch, values.float()).double()


def _torch_fp8(torch: Any, case: Quantize) -> Ready:
    x = torch.randn(case.tokens, case.hidden, dtype=torch.bfloat16, device=device(torch))

    def call() -> tuple[Any, ...]:
        scale = x.abs().amax().float() / formats.E4M3_MAX
        codes = (x / scale).clamp(-formats.E4M3_MAX, formats.E4M3_MAX).to(torch.float8_e4m3fn)
        return codes.view(torch.uint8), scale.reshape(1)

    def check(made: tuple[Any, ...]) -> Correctness:
        codes, scale = _code_values(torch, made[0], four_bit=False), made[1].double()
        written, given = codes * scale, x.double()
        tally = Tally()
        tally.count(written)
        tally.compare(
            written, (_nearest(torch, given / scale, four_bit=False) * scale).where(scale > 0, given)
        )
        away = ((written - given).abs() / given.abs().amax()).where(written.isfinite(), 0.0)
        words = "nearest codes in float64 under the scale written; the error is to the input, of its largest"
        return tally.correctness(words, FORMATS["fp8"].tolerance, float(away.max()))

    return Ready(call, check, NORMAL)
