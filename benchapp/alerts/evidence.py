"""What a kind of alert has to show, as facts, lists and tables, whatever it wrote. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.utils.dateparse import parse_datetime

from benchapp.alerts import words
from benchapp.web.templatetags.units import NONE, byte_size, count, duration, si_time

#: Rows and columns of a table, and characters of a cell.
ROWS, COLUMNS, LONGEST = 50, 8, 300
#: What a kind keeps for itself.
KEPT = "kept"
#: Names that come first, in this order: the database keeps none.
FIRST = (
    "moved", "of", "case", "tile", "backend", "on", "target", "host", "version", "before", "after", "ratio",
    "interval", "runs",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """One thing to show: `facts` as name and value, or a table of `columns` and `rows`, or plain `items`;
    `more` are left out."""

    name: str
    facts: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    items: tuple[str, ...] = ()
    more: int = 0


def blocks(evidence: Mapping[str, Any], without: Collection[str] = ()) -> list[Block]:
    """The scalars as one block without a name, then everything else by its name, but for `without`."""
    evidence = {name: value for name, value in evidence.items() if name not in (KEPT, *without)}
    plain = {name: value for name, value in evidence.items() if not isinstance(value, Mapping | list | tuple)}
    made = [Block("", facts=_facts(plain))] if plain else []
    return made + [
        _block(str(name), value)
        for name, value in evidence.items()
        if isinstance(value, Mapping | list | tuple) and value
    ]


def _block(name: str, value: Mapping[str, Any] | Sequence[Any]) -> Block:
    called = _called(name)
    if isinstance(value, Mapping):
        return Block(called, facts=_facts(value), more=max(0, len(value) - ROWS))
    more = max(0, len(value) - ROWS)
    shown = value[:ROWS]
    if all(isinstance(each, Mapping) for each in shown):
        columns = _ordered({str(key) for each in shown for key in each})[:COLUMNS]
        rows = tuple(tuple(_said(column, each.get(column)) for column in columns) for each in shown)
        return Block(called, columns=tuple(map(_called, columns)), rows=rows, more=more)
    return Block(called, items=tuple(_said(name, each) for each in shown), more=more)


def _facts(value: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((_called(name), _said(name, value[name])) for name in _ordered(value)[:ROWS])


def _ordered(names: Iterable[str]) -> list[str]:
    def place(name: str) -> tuple[int, str]:
        called = _called(name)
        return FIRST.index(called) if called in FIRST else len(FIRST), name

    return sorted(names, key=place)


def _called(name: str) -> str:
    for suffix in ("_seconds", "_bytes", "_s"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")[:60]


def _said(name: str, value: object) -> str:
    """A value in the unit that its name ends with."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return _number(name, value)
    if isinstance(value, list | tuple):
        return ", ".join(_said(name, each) for each in value)[:LONGEST]
    if isinstance(value, Mapping):
        return ", ".join(f"{_called(str(key))} {_said(str(key), each)}" for key, each in value.items())[
            :LONGEST
        ]
    text = str(value)
    moment = _moment(text)
    if moment is not None:
        return f"{moment:%Y-%m-%d %H:%M} UTC"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _moment(text: str) -> dt.datetime | None:
    """The time that an ISO 8601 text with its zone says."""
    try:
        moment = parse_datetime(text)
        return None if moment is None or moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def _number(name: str, value: float) -> str:
    if not abs(value) <= sys.float_info.max:  # NaN, and whole numbers that no float holds
        return NONE
    last = name.rpartition("_")[2]
    if last == "ratio":
        return words.ratio(value)
    if last in ("seconds", "s") and abs(value) < 1e9:
        return duration(value) if abs(value) >= 10 else si_time(value)
    if last in ("bytes", "size") and abs(value) < 1e15:
        return byte_size(value)
    if last in ("share", "percent"):
        return f"{100 * value if last == 'share' else value:.3g} %"
    if isinstance(value, int):
        return count(value) if abs(value) < 1e15 else f"{value:.3g}"
    return f"{value:.4g}"
