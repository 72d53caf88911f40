"""What an alert costs: the order of the inbox. Pure."""

from __future__ import annotations

import math

#: Of alerts that are about no speed: something that was there is wrong or gone.
WRONG = 1.0


def effect(ratio: float | None) -> float:
    """How far something moved: |ln(after / before)|, so that twice and half weigh the same. WRONG where
    nothing was timed."""
    return WRONG if ratio is None or ratio <= 0 else abs(math.log(ratio))


def cost(ratio: float | None, importance: float, confidence: float, *, worse: bool) -> float:
    """effect × importance × confidence; of an improvement a tenth of it, for nothing is lost."""
    return effect(ratio) * importance * confidence * (1.0 if worse else 0.1)
