"""`python -m benchapp.alerts.detect`: the steps in the series of a CSV file."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from benchapp.alerts.detect import MIN_EFFECT, MINIMUM_HISTORY, Change, detect

COLUMNS = ("value", "samples", "group", "host")
_MISSING = ("", "nan", "none", "null")


class Unreadable(Exception):
    """What is wrong with a file, in one sentence with its line and column."""


@dataclasses.dataclass(slots=True)
class Series:
    """One host's rows; `rows` are their numbers within the file, from 0."""

    rows: list[int] = dataclasses.field(default_factory=list)
    values: list[float | None] = dataclasses.field(default_factory=list)
    samples: list[list[float] | None] = dataclasses.field(default_factory=list)
    groups: list[str] = dataclasses.field(default_factory=list)


def read(file: TextIO) -> dict[str, Series]:
    """The series of a CSV file with a head, by host ("" without that column). Raises Unreadable."""
    reader = csv.reader(file)
    rows = _rows(reader)
    head = [name.strip().lower() for name in next(rows, [])]
    if "value" not in head:
        raise Unreadable(f"line 1: expected a column named value, got {', '.join(head)[:200] or 'nothing'}.")
    columns = {name: head.index(name) for name in COLUMNS if name in head}
    found: dict[str, Series] = {}
    for row, cells in enumerate(rows):
        line = reader.line_num
        if len(cells) != len(head):
            raise Unreadable(f"line {line}: expected {len(head)} columns, got {len(cells)}.")
        cell = {name: cells[at].strip() for name, at in columns.items()}
        series = found.setdefault(cell.get("host", ""), Series())
        series.rows.append(row)
        series.values.append(_number(cell["value"], line, "value"))
        series.samples.append(_numbers(cell.get("samples", ""), line))
        series.groups.append(cell.get("group", ""))
    return found


def _rows(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        yield from (cells for cells in reader if cells)
    except csv.Error as error:
        raise Unreadable(f"not CSV: {error}.") from None


def _number(text: str, line: int, column: str) -> float | None:
    if text.lower() in _MISSING:
        return None
    try:
        return float(text)
    except ValueError:
        raise Unreadable(f"line {line}, column {column}: expected a number, got {text!r:.60}.") from None


def _numbers(text: str, line: int) -> list[float] | None:
    if not text:
        return None
    read = [_number(part.strip(), line, "samples") for part in text.split(";")]
    return [number for number in read if number is not None]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchapp.alerts.detect",
        description="Steps in the series of a CSV file: one row a run, in order, with a column value and "
        "optionally samples (separated by ;), group (what it was measured with) and host (a series each). "
        "Empty values are missing runs.",
    )
    parser.add_argument("file", metavar="FILE.csv", help="or - for standard input")
    parser.add_argument("--json", action="store_true", help="one list of objects, with every field")
    parser.add_argument(
        "--higher-is-better", action="store_true", help="default: lower is better, as of times"
    )
    parser.add_argument(
        "--min-effect", type=_share, default=MIN_EFFECT, metavar="SHARE", help=f"default: {MIN_EFFECT}"
    )
    parser.add_argument(
        "--minimum-history",
        type=_count,
        default=MINIMUM_HISTORY,
        metavar="N",
        help=f"points before a step that it takes to be certain (default: {MINIMUM_HISTORY})",
    )
    chosen = parser.parse_args(arguments)
    try:
        series = _read(chosen.file)
    except UnicodeDecodeError:
        print(f"{chosen.file}: not text in UTF-8.", file=sys.stderr)
        return 1
    except (Unreadable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(f"{chosen.file}: {reason}", file=sys.stderr)
        return 1
    found = [
        (host, dataclasses.replace(change, index=each.rows[change.index]))
        for host, each in series.items()
        for change in detect(
            each.values,
            each.samples,
            each.groups,
            lower_is_better=not chosen.higher_is_better,
            minimum_history=chosen.minimum_history,
            min_effect=chosen.min_effect,
        )
    ]
    if chosen.json:
        print(json.dumps([{"host": host} | dataclasses.asdict(change) for host, change in found], indent=1))
    else:
        print("\n".join(_line(host, change) for host, change in found) or "No step found.")
    return 0


def _read(name: str) -> dict[str, Series]:
    if name == "-":
        return read(sys.stdin)
    with Path(name).open(encoding="utf-8-sig", newline="") as file:
        return read(file)


def _line(host: str, change: Change) -> str:
    where = f"{host}, row {change.index}" if host else f"row {change.index}"
    return (
        f"{where}: {change.before:.6g} → {change.after:.6g}, ×{change.ratio:.3f} "
        f"({change.low:.3f} to {change.high:.3f}), {'worse' if change.worse else 'better'}, "
        f"{'certain' if change.certain else 'uncertain'} ({change.n_before} points before, "
        f"{change.n_after} after)"
    )


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share < 10:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 10, got {text!r}")
    return share


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 1,000,000, got {text!r}")
    return int(text)
