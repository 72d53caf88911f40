"""From the records of a trace to the time of each call. Pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Record:
    """One kernel, copy or fill on the GPU: nanoseconds of the device's clock."""

    start: int
    end: int
    name: str


def split(records: Iterable[Record], fence: str) -> list[list[Record]]:
    """The records between one fence and the next, in order of time; a fence's name holds `fence`.

    What comes before the first fence and after the last belongs to nobody. Two fences with nothing between
    them give an empty list.
    """
    groups: list[list[Record]] = []
    inside = False
    for record in sorted(records):
        if fence in record.name:
            groups.append([])
            inside = True
        elif inside:
            groups[-1].append(record)
    return groups[:-1]


def span(group: Sequence[Record]) -> float:
    """Seconds from the first start to the last end: what runs side by side counts once, gaps count."""
    return (max(record.end for record in group) - min(record.start for record in group)) / 1e9


def dominant(records: Iterable[Record]) -> str | None:
    """The name that takes most of the time; None of nothing."""
    totals: collections.Counter[str] = collections.Counter()
    for record in records:
        totals[record.name] += record.end - record.start
    return max(totals, key=lambda name: (totals[name], name)) if totals else None
