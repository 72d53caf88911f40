"""Whether a product is right: compared with float64 on the same (quantised) inputs. Needs torch."""

from __future__ import annotations

import math
from typing import Any

from workers.bench.document import Correctness
from workers.bench.operators.formats import Matrix

#: Largest |D − reference| over the largest |reference|. Rounding D costs half a unit in the last place
#: (bf16 2^-9, fp16 2^-12, relative); tf32 rounds each input by 2^-11; fp32 accumulates about 2^-24 √K. Each
#: limit leaves a few times that for other orders of summation, and for bf16 partial sums. Narrow inputs
#: are the reference's own, so that D's bf16 remains; SM90's tensor cores add fp8 products with some 14 bits,
#: which shows where no scale per 128 moves the sum to fp32.
TOLERANCE = {
    "bf16": 8e-3, "fp16": 2e-3, "tf32": 2e-3, "fp32": 1e-4,
    "fp8": 2e-2, "fp8_block": 1e-2, "mxfp8": 1e-2, "mxfp4": 1e-2, "nvfp4": 1e-2,
}  # fmt: skip
#: rows of D that are compared; the reference of all of 8192³ would take seconds
MAX_ROWS = 256
#: rows of B dequantised at once, so that float64 copies stay small beside the operands
_CHUNK = 2048


def compare(torch: Any, out: Any, a: Matrix, b: Matrix) -> Correctness:
    """Figures for D [M,N] against A [M,K] · B [N,K]ᵀ in float64, over at most MAX_ROWS rows of D.

    NaN and zeros are counted over all of D. The rows compared are the first, the last, and what looks
    least like the others (most zeros, least and greatest magnitude), so that a row left out or written
    wrong is found; the rest are drawn anew each time.
    """
    rows = rows_to_compare(torch, out, MAX_ROWS)
    left = a.values(torch, rows)
    reference = torch.empty(len(rows), b.rows, dtype=torch.float64, device=out.device)
    for begin in range(0, b.rows, _CHUNK):
        chunk = torch.arange(begin, min(begin + _CHUNK, b.rows), device=out.device)
        reference[:, begin : begin + len(chunk)] = left @ b.values(torch, chunk).t()
    return figures(torch, out, reference, rows, a.dtype)


def figures(torch: Any, out: Any, reference: Any, rows: Any, dtype: str) -> Correctness:
    """Of D [M,N] and the float64 reference of those of its rows that `rows` numbers.

    Elements that are not finite are counted as `nan_count` (poison that nothing overwrote is NaN) and
    compared as zero, so that the other figures stay finite.
    """
    got = out[rows].double()
    got = got.where(got.isfinite(), got.new_zeros(()))
    # Scaled by the largest magnitude, squares of neither can overflow.
    largest = float(reference.abs().max())
    scale = max(largest, float(got.abs().max()), 1e-300)
    x, y = got / scale, reference / scale
    norms = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    share = "" if len(rows) == out.shape[0] else f", over {len(rows)} of {out.shape[0]:,} rows"
    return Correctness(
        reference=f"float64 matrix product of the same inputs{share}",
        cosine=float((x * y).sum()) / norms if norms else 0.0,
        max_relative_error=float((got - reference).abs().max()) / largest if largest else 0.0,
        nan_count=int((~out.isfinite()).sum()),
        zero_count=int((out == 0).sum()),
        elements=out.numel(),
        tolerance=TOLERANCE[dtype],
    )


def rows_to_compare(torch: Any, out: Any, most: int) -> Any:
    """Numbers of at most `most` rows of D [M,N], ascending."""
    count = out.shape[0]
    if count <= most:
        return torch.arange(count, device=out.device)
    zeros = (out == 0).sum(1)
    size = out.abs().amax(1).nan_to_num(math.inf)
    odd = torch.stack((zeros.argmax(), size.argmin(), size.argmax()))
    ends = torch.tensor([0, count - 1], device=out.device)
    drawn = torch.randperm(count, device=out.device)[: most - 5]
    return torch.cat((ends, odd, drawn)).unique()
