"""Ranges of the axes that values are drawn against. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

#: A logarithmic axis where values span more than this factor.
LOG_FROM = 12
#: No axis ends beyond these, whatever a document claims of its work or its clocks.
LEAST, MOST = 1e-12, 1e30
#: The two ends of an axis stay this factor apart there too.
APART = 100


def value_axis(title: str, unit: str, values: Sequence[float], *, is_share: bool) -> dict[str, Any]:
    """A range that shows the values: shares from 0 to 100, wide spans on a logarithmic axis."""
    axis = {"title": title, "unit": unit, "type": "linear", "min": 0}
    top, bottom = (max(values), min(values)) if values else (1.0, 1.0)
    if is_share:
        return axis | {"max": 105.0 if top < 101 else round_up(top * 1.05)}
    if top > LOG_FROM * bottom:
        return axis | {"type": "logarithmic", "min": round_down(bottom / 1.3), "max": round_up(top * 1.3)}
    return axis | {"max": round_up(top * 1.08)}


def round_up(number: float) -> float:
    """To two significant digits, upwards."""
    number = min(max(number, LEAST * APART), MOST)
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / step - 1e-9) * step, 12)


def round_down(number: float) -> float:
    """To one significant digit, downwards."""
    number = min(max(number, LEAST), MOST / APART)
    step = 10.0 ** math.floor(math.log10(number))
    return round(math.floor(number / step + 1e-9) * step, 12)
