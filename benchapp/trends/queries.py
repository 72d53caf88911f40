"""Measurements of one target and shape, ready to be drawn; the number of queries does not grow with them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Case as Choice
from django.db.models import Sum, When

from benchapp.catalog.models import Series, Stack, Target
from benchapp.catalog.versions import version_order
from benchapp.runs import again
from benchapp.runs.models import Document, Latest, Measurement
from benchapp.runs.queries import source_of
from benchapp.runs.ranking import may_rank
from benchapp.trends.components import varying, version_of
from benchapp.trends.models import Offer
from benchapp.trends.points import NOTHING, TIMERS, Point, Triple
from benchapp.trends.utilisation import Ceiling, counted
from workers.bench.calls import calls_per_step
from workers.bench.cases.parse import work_of

#: Points of one page; more are left out, the oldest first, and the page says so.
MAX_POINTS = 500
#: Series read for one page, and measurements looked through for its points.
MAX_SERIES, MAX_ROWS = 3000, 6000
#: Shapes that a filter lists; others can be typed.
MAX_SHAPES = 300
#: Outcomes that are no speed, by how they are marked.
MARKS = {"incorrect": "incorrect", "unsupported": "unsupported"}


def offered_kinds() -> list[tuple[int, str]]:
    """(target, kind) of everything that was timed, those with most cases first."""
    rows = Offer.objects.values_list("target_id", "kind").annotate(all=Sum("cases"))
    return [(target, kind) for target, kind, _ in rows.order_by("-all", "target_id", "kind")]


def offered_shapes(target: int, kind: str) -> list[str]:
    """The shapes with most cases first, at most MAX_SHAPES."""
    rows = Offer.objects.filter(target=target, kind=kind).values_list("shape").annotate(all=Sum("cases"))
    return [shape for shape, _ in rows.order_by("-all", "shape")[:MAX_SHAPES]]


def is_offered(target: int, kind: str, shape: str) -> bool:
    return Offer.objects.filter(target=target, kind=kind, shape=shape).exists()


def offers_of(target: int, kind: str, shape: str) -> list[tuple[str, str]]:
    """(dtype, backend) of one shape, those with most cases first."""
    rows = Offer.objects.filter(target=target, kind=kind, shape=shape)
    return list(rows.order_by("-cases", "dtype", "backend").values_list("dtype", "backend"))


def targets(ids: Iterable[int]) -> list[Target]:
    """GPUs first: their ceilings are known. Those of one model stay in the order of `ids`."""
    order = list(dict.fromkeys(ids))
    found = Target.objects.select_related("host").in_bulk(order)
    listed = [found[pk] for pk in order if pk in found]
    return sorted(listed, key=lambda target: (target.kind != Target.Kind.GPU, str(target)))


def sizes_of(target: int, kind: str, shape: str, dtype: str = "") -> list[int]:
    """Sizes that a target's sweeps over a shape have."""
    series = Series.objects.filter(
        target=target, metric="time", case__kind=kind, case__shape=shape, case__size__isnull=False
    )
    if dtype:
        series = series.filter(case__dtype=dtype)
    sizes = series.order_by().values_list("case__size", flat=True).distinct()
    return sorted(size for size in sizes if size is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a page is drawn from: measurement rows, and what they point at."""

    target: Target
    kind: str
    rows: Sequence[Mapping[str, Any]]
    series: Mapping[int, Mapping[str, Any]]
    stacks: Mapping[int, Mapping[str, str]]
    documents: Mapping[int, Mapping[str, Any]]
    capped: bool

    def components(self) -> list[tuple[str, int]]:
        """(component, how many versions of it) of the stacks here, the one that varies most first."""
        return varying(self.stacks.values())


def find(
    target: Target,
    kind: str,
    shape: str,
    *,
    dtype: str = "",
    backend: str = "",
    sizes: Collection[int] = (),
    every: bool = False,
) -> Found:
    """Measurements of one shape, newest first.

    The newest of each series and stack, of runs marked invalid only where there is no other, or with `every`
    all of them. `sizes` narrows to those.
    """
    wanted: dict[str, Any] = {"target": target, "metric": "time", "case__kind": kind, "case__shape": shape}
    if dtype:
        wanted["case__dtype"] = dtype
    if backend:
        wanted["backend"] = backend
    if sizes:
        wanted["case__size__in"] = sizes
    columns = ("case__params", "case__dtype", "case__size", "backend", "configuration__settings")
    listed = Series.objects.filter(**wanted).values("pk", *columns).order_by("pk")[: MAX_SERIES + 1]
    series = {row["pk"]: row for row in listed[:MAX_SERIES]}
    rows = Measurement.objects.filter(series__in=list(series))
    if every:
        found = list(_values(rows.order_by("-measured_at", "-id")[: MAX_POINTS + 1]))
    else:
        marked = Choice(When(run__invalid_reason__gt="", then=1), default=0)
        rows = rows.order_by("series_id", "stack_id", marked, "-measured_at", "-id")
        found = list(_values(rows.distinct("series_id", "stack_id")[:MAX_ROWS]))
        found.sort(key=lambda row: row["measured_at"], reverse=True)
    shown = found[:MAX_POINTS]
    stacks = Stack.objects.in_bulk({row["stack_id"] for row in shown})
    documents = Document.objects.filter(pk__in={row["document_id"] for row in shown})
    return Found(
        target=target,
        kind=kind,
        rows=shown,
        series=series,
        stacks={pk: stack.components for pk, stack in stacks.items()},
        documents={row["pk"]: row for row in documents.values("pk", "origin", "facts__costs")},
        capped=len(found) > MAX_POINTS,
    )


def _values(rows: Any) -> Any:
    return rows.values(
        "measured_at", "outcome", "flags", "median", "q1", "q3", "host_median", "host_q1", "host_q3", "n",
        "timer", "l2_policy", "flops", "bytes", "sm_clock_mhz_median", "cosine", "zero_count",
        "nan_count", "elements", "error", "run_id",
        "document_id", "series_id", "stack_id", "run__invalid_reason",
    )  # fmt: skip


def calls_of(found: Found) -> dict[str, int]:
    """How often a decode step of each model computes the shape found; empty where no model does."""
    params = next((each["case__params"] for each in found.series.values()), None)
    if params is None or work_of(found.kind, params) is None:
        return {}
    return calls_per_step(found.kind, params)


def launch_floors(target: Target) -> dict[str, float]:
    """Seconds of an empty kernel by timer: the newest good measurement of each on this target."""
    rows = Latest.objects.filter(
        series__target=target,
        series__case__kind="empty_kernel",
        series__metric="time",
        good_median__isnull=False,
    ).order_by("good_measured_at")
    return {
        str(params.get("timer")): median
        for params, median in rows.values_list("series__case__params", "good_median")
        if median is not None
    }


def points(found: Found, component: str, floors: Mapping[str, float], calls: int = 1) -> list[Point]:
    """By size, backend and version; `version` is of `component`, and `calls` are those of a decode step."""
    limits: dict[tuple[str | None, bool], Ceiling | None] = {}
    configurations = _configurations(found.series.values())
    made = [_point(found, row, component, floors, calls, limits, configurations) for row in found.rows]
    return sorted(
        made,
        key=lambda p: (
            p.size or 0, p.name, p.dtype, p.backend, p.configuration, version_order(p.version), p.measured_at
        ),
    )  # fmt: skip


def _point(
    found: Found,
    row: Mapping[str, Any],
    component: str,
    floors: Mapping[str, float],
    calls: int,
    limits: dict[tuple[str | None, bool], Ceiling | None],
    configurations: Mapping[int, str],
) -> Point:
    series, components = found.series[row["series_id"]], found.stacks[row["stack_id"]]
    document, params = found.documents[row["document_id"]], series["case__params"]
    work = counted(found.kind, params, row["flops"], row["bytes"])
    if (work.rate, work.known) not in limits:
        limits[work.rate, work.known] = work.ceiling(found.target)
    invalid = row["run__invalid_reason"] or ""
    href, source = source_of(row)
    return Point(
        kind=found.kind,
        size=series["case__size"],
        name=_name(params),
        dtype=series["case__dtype"],
        backend=series["backend"],
        configuration=configurations[row["series_id"]],
        version=version_of(components, component),
        measured_at=row["measured_at"],
        outcome=row["outcome"],
        flags=tuple(row["flags"]),
        time=_triple(row, ""),
        host=_triple(row, "host_"),
        n=row["n"],
        timer=TIMERS.get(row["timer"], row["timer"]),
        l2_policy=row["l2_policy"],
        flops=work.flops,
        moved=work.moved,
        limit=limits[work.rate, work.known],
        clock_mhz=row["sm_clock_mhz_median"],
        floor=_floor(row["timer"], floors, document["facts__costs"] or {}),
        calls=calls,
        params=params,
        mark=_mark(row, invalid),
        remark=invalid or row["error"] or _how_wrong(row),
        href=href,
        source=source,
        origin=document["origin"],
        again=again.of_point(components, found.target.key, found.kind, params),
    )


def _name(params: Mapping[str, Any]) -> str:
    """What names a case that has no size: "timer cupti"."""
    said = (f"{name} {value}".replace("_", " ") for name, value in sorted(params.items()) if name != "dtype")
    return ", ".join(said)


def _triple(row: Mapping[str, Any], prefix: str) -> Triple:
    if row[f"{prefix}median"] is None:
        return NOTHING
    return row[f"{prefix}median"], row[f"{prefix}q1"], row[f"{prefix}q3"]


def _how_wrong(row: Mapping[str, Any]) -> str:
    """What an incorrect result's check saw: its agreement with the reference, zeros and NaN."""
    if row["outcome"] != "incorrect":
        return ""
    said = [] if row["cosine"] is None else [f"cosine {row['cosine']:.3f} with the reference"]
    for name, label in (("zero_count", "zeros"), ("nan_count", "NaN")):
        if row[name] and row["elements"]:
            said.append(f"{100 * row[name] / row['elements']:.3g}\u00a0% {label}")
    return ", ".join(said)


def _mark(row: Mapping[str, Any], invalid: str) -> str:
    if may_rank(row["outcome"], row["flags"], invalid) and row["median"] is not None:
        return ""
    return MARKS.get(row["outcome"], "invalid" if row["outcome"] in ("ok", "unverified") else "failed")


def _floor(timer: str, floors: Mapping[str, float], costs: Mapping[str, Any]) -> float | None:
    """Of the same timer: measured on this target, else what the document tells."""
    told: float | None = costs.get(f"launch_floor_{timer}_seconds", costs.get("launch_floor_seconds"))
    return floors.get(timer, told)


def _configurations(series: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """What sets the configurations of these series apart, in words; "" where all are the same."""
    settings = {row["pk"]: row["configuration__settings"] for row in series}
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for told in settings.values():
        for name, value in told.items():
            values[name][str(value)] += 1
    differing = {name for name, seen in values.items() if len(seen) > 1 or seen.total() < len(settings)}
    return {
        pk: ", ".join(f"{name.replace('_', ' ')} {told.get(name, 'unknown')}" for name in sorted(differing))
        for pk, told in settings.items()
    }


def is_recorded(found: Sequence[Point]) -> bool:
    return any(point.origin == Document.Origin.RECORDED for point in found)


def is_imported(found: Sequence[Point]) -> bool:
    return any(point.origin == Document.Origin.IMPORT or "imported" in point.flags for point in found)
