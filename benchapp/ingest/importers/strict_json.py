"""JSON of strangers, within bounds."""

from __future__ import annotations

import json
import math
from typing import Any

from benchapp.ingest.importers.base import ImportFault, printable

#: Digits of a number; anything here counts tactics, sizes or times.
DIGITS = 40


def loads(body: bytes) -> dict[str, Any]:
    """An object: UTF-8, each key once, sane numbers, nesting that Python can follow. Raises ImportFault."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFault(f"not UTF-8 text: byte {error.start:,} cannot be read") from None
    if "\x00" in text:
        raise ImportFault("holds NUL bytes, so it is no JSON text")
    try:
        content = json.loads(
            text, object_pairs_hook=_once, parse_int=_whole, parse_float=_real, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise ImportFault(
            f"not whole JSON: {error.msg.lower()} at line {error.lineno:,} column {error.colno:,}"
        ) from None
    except RecursionError:
        raise ImportFault("its JSON is nested too deeply") from None
    if not isinstance(content, dict):
        raise ImportFault("expected a JSON object at the top")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ImportFault(f"the key {printable(key, 120)!r} stands there twice")
            seen.add(key)
    return content


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ImportFault(f"holds a number of {len(text):,} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text) if len(text) <= 10 * DIGITS else math.inf
    if not math.isfinite(value):
        raise ImportFault(f"holds a number that is too large or too long: {printable(text, 40)}")
    return value


def _constant(text: str) -> float:
    raise ImportFault(f"holds {text}, which JSON does not know")
