"""Whether a GEMM's output is right: compared with float64 on the same inputs. Needs torch."""

from __future__ import annotations

import math
from typing import Any

from workers.bench.document import Correctness

REFERENCE = "float64 matrix product of the same inputs"
#: Largest |D − reference| over the largest |reference|. Rounding D costs half a unit in the last
#: place (bf16 2^-9, fp16 2^-12, relative), tf32 rounds each input by 2^-11, fp32 accumulates about
#: 2^-24 √K; each limit leaves a few times that for other orders of summation.
TOLERANCE = {"bf16": 8e-3, "fp16": 2e-3, "tf32": 2e-3, "fp32": 1e-4}
COSINE_AT_LEAST = 0.999


def compare(out: Any, a: Any, b: Any, dtype: str) -> Correctness:
    """Figures for D [M,N] against A [M,K] · B [N,K]ᵀ in float64.

    Elements that are not finite are counted as `nan_count` (poison that nothing overwrote is NaN)
    and compared as zero, so that the other figures stay finite.
    """
    reference = a.double() @ b.double().t()
    got = out.double()
    finite = got.isfinite()
    got = got.where(finite, got.new_zeros(()))
    # Scaled by the largest magnitude, squares of neither can overflow.
    scale = max(float(reference.abs().max()), float(got.abs().max()), 1e-300)
    x, y = got / scale, reference / scale
    norms = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    largest = float(reference.abs().max())
    return Correctness(
        reference=REFERENCE,
        cosine=float((x * y).sum()) / norms if norms else 0.0,
        max_relative_error=float((got - reference).abs().max()) / largest if largest else 0.0,
        nan_count=int((~finite).sum()),
        zero_count=int((out == 0).sum()),
        elements=out.numel(),
        tolerance=TOLERANCE[dtype],
    )


def passes(found: Correctness) -> bool:
    """NaN and all zeros never pass; otherwise cosine and largest error decide."""
    return (
        found.nan_count == 0
        and found.zero_count < found.elements
        and found.cosine >= COSINE_AT_LEAST
        and found.max_relative_error <= found.tolerance
    )
