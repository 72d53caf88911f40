"""From what fresh processes measured to one table. Pure: standard library only."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

GRAPH, EVENTS, CUPTI, PROFILER = "ours: graph", "ours: events", "ours: CUPTI", "torch profiler"
FI_GRAPH, FI_EVENTS = "FlashInfer: graph", "FlashInfer: events"
TRITON = "Triton do_bench"
OURS, OTHERS = (GRAPH, EVENTS), (FI_GRAPH, FI_EVENTS, TRITON)
COLUMNS = (*OURS, *OTHERS)
#: by which kernel time is told, the first that is there
REFERENCES = (CUPTI, PROFILER)
#: how near a time shall be to kernel time: the larger of the two
SHARE, SECONDS = 0.02, 0.3e-6
#: the clock held where two medians of it differ by less
CLOCK_HELD = 0.01
#: how much wider than the best tool's a spread may be
SPREAD_RATIO = 1.2

#: kernel → timer → {"seconds", "clock_mhz"} or {"error"}, of one process
Process = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One kernel by one timer: the median of the processes' times, seconds, and how far apart these are.

    `spread` is (largest − least) over the median. `difference` is to kernel time in the same processes, in
    seconds at the reference's clock: of cycles where the clock did not hold (`cycles`).
    """

    seconds: float
    spread: float
    difference: float
    cycles: bool
    within: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    kernel: str
    reference: str
    kernel_seconds: float
    kernel_spread: float
    clock_mhz: float | None
    cells: dict[str, Cell]


def rows(processes: Sequence[Process]) -> list[Row]:
    """A row a kernel that has a reference, in the order in which they were measured."""
    found: list[Row] = []
    for kernel in dict.fromkeys(name for process in processes for name in process):
        told = [process[kernel] for process in processes if kernel in process]
        reference = next((name for name in REFERENCES if _times(told, name)), None)
        if reference is None:
            continue
        times = _times(told, reference)
        held = statistics.median(times)
        clock = _clock(told, reference)
        cells = {
            name: _cell(_times(told, name), held, clock, _clock(told, name))
            for name in COLUMNS
            if _times(told, name)
        }
        found.append(Row(kernel, reference, held, _spread(times), clock, cells))
    return found


def _cell(times: list[float], kernel: float, reference_mhz: float | None, mhz: float | None) -> Cell:
    median = statistics.median(times)
    cycles = bool(reference_mhz and mhz and abs(mhz / reference_mhz - 1) > CLOCK_HELD)
    at_reference = median * mhz / reference_mhz if cycles and mhz and reference_mhz else median
    difference = at_reference - kernel
    return Cell(median, _spread(times), difference, cycles, abs(difference) <= max(SHARE * kernel, SECONDS))


def _times(told: Iterable[Mapping[str, Mapping[str, Any]]], name: str) -> list[float]:
    return [each[name]["seconds"] for each in told if "seconds" in each.get(name, {})]


def _clock(told: Iterable[Mapping[str, Mapping[str, Any]]], name: str) -> float | None:
    clocks = [mhz for each in told if (mhz := each.get(name, {}).get("clock_mhz")) is not None]
    return statistics.median(clocks) if clocks else None


def _spread(times: Sequence[float]) -> float:
    return (max(times) - min(times)) / statistics.median(times)


def typical_spread(found: Sequence[Row], name: str) -> float | None:
    """The median over the kernels of a timer's spread; None where it timed none."""
    spreads = [row.cells[name].spread for row in found if name in row.cells]
    return statistics.median(spreads) if spreads else None


def summary(found: Sequence[Row]) -> list[str]:
    """Sentences: how near ours are, and how wide beside the best other tool."""
    said: list[str] = []
    best = min(
        (spread for name in OTHERS if (spread := typical_spread(found, name)) is not None), default=None
    )
    for name in COLUMNS:
        cells = [(row.kernel, row.cells[name]) for row in found if name in row.cells]
        if not cells:
            continue
        kernel, worst = max(cells, key=lambda each: abs(each[1].difference))
        within = sum(cell.within for _, cell in cells)
        spread = typical_spread(found, name) or 0.0
        beside = ""
        if name in OURS and best:
            beside = f", {spread / best:.2f} times the best other tool's (at most {SPREAD_RATIO} asked)"
        said.append(
            f"{name}: {within} of {len(cells)} kernels within max({SHARE:.0%}, {SECONDS * 1e6:g} µs) of"
            f" kernel time; largest difference {worst.difference * 1e6:+.2f} µs ({kernel});"
            f" median spread {spread:.2%}{beside}."
        )
    return said


def markdown(found: Sequence[Row], processes: int) -> str:
    """The table and its summary. A cell is µs, its difference from kernel time, and its spread."""
    head = ["kernel", "kernel time, µs", "SM MHz", *COLUMNS]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in found:
        cells = [_words(row, row.cells.get(name)) for name in COLUMNS]
        clock = "" if row.clock_mhz is None else f"{row.clock_mhz:.0f}"
        kernel = f"{row.kernel_seconds * 1e6:.2f} ±{row.kernel_spread:.1%}"
        lines.append(f"| {' | '.join([row.kernel, kernel, clock, *cells])} |")
    told = f"Over {processes} fresh processes; ± is (largest − least) over the median. "
    told += "\\* compared in SM cycles, since the clocks differed; ✗ further than the limit."
    return "\n".join([*lines, "", told, "", *(f"- {line}" for line in summary(found)), ""])


def _words(row: Row, cell: Cell | None) -> str:
    if cell is None:
        return "–"
    share = cell.difference / row.kernel_seconds
    marks = ("\\*" if cell.cycles else "") + ("" if cell.within else " ✗")
    return f"{cell.seconds * 1e6:.2f} ({share:+.1%}{marks}) ±{cell.spread:.1%}"
