"""Tables that are taken away."""

from __future__ import annotations

Plain = str | int | float | None


def safe_cell(value: Plain) -> Plain:
    """Names come from documents: a leading sign would make a spreadsheet compute them."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value
