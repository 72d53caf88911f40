"""What the operators of a decode step share: where they run, what a library offers, figures of agreement."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.document import Correctness
from workers.bench.operators import no_jit
from workers.bench.operators.asking import in_its_words
from workers.bench.operators.base import Ready


@dataclasses.dataclass(slots=True)
class Simple:
    """An operator whose sets need nothing of one another."""

    backend: str
    make: Callable[[Any, Any], Ready]

    def ready(self, torch: Any, case: Case) -> Ready:
        with in_its_words():
            return called(torch, self.make(torch, case))


def device(torch: Any) -> str:
    """Where sets are made: the current GPU, or the CPU of a machine without one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def flashinfer(torch: Any) -> Any | None:
    """FlashInfer, where it is installed and has a GPU to run on; it compiles nothing from then on."""
    return no_jit.flashinfer(torch)


def called(torch: Any, made: Ready) -> Ready:
    """`made`, once its call has run: a library refuses in its first call, and loads itself there."""
    made.call()
    if device(torch) == "cuda":
        torch.cuda.synchronize()
    return made


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
