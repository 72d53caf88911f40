"""A host's drift: a GPU that grows slower over weeks, or is slower than its siblings, by reference cases.

Reference cases alone are looked at, and only points that one torch, cuBLAS, driver and toolkit made: what
moves them then is the GPU and its surroundings. A step is detection's: a trend is of the points after the
last one found. One alert a GPU, closed once none of this holds any more.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.alerts.closing import resolve
from benchapp.alerts.kinds import drift_stats, words
from benchapp.alerts.kinds.reference import base_of, is_reference, reference_series
from benchapp.alerts.kinds.words import percent, seconds
from benchapp.alerts.models import Alert, Change
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.models import Series, Stack, Target
from benchapp.runs.models import Document, Measurement
from benchapp.runs.ranking import ranked

#: A trend is looked for in so many days; GPUs are compared over the newest of these.
WINDOW = dt.timedelta(days=60)
LATELY = dt.timedelta(days=14)
_S_A_DAY = 86_400.0
IMPORTANCE = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Points:
    """A reference series' points of one base, the oldest first."""

    series: Series
    base: tuple[str, ...]
    at: list[dt.datetime]
    seconds: list[float]
    recorded: bool


@dataclasses.dataclass(frozen=True, slots=True)
class _Finding:
    points: _Points
    ratio: float
    sentence: str


def sweep() -> None:
    """Look at every GPU whose reference cases were measured of late. Cheap: a row a night, GPU and case."""
    now = timezone.now()
    points = _points(now)
    findings: dict[int, list[_Finding]] = defaultdict(list)
    for each in points:
        if (found := _trend(each)) is not None:
            findings[each.series.target_id].append(found)
    for found in _slower(points, now):
        findings[found.points.series.target_id].append(found)
    for target_id in {each.series.target_id for each in points}:
        _tell(target_id, findings.get(target_id, []))


def _points(now: dt.datetime) -> list[_Points]:
    gpus = Series.objects.filter(
        reference_series(), metric="time", target__kind=Target.Kind.GPU, latest__measured_at__gte=now - WINDOW
    )
    series = {
        each.pk: each
        for each in gpus.select_related("case", "target__host")
        if is_reference(each.case, each.backend)
    }
    stepped = dict(
        Change.objects.filter(series__in=series, certain=True, gone_at=None)
        .values_list("series")
        .annotate(Max("at"))
    )
    rows = (
        Measurement.objects.filter(ranked(), series__in=series, measured_at__gte=now - WINDOW, median__gt=0)
        .exclude(flags__overlap=["imported", "borrowed"])
        .exclude(document__origin=Document.Origin.IMPORT)
        .order_by("measured_at", "id")
        .values_list("series", "stack", "measured_at", "median", "document__origin")
    )
    read: dict[int, list[tuple[int, dt.datetime, float, str]]] = defaultdict(list)
    for pk, stack, at, median_s, origin in rows:
        if median_s is not None and at >= stepped.get(pk, at):
            read[pk].append((stack, at, median_s, origin))
    stacks = {stack for of_series in read.values() for stack, *_ in of_series}
    bases = {pk: base_of(c) for pk, c in Stack.objects.filter(pk__in=stacks).values_list("pk", "components")}
    found = []
    for pk, of_series in read.items():
        base = bases[of_series[-1][0]]
        same = [row for row in of_series if bases[row[0]] == base]
        found.append(
            _Points(
                series[pk],
                base,
                [at for _, at, _, _ in same],
                [median_s for _, _, median_s, _ in same],
                all(origin == Document.Origin.RECORDED for *_, origin in same),
            )
        )
    return found


def _trend(points: _Points) -> _Finding | None:
    trend = drift_stats.trend([at.timestamp() / _S_A_DAY for at in points.at], points.seconds)
    if trend is None or not trend.is_drift:
        return None
    return _Finding(
        points,
        trend.ratio,
        f"{points.series.case.label} by {points.series.backend} grew {percent(trend.ratio - 1)} slower over "
        f"{trend.days:.0f} days (99.9 % interval {percent(trend.low - 1)} to {percent(trend.high - 1)}, "
        f"{trend.points:,} measurements)",
    )


def _slower(points: Iterable[_Points], now: dt.datetime) -> list[_Finding]:
    alike: dict[tuple[object, ...], dict[str, tuple[_Points, float]]] = defaultdict(dict)
    for each in points:
        lately = [s for at, s in zip(each.at, each.seconds, strict=True) if at >= now - LATELY]
        if lately:
            of = each.series
            key = (of.target.model, of.configuration_id, of.case_id, of.backend, each.base)
            alike[key][of.target.key] = each, median(lately)
    found = []
    for gpus in alike.values():
        levels = {name: level for name, (_, level) in gpus.items()}
        for name, ratio in drift_stats.slower_than_siblings(levels).items():
            own, level = gpus[name]
            others = median(other for who, other in levels.items() if who != name)
            found.append(
                _Finding(
                    own,
                    ratio,
                    f"{own.series.case.label} by {own.series.backend} takes {seconds(level)}, "
                    f"{percent(ratio - 1)} more than on {len(levels) - 1} other GPUs like it "
                    f"({seconds(others)})",
                )
            )
    return found


@transaction.atomic
def _tell(target_id: int, findings: list[_Finding]) -> None:
    key = f"drift:{target_id}"
    if not findings:
        resolve(key, "Its reference cases show no drift any more.")
        _forget(key)
        return
    target = Target.objects.select_related("host").get(pk=target_id)
    who = f"{target.uuid or target.key} on {target.host or 'an unknown host'}"
    findings = sorted(findings, key=lambda each: -each.ratio)
    seen = sorted({f"{each.points.series.case.label} by {each.points.series.backend}" for each in findings})
    proposal = Proposal(
        key=key,
        kind=Alert.Kind.DRIFT,
        title=f"{target} drifts: {who}",
        sentence=f"{target} {who} is slower than it was or than others like it: "
        f"{words.listed([each.sentence for each in findings])}.",
        ratio=findings[0].ratio,
        importance=IMPORTANCE,
        recorded=all(each.points.recorded for each in findings),
        host=target.host,
        target=target,
        evidence={"kept": {"cases": seen}, "told": [each.sentence for each in findings[: words.SHOWN]]},
    )
    if _is_news(key, seen):
        open_or_join(proposal)


def _is_news(key: str, seen: list[str]) -> bool:
    """Whether the reference cases are others than those that the alert tells of, or that a person closed it
    over and that drifted ever since; figures that move by the hour are no news."""
    last = Alert.objects.filter(key=key).order_by("-pk").first()
    return last is None or not set(seen) <= set(last.evidence["kept"]["cases"])


def _forget(key: str) -> None:
    """Nothing drifts: whatever does from now on is news, also after a person closed the alert."""
    last = Alert.objects.filter(key=key).order_by("-pk").first()
    if last is not None and last.evidence["kept"]["cases"]:
        last.evidence["kept"]["cases"] = []
        last.save(update_fields=["evidence"])
