"""JIT modules over versions: CPU-seconds of building each ahead, and bytes of what was built."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchapp.catalog.models import Series, Stack
from benchapp.catalog.versions import newest_order, version_order
from benchapp.runs.models import Measurement
from benchapp.runs.queries import source_of
from benchapp.runs.ranking import may_rank
from benchapp.trends.axes import value_axis

KIND = "jit_module"
MAX_SERIES, MAX_ROWS, MAX_VERSIONS, MAX_LINES = 2000, 20_000, 12, 6


@dataclasses.dataclass(slots=True)
class Cell:
    """One module in one version: CPU-seconds, bytes, or why there are none."""

    cpu_seconds: float | None = None
    size: float | None = None
    outcome: str = ""
    built: bool = False
    error: str = ""
    href: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Modules:
    versions: list[str]
    #: (module and architecture, cells in the order of versions), the dearest in the newest version first
    rows: list[tuple[str, list[Cell | None]]]
    #: CPU-seconds and bytes of a version's modules together
    totals: list[tuple[float, float]]


def modules() -> Modules:
    """The newest build of each module in each FlashInfer version."""
    listed = Series.objects.filter(case__kind=KIND, metric__in=("cpu_time", "size"))
    series = {
        row["pk"]: row for row in listed.values("pk", "metric", "case__params").order_by("pk")[:MAX_SERIES]
    }
    found = Measurement.objects.filter(series__in=list(series))
    found = found.order_by("series_id", "stack_id", "-measured_at", "-id").distinct("series_id", "stack_id")
    columns = (
        "series_id",
        "stack_id",
        "measured_at",
        "outcome",
        "flags",
        "median",
        "error",
        "run_id",
        "document_id",
    )
    rows = list(found.values(*columns)[:MAX_ROWS])
    stacks = Stack.objects.in_bulk({row["stack_id"] for row in rows})
    version_of = {pk: str(stack.components.get("flashinfer") or "unknown") for pk, stack in stacks.items()}
    cells: dict[str, dict[str, Cell]] = defaultdict(lambda: defaultdict(Cell))
    for row in sorted(rows, key=lambda row: row["measured_at"]):
        params = series[row["series_id"]]["case__params"]
        name = f"{params.get('module')}, {params.get('arch')}"
        _add(cells[name][version_of[row["stack_id"]]], series[row["series_id"]]["metric"], row)
    versions = sorted(sorted(set(version_of.values()), key=newest_order)[-MAX_VERSIONS:], key=version_order)
    ordered = sorted(cells.items(), key=lambda item: (-_cost(item[1], versions), item[0]))
    lines = [(name, [of.get(version) for version in versions]) for name, of in ordered]
    return Modules(versions, lines, [_total(lines, at) for at in range(len(versions))])


def _add(cell: Cell, metric: str, row: Mapping[str, Any]) -> None:
    cell.href, _ = source_of(row)
    cell.outcome, cell.error = row["outcome"], row["error"]
    cell.built = may_rank(row["outcome"], row["flags"])
    if metric == "cpu_time":
        cell.cpu_seconds = row["median"] if cell.built else None
    else:
        cell.size = row["median"] if cell.built else None


def _cost(of: Mapping[str, Cell], versions: Sequence[str]) -> float:
    return next((cell.cpu_seconds or 0.0 for v in reversed(versions) if (cell := of.get(v))), 0.0)


def _total(lines: Sequence[tuple[str, list[Cell | None]]], at: int) -> tuple[float, float]:
    cells = [cells[at] for _, cells in lines]
    return (
        sum(cell.cpu_seconds or 0.0 for cell in cells if cell),
        sum(cell.size or 0.0 for cell in cells if cell),
    )


def headline(found: Modules) -> str:
    """What the modules of the newest version cost together."""
    if not found.rows:
        return ""
    newest, (seconds, size) = found.versions[-1], found.totals[-1]
    built = [cells[-1] for _, cells in found.rows if cells[-1] is not None]
    failed = sum(not cell.built for cell in built)
    said = (
        f"FlashInfer {newest}: {len(built) - failed} modules built ahead take "
        f"{seconds:,.0f} CPU-seconds and {size / 2**20:,.1f} MiB"
    )
    return said + (f"; {failed} could not be built." if failed else ".")


def chart(found: Modules) -> dict[str, Any] | None:
    """CPU-seconds over versions, one line a module: the dearest."""
    series: list[dict[str, Any]] = [
        {
            "label": name,
            "points": [
                {
                    "x": version,
                    "y": cell.cpu_seconds if cell else None,
                    **({"note": cell.outcome, "href": cell.href} if cell else {}),
                }
                for version, cell in zip(found.versions, cells, strict=True)
            ],
        }
        for name, cells in found.rows[:MAX_LINES]
    ]
    values = [point["y"] for line in series for point in line["points"] if point["y"]]
    if not values:
        return None
    return {
        "type": "line",
        "x": {"title": "flashinfer", "type": "category", "labels": found.versions},
        "y": value_axis("CPU time of the build", "s", values, is_share=False),
        "series": series,
        "lines": [],
    }
