"""Arithmetic intensity of a CTA tile: work done for each byte of A and B that one K step reads."""

from __future__ import annotations

from workers.bench.roofline import BYTES_PER_ELEMENT

#: Bytes of one element without its block scales.
DATA_BYTES = {
    "nvfp4": 0.5,
    "mxfp4": 0.5,
    "mxfp8": 1.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp16": 2.0,
    "f16": 2.0,
    "bf16": 2.0,
    "tf32": 4.0,
    "fp32": 4.0,
}


def mac_per_byte(m: int, n: int, a_bytes: float, b_bytes: float) -> float:
    """MAC a byte: a tile does M·N·K multiply-adds on M·K elements of A and N·K of B, so K cancels:
    M·N / (M·a + N·b), with `a_bytes` and `b_bytes` an element. 128 × 128 in FP4: 128; 256 × 128: 170.7."""
    return m * n / (m * a_bytes + n * b_bytes)


def tile_intensity(m: int, n: int, a: str, b: str) -> tuple[float, float] | None:
    """(MAC a byte of data, FLOP a byte with block scales) of input types `a` and `b`; None for unknown types.

    128 × 128 in NVFP4: (128.0, 227.6).
    """
    if a not in DATA_BYTES or b not in DATA_BYTES:
        return None
    bare = mac_per_byte(m, n, DATA_BYTES[a], DATA_BYTES[b])
    scaled = mac_per_byte(m, n, *(BYTES_PER_ELEMENT.get(name, DATA_BYTES[name]) for name in (a, b)))
    return bare, 2 * scaled
