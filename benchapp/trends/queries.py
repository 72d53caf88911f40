"""Measurements of one target and shape, ready to be drawn."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Case, Count, When
from django.urls import reverse

from benchapp.catalog.models import Series, Target
from benchapp.runs import again
from benchapp.runs.models import Document, Measurement
from benchapp.runs.ranking import may_rank
from benchapp.trends.utilisation import Ceiling, ceiling, value

#: Points of one page; more are left out, the oldest first, and the page says so.
MAX_POINTS = 500
COMPONENTS = ("torch", "flashinfer")
TIMERS = {
    "cupti": "CUPTI",
    "cuda_graph": "CUDA graph",
    "cuda_events": "CUDA events",
    "wall_clock": "wall clock",
}
#: Outcomes that are no speed, by how they are marked.
MARKS = {"incorrect": "incorrect", "unsupported": "unsupported"}


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A combination that was measured: what the filters can ask for."""

    target_id: int
    kind: str
    dtype: str
    backend: str
    n: int | None
    k: int | None
    cases: int

    @property
    def shape(self) -> str:
        return f"{self.n}x{self.k}" if self.n and self.k else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One measurement. Times in seconds a call; `mark` is empty where it may rank as a speed."""

    m: int
    dtype: str
    backend: str
    version: str
    measured_at: dt.datetime
    outcome: str
    flags: tuple[str, ...]
    median: float | None
    q1: float | None
    q3: float | None
    n: int
    timer: str
    l2_policy: str
    flops: float | None
    moved: float | None
    limit: Ceiling | None
    mark: str
    remark: str
    href: str
    source: str
    origin: str
    #: the address that asks for the same again; "" where it cannot be measured here
    again: str

    def at(self, metric: str, seconds: float | None) -> float | None:
        return None if self.mark else value(metric, seconds, self.flops, self.moved, self.limit)

    @property
    def flag_words(self) -> list[str]:
        return [flag.replace("_", " ") for flag in self.flags]

    @property
    def bound_by(self) -> str:
        if self.limit is None or self.flops is None or self.moved is None:
            return ""
        return self.limit.bound_by(self.flops, self.moved)


def offers() -> list[Offer]:
    """Every combination with a series, the one with most cases first."""
    rows = (
        Series.objects.filter(metric="time")
        .values_list(
            "target_id", "case__kind", "case__params__dtype", "backend", "case__params__n", "case__params__k"
        )
        .annotate(cases=Count("case_id", distinct=True))
        .order_by("-cases", "-case__params__n", "-case__params__k")
    )
    return [
        Offer(target, kind, str(dtype or ""), backend, _extent(n), _extent(k), cases)
        for target, kind, dtype, backend, n, k, cases in rows
    ]


def targets(ids: set[int]) -> list[Target]:
    """GPUs first: their ceilings are known."""
    found = Target.objects.filter(pk__in=ids).select_related("host")
    return sorted(found, key=lambda target: (target.kind != Target.Kind.GPU, str(target), target.pk))


def points(
    target: Target,
    kind: str,
    shape: str,
    *,
    dtype: str = "",
    backend: str = "",
    component: str = "torch",
    every: bool = False,
) -> tuple[list[Point], bool]:
    """Measurements of one N×K, by M and time, and whether some were left out.

    The newest of each series and stack, of runs marked invalid only where there is no other, or with `every`
    all of them.
    """
    wanted: dict[str, Any] = {"series__target": target, "series__metric": "time", "series__case__kind": kind}
    if shape:
        n, _, k = shape.partition("x")
        wanted |= {"series__case__params__n": int(n), "series__case__params__k": int(k)}
    if dtype:
        wanted["series__case__params__dtype"] = dtype
    if backend:
        wanted["series__backend"] = backend
    rows = Measurement.objects.filter(**wanted)
    if every:
        rows = rows.order_by("-measured_at", "-id")
    else:
        marked = Case(When(run__invalid_reason__gt="", then=1), default=0)
        rows = rows.order_by("series_id", "stack_id", marked, "-measured_at", "-id")
        rows = rows.distinct("series_id", "stack_id")
    found = list(
        rows.values(
            "measured_at", "outcome", "flags", "median", "q1", "q3", "n", "timer", "l2_policy", "flops",
            "bytes", "error", "run_id", "document_id", "document__origin", "run__invalid_reason",
            "stack__components", "series__case__params", "series__backend",
        )[: MAX_POINTS + 1]
    )  # fmt: skip
    limits: dict[str, Ceiling | None] = {}
    made = [_point(target, kind, row, component, limits) for row in found[:MAX_POINTS]]
    return sorted(made, key=lambda point: (point.m, point.measured_at)), len(found) > MAX_POINTS


def _point(
    target: Target, kind: str, row: Mapping[str, Any], component: str, limits: dict[str, Ceiling | None]
) -> Point:
    params = row["series__case__params"]
    dtype = str(params.get("dtype") or "")
    if dtype not in limits:
        limits[dtype] = ceiling(target, dtype)
    invalid = row["run__invalid_reason"] or ""
    mark = ""
    if not may_rank(row["outcome"], row["flags"], invalid) or row["median"] is None:
        mark = MARKS.get(row["outcome"], "invalid" if row["outcome"] in ("ok", "unverified") else "failed")
    run, document = row["run_id"], row["document_id"]
    components = row["stack__components"]
    return Point(
        m=_extent(params.get("m")) or 0,
        dtype=dtype,
        backend=row["series__backend"],
        version=str(components.get(component) or "unknown"),
        measured_at=row["measured_at"],
        outcome=row["outcome"],
        flags=tuple(row["flags"]),
        median=row["median"],
        q1=row["q1"],
        q3=row["q3"],
        n=row["n"],
        timer=TIMERS.get(row["timer"], row["timer"]),
        l2_policy=row["l2_policy"],
        flops=row["flops"],
        moved=row["bytes"],
        limit=limits[dtype],
        mark=mark,
        remark=invalid or row["error"],
        href=reverse("runs:detail", args=[run]) if run else reverse("runs:document", args=[document]),
        source=f"run {run}" if run else f"document {document}",
        origin=row["document__origin"],
        again=again.of_case(str(components["torch"]), target.key, params)
        if kind == "gemm" and "torch" in components
        else "",
    )


def is_recorded(found: Sequence[Point]) -> bool:
    return any(point.origin == Document.Origin.RECORDED for point in found)


def _extent(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
