"""Experts' weights and activations in narrow formats. Needs torch.

Every scale that is no E4M3 or E8M0 itself is a power of two. So bf16 holds what a quantised weight stands
for exactly, and quantising that again loses nothing: a layer's weights can be drawn on the grid of a format,
handed to any backend in bf16, and be what its kernel multiplies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from workers.bench.operators import formats

#: What an fp8 activation of 1 stands for. Static, as after a calibration; up to 56 does not saturate.
FP8_ACTIVATION_SCALE = 2.0**-3
#: by the case's format: that of the weights, and that of the rows of either product
FORMATS = {
    "bf16": (None, None),
    "fp8": ("fp8", "fp8"),
    "fp8_block": ("fp8_block", "fp8_rows"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "w4a16_mxfp4": ("mxfp4", None),
    "w4a8_mxfp4_mxfp8": ("mxfp4", "mxfp8"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Packed:
    """Weights [E, N, K]. `codes` [E, N, K] E4M3, or [E, N, K/2] bytes of two E2M1, the even one low.

    `blocks`: of nvfp4 [E, N, K/16] E4M3, of mxfp4 [E, N, K/32] bytes of E8M0, of fp8_block
    [E, ⌈N/128⌉, K/128] fp32. `scale` [E] fp32 of fp8 and nvfp4.
    """

    codes: Any
    blocks: Any = None
    scale: Any = None


def pack(torch: Any, weights: Any, form: str) -> Packed:
    """Weights [E, N, K] in "fp8", "fp8_block", "nvfp4" or "mxfp4". UnsupportedError where K does not divide
    into blocks. One expert at once, so that copies in fp32 stay small."""
    formats.check_k(weights.shape[-1], form)
    parts = [_pack(torch, each.float(), form) for each in weights]

    def stacked(name: str) -> Any:
        held = [getattr(each, name) for each in parts]
        return None if held[0] is None else torch.stack(held)

    return Packed(stacked("codes"), stacked("blocks"), stacked("scale"))


def _pack(torch: Any, x: Any, form: str) -> Packed:
    if form == "fp8":
        scale = _power(torch, x.abs().amax() / formats.E4M3_MAX)
        return Packed(formats.to_e4m3(torch, x / scale), scale=scale)
    if form == "nvfp4":
        scale = _power(torch, x.abs().amax() / (formats.E4M3_MAX * formats.E2M1_MAX))
        codes, blocks = _nvfp4(torch, x / scale)
        return Packed(codes, blocks, scale)
    if form == "mxfp4":
        held = formats.quantise(torch, x, "mxfp4")
        return Packed(held.data, held.scales)
    if form != "fp8_block":
        raise ValueError(f"{form!r} is no format of weights.")
    side = formats.BLOCK["fp8_block"]
    rows = x.shape[0]
    padded = torch.nn.functional.pad(x, (0, 0, 0, -rows % side))
    squares = padded.unflatten(0, (-1, side)).unflatten(2, (-1, side))
    blocks = _power(torch, squares.abs().amax((1, 3)) / formats.E4M3_MAX)
    codes = formats.to_e4m3(torch, squares / blocks[:, None, :, None])
    return Packed(codes.flatten(2).flatten(0, 1)[:rows], blocks)


def _power(torch: Any, least: Any) -> Any:
    """The smallest powers of two that are no less, fp32."""
    mantissa, exponent = torch.frexp(least.clamp(min=2.0**-100))
    return torch.ldexp(torch.ones_like(least), exponent - (mantissa == 0.5).int())


def _nvfp4(torch: Any, x: Any) -> tuple[Any, Any]:
    blocks = x.unflatten(1, (-1, formats.BLOCK["nvfp4"]))
    scales = formats.to_e4m3(torch, blocks.abs().amax(2) / formats.E2M1_MAX)
    divisor = torch.where(scales.float() > 0, scales.float(), 1.0)
    return formats.pack_e2m1(torch, (blocks / divisor.unsqueeze(2)).flatten(1)), scales


def values(torch: Any, held: Packed, form: str) -> Any:
    """What it stands for, [E, N, K] in bf16, exactly."""
    rows = torch.arange(held.codes.shape[1], device=held.codes.device)

    def one(expert: int) -> Any:
        blocks = None if held.blocks is None else held.blocks[expert]
        scale = None if held.scale is None else held.scale[expert]
        return formats.Matrix(form, held.codes[expert], blocks, scale).values(torch, rows).bfloat16()

    return torch.stack([one(expert) for expert in range(held.codes.shape[0])])


def on_grid(torch: Any, weights: Any, dtype: str) -> Any:
    """bf16 weights [E, N, K] as the case's format `dtype` holds them."""
    form, _ = FORMATS[dtype]
    return weights if form is None else values(torch, pack(torch, weights, form), form)


def rounded(torch: Any, dtype: str) -> Callable[[Any], Any] | None:
    """What a layer of format `dtype` makes of rows [T, K] before it multiplies them, fp32 to fp32; None: it
    keeps them."""
    _, form = FORMATS[dtype]
    if form is None:
        return None

    def fp8(x: Any) -> Any:
        return formats.to_e4m3(torch, x / FP8_ACTIVATION_SCALE).float() * FP8_ACTIVATION_SCALE

    def nvfp4(x: Any) -> Any:
        codes, scales = _nvfp4(torch, x)
        return formats.Matrix("nvfp4", codes, scales).values(torch, _all(torch, x)).float()

    def block(x: Any) -> Any:
        held = formats.quantise(torch, x, "fp8_block" if form == "fp8_rows" else "mxfp8")
        return held.values(torch, _all(torch, x)).float()

    if form == "fp8":
        return fp8
    return nvfp4 if form == "nvfp4" else block


def _all(torch: Any, x: Any) -> Any:
    return torch.arange(x.shape[0], device=x.device)
