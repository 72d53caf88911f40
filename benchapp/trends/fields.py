"""What the forms of the trends and the compare page read alike."""

from __future__ import annotations

import re
from typing import Any

from django import forms

#: The largest that a size may be in the catalog is 2**63 - 1.
_LIMIT = 2**63


class SizesField(forms.CharField):
    """Sizes as people type them, "64 1,16"; the value is canonical: sorted, without repeats, "1,16,64"."""

    def __init__(self, *, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def clean(self, value: Any) -> str:
        words = str(super().clean(value)).replace(" ", ",").split(",")
        try:
            sizes = sorted({int(word) for word in words if word})
        except ValueError:
            raise forms.ValidationError("Expected sizes such as 1,16,64.") from None
        if len(sizes) > self._most or any(not 1 <= size < _LIMIT for size in sizes):
            raise forms.ValidationError(f"Expected at most {self._most} positive numbers.")
        return ",".join(map(str, sizes))


def sizes_in(canonical: str | None) -> list[int]:
    """The sizes of a SizesField's value, ascending."""
    return [int(word) for word in (canonical or "").split(",") if word]


def plain_shape(text: str) -> str:
    """A shape as the catalog writes it: 4096×7168, "4096 X 7168" and 4096*7168 are 4096x7168."""
    squeezed = text.replace("×", "x").replace(" ", "").strip()
    return re.sub("[X*]", "x", squeezed) if re.fullmatch(r"\d+[xX*]\d+", squeezed) else squeezed
