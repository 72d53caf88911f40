"""Whether an output is right: compared with float64 on the same (quantised) inputs. Needs torch."""

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
    return figures(out, reference, rows, a.dtype)


def figures(out: Any, reference: Any, rows: Any, dtype: str) -> Correctness:
    """Of D [M,N] and the float64 reference of those of its rows that `rows` numbers.

    Poison that nothing overwrote is NaN, and counted as that.
    """
    share = "" if len(rows) == out.shape[0] else f", over {len(rows)} of {out.shape[0]:,} rows"
    tally = Tally()
    tally.count(out)
    tally.compare(out[rows], reference)
    return tally.correctness(f"float64 matrix product of the same inputs{share}", TOLERANCE[dtype])


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


class Tally:
    """Adds up the agreement of an output with its reference, part by part, so that neither has to fit whole.

    Elements that are not finite are counted and compared as zero, so that the other figures stay finite.
    """

    def __init__(self) -> None:
        self._dot = self._got = self._reference = 0.0
        self._error = self._largest = 0.0
        self._nan = self._zero = self._elements = 0

    def compare(self, got: Any, reference: Any) -> None:
        """One part, and its reference in higher precision."""
        got, reference = got.double(), reference.double()
        got = got.where(got.isfinite(), 0.0)
        self._dot += float((got * reference).sum())
        self._got += float((got * got).sum())
        self._reference += float((reference * reference).sum())
        if got.numel():
            self._error = max(self._error, float((got - reference).abs().max()))
            self._largest = max(self._largest, float(reference.abs().max()))

    def count(self, got: Any) -> None:
        """Elements of a part, those not finite and those zero: of every part, compared or not."""
        self._nan += int((~got.isfinite()).sum())
        self._zero += int((got == 0).sum())
        self._elements += got.numel()

    def correctness(self, reference: str, tolerance: float, error: float | None = None) -> Correctness:
        """The figures. `error` takes the place of largest |difference| over largest |reference|."""
        norms = math.sqrt(self._got * self._reference)
        if error is None:
            error = self._error / self._largest if self._largest else self._error
        return Correctness(
            reference=reference,
            cosine=self._dot / norms if norms else 0.0,
            max_relative_error=error,
            nan_count=self._nan,
            zero_count=self._zero,
            elements=self._elements,
            tolerance=tolerance,
        )


def whole(got: Any, reference: Any, words: str, tolerance: float) -> Correctness:
    """The figures of one output compared element by element."""
    tally = Tally()
    tally.count(got)
    tally.compare(got, reference)
    return tally.correctness(words, tolerance)
