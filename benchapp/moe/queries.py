"""Steps of whole models, read for a page: what there is to choose from, and the newest of each version."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Case as Choice
from django.db.models import When

from benchapp.catalog.models import Series, Stack, Target
from benchapp.catalog.versions import newest_order
from benchapp.moe.limits import Limit, limit_of
from benchapp.moe.newest import Row, mark_of
from benchapp.moe.points import Point, version_of
from benchapp.runs.models import Document, Latest, Measurement, Sample
from benchapp.runs.queries import source_of
from benchapp.runs.steps import STEPS, step_of
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.parse import from_params
from workers.bench.document import BenchError

#: Series looked through, and measurements whose newest are found among.
MAX_SERIES, MAX_ROWS = 5_000, 40_000
#: Measurements that one page shows.
MAX_POINTS = 600
#: Timers of an empty kernel, the nearest to how a step is launched first.
FLOOR_TIMERS = ("cuda_graph", "cupti", "cuda_events")
#: Of a measurement's facts, what pages show; the routing of every expert is not.
FACTS = (
    "tokens", "steps", "window_s", "gpus", "layers", "layers_total", "weight_bytes", "kv_bytes",
    "peak_memory_bytes", "parts", "libraries", "traced_s", "overlap_s", "kernels", "rank_medians",
    "experts_hit", "power_w", "projected_s", "left_out",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """A series of a whole model's steps."""

    series: int
    target: int
    case: Decode | Prefill
    backend: str
    settings: Mapping[str, Any]

    @property
    def whole(self) -> bool:
        return self.case.layers == self.case.layout.model.layers


def held() -> tuple[list[Held], int]:
    """(series of decode and prefill, the newest MAX_SERIES of them; how many name a case that is not known
    here)."""
    rows = Series.objects.filter(case__kind__in=STEPS, metric="time").order_by("-pk")
    columns = ("pk", "target_id", "case__kind", "case__params", "backend", "configuration__settings")
    found, unknown = [], 0
    for pk, target, kind, params, backend, settings in rows.values_list(*columns)[:MAX_SERIES]:
        case = _case(kind, tuple(sorted(params.items())))
        if case is None:
            unknown += 1
        else:
            found.append(Held(pk, target, case, backend, settings))
    return found, unknown


@functools.lru_cache(maxsize=8192)
def _case(kind: str, params: tuple[tuple[str, Any], ...]) -> Decode | Prefill | None:
    try:
        case = from_params(kind, dict(params), kind)
    except BenchError:
        return None
    assert isinstance(case, Decode | Prefill)
    return case


def targets(ids: Iterable[int]) -> dict[int, Target]:
    return Target.objects.select_related("host").in_bulk(set(ids))


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """The newest measurement of each case, backend and version; `versions` of `every` are shown, newest
    first."""

    points: list[Point]
    versions: list[str]
    every: list[str]
    capped: bool


#: What makes two measurements points of one line: case, backend and configuration, whichever GPU of a model.
Key = tuple[Decode | Prefill, str, str]


def read(
    these: Collection[Held],
    at: Mapping[int, Target],
    named: Mapping[int, str],
    *,
    versions: int,
    until: str = "",
    most: int = MAX_POINTS,
) -> Reading:
    """The newest measurement of each line in each of so many versions, up to `until` or the newest. Where
    several GPUs of a model measured a line, the one with most versions speaks for it."""
    by_pk = {each.series: each for each in these}
    rows, capped = _newest(by_pk)
    stacks = {
        pk: stack.components for pk, stack in Stack.objects.in_bulk({r["stack_id"] for r in rows}).items()
    }
    told = {pk: version_of(components) for pk, components in stacks.items()}
    every = sorted(set(told.values()), key=newest_order, reverse=True)
    first = every.index(until) if until in every else 0
    shown = every[first : first + versions]
    configurations = configuration_words(by_pk.values())
    chosen = _chosen(rows, by_pk, told, set(shown), configurations)
    points = _points(chosen[:most], by_pk, at, named, stacks, configurations)
    return Reading(points, shown, every, capped or len(chosen) > most)


def _newest(series: Collection[int]) -> tuple[list[Row], bool]:
    """Light rows: the newest of each series and stack, of invalid runs only where there is no other."""
    if not series:
        return [], False
    marked = Choice(When(run__invalid_reason__gt="", then=1), default=0)
    rows = (
        Measurement.objects.filter(series__in=list(series))
        .order_by("series_id", "stack_id", marked, "-measured_at", "-id")
        .distinct("series_id", "stack_id")
        .values("series_id", "stack_id", "id", "measured_at")
    )
    found: list[Row] = list(rows[: MAX_ROWS + 1])
    return found[:MAX_ROWS], len(found) > MAX_ROWS


def _chosen(
    rows: Sequence[Row],
    by_pk: Mapping[int, Held],
    told: Mapping[int, str],
    shown: Collection[str],
    configurations: Mapping[int, str],
) -> list[Row]:
    """One row a line and version, newest versions first."""
    lines: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        of = by_pk[row["series_id"]]
        lines[of.case, of.backend, configurations[of.series]].append(row)
    chosen: list[Row] = []
    for line in lines.values():
        spans = Counter(by_pk[row["series_id"]].target for row in line)

        def standing(row: Row, spans: Counter[int] = spans) -> tuple[Any, ...]:
            target = by_pk[row["series_id"]].target
            return spans[target], target, row["measured_at"], row["id"]

        best: dict[str, Row] = {}
        for row in line:
            version = told[row["stack_id"]]
            if version in shown and (version not in best or standing(row) > standing(best[version])):
                best[version] = row
        chosen += best.values()
    return sorted(chosen, key=lambda row: newest_order(told[row["stack_id"]]), reverse=True)


def _points(
    rows: Sequence[Row],
    by_pk: Mapping[int, Held],
    at: Mapping[int, Target],
    named: Mapping[int, str],
    stacks: Mapping[int, Mapping[str, str]],
    configurations: Mapping[int, str],
) -> list[Point]:
    columns = (
        "id", "measured_at", "series_id", "stack_id", "outcome", "flags", "median", "q1", "q3", "n", "timer",
        "flops", "bytes", "error", "run_id", "document_id", "run__invalid_reason",
    )  # fmt: skip
    found = Measurement.objects.filter(
        id__in=[row["id"] for row in rows], measured_at__in=[row["measured_at"] for row in rows]
    ).values(*columns, *(f"facts__{name}" for name in FACTS))
    full = list(found)
    documents = {
        row["pk"]: row
        for row in Document.objects.filter(pk__in={row["document_id"] for row in full}).values(
            "pk", "origin", "facts__costs"
        )
    }
    floors = _floors({by_pk[row["series_id"]].target for row in full})
    limits: dict[tuple[int, str], Limit | None] = {}
    points = []
    for row in full:
        of = by_pk[row["series_id"]]
        if (of.target, of.case.dtype) not in limits:
            limits[of.target, of.case.dtype] = limit_of(at[of.target], of.case.dtype)
        document = documents[row["document_id"]]
        invalid = row["run__invalid_reason"] or ""
        href, source = source_of(row)
        timed = row["median"] is not None
        points.append(
            Point(
                case=of.case,
                backend=of.backend,
                configuration=configurations[of.series],
                place=named[of.target],
                target=of.target,
                version=version_of(stacks[row["stack_id"]]),
                stack=stacks[row["stack_id"]],
                measurement=row["id"],
                measured_at=row["measured_at"],
                outcome=row["outcome"],
                flags=tuple(row["flags"]),
                mark=mark_of(row),
                remark=invalid or row["error"],
                n=row["n"],
                timer=row["timer"],
                time=(row["median"], row["q1"], row["q3"]) if timed else None,
                step=step_of({name: row[f"facts__{name}"] for name in FACTS}),
                flops=row["flops"],
                moved=row["bytes"],
                limit=limits[of.target, of.case.dtype],
                floor=_told_floor(document["facts__costs"] or {}) or floors.get(of.target),
                href=href,
                source=source,
                origin=document["origin"],
            )
        )
    by_case = sorted(points, key=_order)
    return sorted(by_case, key=lambda point: newest_order(point.version), reverse=True)


def _order(point: Point) -> tuple[Any, ...]:
    case = point.case
    return (
        case.model, case.layers, case.tp, case.ep, case.context, case.batch, point.backend,
        point.configuration,
    )  # fmt: skip


def _told_floor(costs: Mapping[str, Any]) -> float | None:
    """Seconds of an empty kernel as a document tells it."""
    names = [f"launch_floor_{timer}_seconds" for timer in FLOOR_TIMERS]
    return next((costs[name] for name in (*names, "launch_floor_seconds") if costs.get(name)), None)


def _floors(wanted: Collection[int]) -> dict[int, float]:
    """Seconds of an empty kernel by target: the newest good measurement, by the first of FLOOR_TIMERS."""
    rows = Latest.objects.filter(
        series__target__in=wanted,
        series__case__kind="empty_kernel",
        series__metric="time",
        good_median__isnull=False,
    ).values_list("series__target_id", "series__case__params", "good_median")
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for target, params, median in rows:
        found[target][str(params.get("timer"))] = float(median or 0)
    first = {
        target: next((by[timer] for timer in FLOOR_TIMERS if by.get(timer)), None)
        for target, by in found.items()
    }
    return {target: floor for target, floor in first.items() if floor is not None}


def configuration_words(these: Iterable[Held]) -> dict[int, str]:
    """What sets the configurations of these series apart, in words; "" where all are the same."""
    told = {each.series: each.settings for each in these}
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for settings in told.values():
        for name, value in settings.items():
            values[name][str(value)] += 1
    many = {name for name, seen in values.items() if len(seen) > 1 or seen.total() < len(told)}
    return {
        pk: ", ".join(f"{name.replace('_', ' ')} {settings.get(name, 'unknown')}" for name in sorted(many))
        for pk, settings in told.items()
    }


def samples(points: Iterable[Point]) -> dict[int, list[float]]:
    """The samples that were kept of these measurements, by measurement; seconds a step."""
    wanted = [point for point in points if not point.mark]
    rows = Sample.objects.filter(
        measurement_id__in=[point.measurement for point in wanted],
        measured_at__in=[point.measured_at for point in wanted],
    )
    return dict(rows.values_list("measurement_id", "values"))
