"""All that the page of one alert shows; the number of queries does not grow with its changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Prefetch, Q
from django.urls import reverse

from benchapp.alerts import points as observed
from benchapp.alerts import words
from benchapp.alerts.charts import DRAWN, Row, chart, split_of
from benchapp.alerts.models import Alert, Bisect, BisectStep, Change, Comparison, Entry, Watch
from benchapp.alerts.points import Point
from benchapp.alerts.queries import by_strength
from benchapp.alerts.suspects import differences
from benchapp.catalog.models import Series, Stack
from benchapp.runs.models import Document
from benchapp.runs.queries import repeat_command, source_of
from benchapp.trends.components import varying, version_of

CHANGES_SHOWN, COMPARISONS_SHOWN, ENTRIES_SHOWN, BISECTS_SHOWN = 50, 50, 200, 10


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """One change of the table."""

    change: Change

    @property
    def levels(self) -> tuple[str, str]:
        return words.change_levels(self.change)

    @property
    def ratio(self) -> str:
        return words.ratio(self.change.ratio)

    @property
    def interval(self) -> str:
        return words.interval(self.change.low, self.change.high)

    @property
    def metric(self) -> str:
        return words.metric_name(self.change.series.metric)

    @property
    def known(self) -> bool:
        """Whether a person took its new level as the baseline."""
        watch: Watch | None = getattr(self.change.series, "watch", None)
        return watch is not None and watch.known_from is not None and self.change.at <= watch.known_from

    @property
    def href(self) -> str:
        return trends_of(self.change.series)


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """One row of the table of A/Bs."""

    comparison: Comparison

    @property
    def chip(self) -> words.Chip:
        return words.verdict_chip(self.comparison.verdict)

    @property
    def ratio(self) -> str:
        return words.ratio(self.comparison.ratio)

    @property
    def interval(self) -> str:
        return words.interval(self.comparison.low, self.comparison.high)

    @property
    def metric(self) -> str:
        return words.metric_name(self.comparison.metric)

    @property
    def versions(self) -> str:
        """What differs between both sides, most of all."""
        old, new = self.comparison.old_stack, self.comparison.new_stack
        told = [str(each) for each in differences(old.components, new.components)]
        more = f" and {len(told) - 2} more" if len(told) > 2 else ""
        return f"{', '.join(told[:2])}{more}" if told else "one stack"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What stands on one side of the strongest change: its stack, and where its last values come from."""

    name: str
    stack: Stack | None
    href: str
    source: str
    command: str


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """The strongest change's series."""

    change: Change
    rows: list[Row]
    chart: dict[str, Any] | None
    component: str


def alert_or_none(alert_id: int) -> Alert | None:
    related = ("host", "target__host", "stack_before", "stack_after", "assignee", "event")
    return Alert.objects.select_related(*related).filter(pk=alert_id).first()


def changes(alert: Alert, most: int | None = CHANGES_SHOWN) -> list[Moved]:
    return [Moved(change) for change in by_strength(alert.changes.select_related("series__watch"))[:most]]


def counted(alert: Alert) -> dict[str, int]:
    """How many changes there are, are worse, certain, and found no longer."""
    return alert.changes.aggregate(
        all=Count("id"),
        worse=Count("id", filter=Q(worse=True)),
        certain=Count("id", filter=Q(certain=True)),
        gone=Count("id", filter=Q(gone_at__isnull=False)),
    )


def trends_of(series: Series) -> str:
    """The address of what a series' case did over time."""
    case = series.case
    asked = {
        "view": "modules" if case.kind == "jit_module" else "time",
        "target": series.target_id,
        "kind": case.kind,
        "shape": case.shape,
        "dtype": case.dtype,
        "backend": series.backend,
        "m": case.size,
    }
    if asked["view"] == "modules":
        asked = {"view": "modules"}
    told = {name: value for name, value in asked.items() if value not in (None, "")}
    return f"{reverse('trends:index')}?{urlencode(told)}"


def drawn(alert: Alert, change: Change) -> Drawn:
    """The series of a change as detection reads it, some hundred points on either side."""
    found = observed.of_series(change.series_id, None)
    split = split_of(found, change)
    middle = len(found) if split is None else split
    shown = found[max(0, middle - DRAWN) : middle + DRAWN]
    stacks = dict(
        Stack.objects.filter(pk__in={point.stack_id for point in shown}).values_list("pk", "components")
    )
    differs = words.differing(alert)
    component = differs[0].component if differs else _first_component(stacks)
    first = found[split].measurement_id if split is not None else None
    rows, new = [], False
    for point in shown:
        new = new or point.measurement_id == first
        rows.append(_row(point, stacks, component, new=new))
    return Drawn(change, rows, chart(rows, change), component)


def _first_component(stacks: Mapping[int, Mapping[str, str]]) -> str:
    components = varying(stacks.values())
    return components[0][0] if components else ""


def _row(point: Point, stacks: Mapping[int, Mapping[str, str]], component: str, *, new: bool) -> Row:
    href, source = source_of({"run_id": point.run_id, "document_id": point.document_id})
    return Row(point, version_of(stacks.get(point.stack_id, {}), component), href, source, new)


def sides(alert: Alert, drawn: Drawn | None) -> list[Side]:
    """Before and after: the newest point of each, and the command that repeats it."""
    old = [row for row in drawn.rows if not row.new] if drawn else []
    new = [row for row in drawn.rows if row.new] if drawn else []
    ends = [old[-1] if old else None, new[0] if new else None]
    documents = Document.objects.defer("body").in_bulk([row.point.document_id for row in ends if row])
    named = zip(("before", "after"), (alert.stack_before, alert.stack_after), ends, strict=True)
    return [
        Side(
            name,
            stack,
            row.href if row else "",
            row.source if row else "",
            repeat_command(documents.get(row.point.document_id)) if row else "",
        )
        for name, stack, row in named
    ]


def comparisons(alert: Alert) -> tuple[list[Compared], int]:
    """(the newest A/Bs, how many there are)."""
    every = alert.comparisons.select_related("case", "target", "old_stack", "new_stack", "run")
    shown = [Compared(each) for each in every.order_by("-id")[:COMPARISONS_SHOWN]]
    return shown, len(shown) if len(shown) < COMPARISONS_SHOWN else alert.comparisons.count()


def bisects(alert: Alert) -> list[Bisect]:
    steps = BisectStep.objects.select_related("comparison", "run").order_by("number")
    every = alert.bisects.select_related("asked_by", "series__case")
    return list(every.prefetch_related(Prefetch("steps", queryset=steps)).order_by("-id")[:BISECTS_SHOWN])


def history(alert: Alert) -> list[Entry]:
    """The newest first."""
    return list(alert.entries.order_by("-id")[:ENTRIES_SHOWN])


def watch_of(change: Change | None) -> Watch | None:
    return Watch.objects.filter(series=change.series_id).first() if change else None
