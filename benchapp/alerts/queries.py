"""Reads of alerts: the inbox and what stands beside it. The number of queries never grows with the rows."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Sequence

from django.core.paginator import Page, Paginator
from django.db import connection
from django.db.models import Avg, Case, Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, When
from django.db.models.functions import Abs, Ln
from django.utils import timezone

from benchapp.alerts import words
from benchapp.alerts.charts import SIDE, Sparkline, sparkline
from benchapp.alerts.models import Alert, BisectStep, Change, Watch
from benchapp.alerts.narrowing import asleep, decided, told
from benchapp.alerts.points import Point, in_order
from benchapp.catalog.models import Stack
from benchapp.runs.models import Measurement
from benchapp.runs.ranking import NEVER_RANKS, RANKED_OUTCOMES

ALERTS_A_PAGE = 25
#: Newest points that a sparkline is taken from.
NEWEST = 4 * SIDE
#: Series whose detection failed, that the inbox names.
FAILURES_SHOWN = 50
#: Suspects that a row names.
SUSPECTS_NAMED = 2
#: Alerts that the overview names, and alerts that a run's or a case's page leads to.
NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One alert of the inbox, ready to be shown. `change` is its strongest; None of what no series says."""

    alert: Alert
    change: Change | None
    changes: int
    line: Sparkline | None
    versions: list[str]
    more_versions: int

    @property
    def levels(self) -> tuple[str, str]:
        return words.change_levels(self.change) if self.change else ("", "")

    @property
    def ratio(self) -> str:
        return words.ratio(self.change.ratio if self.change else self.alert.ratio)

    @property
    def interval(self) -> str:
        return words.interval(self.change.low, self.change.high) if self.change else ""

    @property
    def metric(self) -> str:
        return words.metric_name(self.change.series.metric) if self.change else ""

    @property
    def chip(self) -> words.Chip:
        return words.chip(self.alert)

    @property
    def way(self) -> words.Chip:
        return words.direction(self.alert)

    @property
    def confirming(self) -> str:
        return words.confirming(self.alert)

    @property
    def suspects(self) -> list[tuple[str, str, str, str, str]]:
        return words.suspects(self.alert.suspects)[:SUSPECTS_NAMED]

    @property
    def asleep(self) -> str:
        return asleep_words(self.alert)


def asleep_words(alert: Alert) -> str:
    """Until when it is quiet; empty where it is awake."""
    if alert.snoozed_version:
        return f"until {alert.snoozed_component} {alert.snoozed_version}"
    if alert.snoozed_until is not None and alert.snoozed_until > timezone.now():
        return f"until {alert.snoozed_until:%Y-%m-%d %H:%M} UTC"
    return ""


def page(found: QuerySet[Alert], number: str | None) -> tuple[Page[Alert], list[Row]]:
    """One page, the costliest first. A number that is no page falls back."""
    ordered = found.select_related("host", "target__host", "stack_before", "stack_after", "assignee")
    shown = Paginator(ordered.order_by("-cost", "-id"), ALERTS_A_PAGE).get_page(number)
    alerts = list(shown.object_list)
    return shown, rows(alerts)


def rows(alerts: Sequence[Alert]) -> list[Row]:
    changes = strongest([alert.pk for alert in alerts])
    numbers = dict(
        Change.objects.filter(alert__in=alerts).order_by().values_list("alert").annotate(Count("id"))
    )
    points = newest_points({change.series_id for change in changes.values()})
    made = []
    for alert in alerts:
        change = changes.get(alert.pk)
        named, more = words.versions(alert)
        line = sparkline(points.get(change.series_id, []), change) if change else None
        made.append(Row(alert, change, numbers.get(alert.pk, 0), line, named, more))
    return made


#: |ln ratio| of a change; NULL of what is no ratio.
STRENGTH = Case(When(ratio__gt=0, ratio__lt=1e300, then=Abs(Ln("ratio"))))


def by_strength(changes: QuerySet[Change], *before: str) -> QuerySet[Change]:
    """The one that its alert speaks of, then those that go the alert's way, the strongest first, then the
    others; those that are found no longer stand last. With their series."""
    way = Case(When(ratio=F("alert__ratio"), then=0), When(worse=F("alert__worse"), then=1), default=2)
    ordered = changes.alias(strength=STRENGTH, gone=Q(gone_at__isnull=False), way=way)
    return ordered.select_related("series__case", "series__target__host").order_by(
        *before, "gone", "way", F("strength").desc(nulls_last=True), "id"
    )


def strongest(alert_ids: Collection[int]) -> dict[int, Change]:
    """The strongest change of each alert that has any."""
    found = by_strength(Change.objects.filter(alert__in=alert_ids), "alert_id").distinct("alert_id")
    return {change.alert_id: change for change in found if change.alert_id is not None}


def newest_points(series_ids: Collection[int]) -> dict[int, list[Point]]:
    """The newest observations of each series, in the order in which detection reads them; two queries."""
    if not series_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT wanted.id, found.* FROM unnest(%(series)s::bigint[]) AS wanted (id)
            CROSS JOIN LATERAL (
                SELECT m.measured_at, m.id, m.run_id, m.document_id, m.stack_id, m.median
                FROM runs_measurement m LEFT JOIN runs_run r ON r.id = m.run_id
                WHERE m.series_id = wanted.id AND m.outcome = ANY(%(outcomes)s)
                    AND NOT m.flags && %(never)s::varchar[] AND m.median > 0
                    AND coalesce(r.invalid_reason, '') = ''
                ORDER BY m.measured_at DESC, m.id DESC LIMIT %(newest)s
            ) found
            """,
            {
                "series": list(series_ids),
                "outcomes": list(RANKED_OUTCOMES),
                "never": [*NEVER_RANKS, "borrowed"],
                "newest": NEWEST,
            },
        )
        read: dict[int, list[Point]] = defaultdict(list)
        for series_id, at, number, run_id, document_id, stack_id, median in cursor.fetchall():
            point = Point(at, number, run_id, document_id, stack_id, median, doubtful=False, recorded=False)
            read[series_id].append(point)
    ids = {point.stack_id for points in read.values() for point in points}
    stacks = dict(Stack.objects.filter(pk__in=ids).values_list("pk", "components"))
    return {series_id: in_order(points, stacks) for series_id, points in read.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """How many open alerts there are, and which of them are told to nobody, and why."""

    open: int
    told: int
    worse: int
    recorded: int
    uncertain: int
    asleep: int


def standing() -> Standing:
    """Over all open alerts, in one query. Recorded ones count as such, whatever else they are."""
    awake = ~asleep()
    counted = Alert.objects.filter(closed_at=None).aggregate(
        n_open=Count("id"),
        n_told=Count("id", filter=told()),
        n_worse=Count("id", filter=told() & Q(worse=True)),
        n_recorded=Count("id", filter=awake & Q(recorded=True)),
        n_uncertain=Count("id", filter=awake & Q(recorded=False) & ~decided()),
        n_asleep=Count("id", filter=asleep()),
    )
    return Standing(**{name.removeprefix("n_"): number for name, number in counted.items()})


@dataclasses.dataclass(frozen=True, slots=True)
class Detecting:
    """How detection itself is doing."""

    series: int
    due: int
    oldest_due: dt.datetime | None
    newest_look: dt.datetime | None
    lag_s: float | None
    worst_lag_s: float | None
    failing: int
    muted: int


def detecting() -> Detecting:
    counted = Watch.objects.aggregate(
        n_series=Count("pk"),
        n_due=Count("pk", filter=Q(due_at__isnull=False)),
        n_oldest_due=Min("due_at"),
        n_newest_look=Max("looked_at"),
        n_lag_s=Avg("lag_s"),
        n_worst_lag_s=Max("lag_s"),
        n_failing=Count("pk", filter=Q(failure__gt="")),
        n_muted=Count("pk", filter=Q(muted=True)),
    )
    return Detecting(**{name.removeprefix("n_"): value for name, value in counted.items()})


def failures() -> list[Watch]:
    """Series that detection could not read, the newest first."""
    return list(
        Watch.objects.filter(failure__gt="")
        .select_related("series__case", "series__target")
        .order_by("-looked_at")[:FAILURES_SHOWN]
    )


def for_overview() -> list[Alert]:
    """The costliest of those that are told."""
    found = Alert.objects.filter(told()).select_related("host", "target")
    return list(found.order_by("-cost", "-id")[:NAMED])


def of_run(run_id: int) -> list[Alert]:
    """Alerts with a change whose first new value a run measured, and those that it was asked for to confirm
    or to bisect; the costliest first."""
    measured = Measurement.objects.filter(run=run_id)
    begun = Change.objects.filter(
        alert__isnull=False, series__in=measured.values("series"), at__in=measured.values("measured_at")
    )
    steps = BisectStep.objects.filter(run=run_id).values("bisect__alert")
    of = Q(pk__in=begun.values("alert")) | Q(confirm_run=run_id) | Q(pk__in=steps)
    return list(Alert.objects.filter(of).order_by("-cost", "-id")[:NAMED])


def of_case(target: str, kind: str, shape: str) -> list[Alert]:
    """Open alerts with a change of a case of this kind and shape on a target, the costliest first."""
    if not (target.isascii() and target.isdigit() and len(target) < 19) or "\0" in kind + shape:
        return []
    moved = Change.objects.filter(
        alert=OuterRef("pk"),
        series__target=int(target),
        series__case__kind=kind,
        series__case__shape=shape,
    )
    return list(Alert.objects.filter(Exists(moved), closed_at=None).order_by("-cost", "-id")[:NAMED])
