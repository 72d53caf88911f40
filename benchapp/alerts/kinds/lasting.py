"""Alerts about series that are in trouble: they know which still are, and close when none is.

An alert's `evidence` keeps (in `kept`, which no page shows) the series still in trouble and what its sentence
is about. A case and backend that some alert holds, also one that a person closed, is no news: on another GPU
of the place or with another version it joins that alert, and it opens none until it was good again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from django.db import transaction

from benchapp.alerts.closing import resolve
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Series
from benchapp.catalog.versions import version_order

About = dict[str, Any]
#: (case, backend, metric)
_Same = tuple[int, str, str]
#: Of a key.
_LONGEST = 200


@dataclasses.dataclass(slots=True)
class Trouble:
    """What an alert is about, and the series newly in trouble. `about["after"]` is a version."""

    about: About
    series: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of such alerts. `build` words an alert of these series; `mended` closes one."""

    kind: Alert.Kind
    key: Callable[[About], str]
    build: Callable[[About, Collection[int]], Proposal]
    mended: Callable[[About], str]


def held(kind: Kind, place: str) -> set[int]:
    """Series that alerts of this kind and place hold. Other tasks wait from here to the transaction's end."""
    lock(f"kinds:{kind.kind}:{place}")
    return {pk for alert in _holding(kind, place) for pk in alert.evidence["kept"]["series"]}


def _holding(kind: Kind, place: str) -> list[Alert]:
    of_place = Alert.objects.filter(kind=kind.kind, evidence__kept__about__place=place)
    return list(of_place.exclude(evidence__kept__series=[]).order_by("pk"))


@transaction.atomic
def settle(kind: Kind, place: str, *, good: Mapping[int, str], found: Mapping[str, Trouble]) -> None:
    """Take good series (with the version that they are good in) from the alerts that hold them, close those
    that hold none any more, and open or join for what is new of `found`, by key."""
    held(kind, place)
    keeps: dict[int, int] = {}
    for alert in _holding(kind, place):
        series, about = set(alert.evidence["kept"]["series"]), alert.evidence["kept"]["about"]
        since = version_order(about["after"])
        left = {pk for pk in series if pk not in good or version_order(good[pk]) < since}
        if left != series:
            _keep(kind, alert, left)
        keeps |= dict.fromkeys(left, alert.pk)
    siblings = _siblings(keeps)
    for key, trouble in found.items():
        new = trouble.series - keeps.keys()
        for alert_id, series in _by_alert(new, siblings).items():
            alert = Alert.objects.get(pk=alert_id)
            _keep(kind, alert, series | set(alert.evidence["kept"]["series"]))
            new -= series
        if new:
            joined = Alert.objects.filter(key=key, closed_at=None).first()
            about = joined.evidence["kept"]["about"] if joined else trouble.about
            before = set(joined.evidence["kept"]["series"]) if joined else set()
            open_or_join(kind.build(about, sorted(new | before)))


def _siblings(keeps: Mapping[int, int]) -> dict[_Same, int]:
    """Which alert holds a case and backend."""
    return {same: keeps[pk] for pk, same in _same(keeps)}


def _by_alert(new: Collection[int], siblings: Mapping[_Same, int]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for pk, same in _same(new):
        if same in siblings:
            found[siblings[same]].add(pk)
    return found


def _same(series: Collection[int]) -> Iterator[tuple[int, _Same]]:
    rows = Series.objects.filter(pk__in=series).values_list("pk", "case_id", "backend", "metric")
    for pk, case, backend, metric in rows:
        yield pk, (case, backend, metric)


def distinct(series: Collection[int]) -> list[Series]:
    """One series of each case and backend, however many GPUs they are of, in the order of their words."""
    found = Series.objects.filter(pk__in=series).select_related("case").order_by("-pk")
    single = {(each.case_id, each.backend, each.metric): each for each in found}
    return sorted(single.values(), key=lambda each: (each.backend, each.case.label, each.metric))


def _keep(kind: Kind, alert: Alert, left: set[int]) -> None:
    if left and alert.closed_at is None:
        open_or_join(kind.build(alert.evidence["kept"]["about"], sorted(left)))
        return
    alert.evidence["kept"]["series"] = sorted(left)
    alert.save(update_fields=["evidence"])
    if alert.closed_at is None:
        resolve(alert.key, kind.mended(alert.evidence["kept"]["about"]))


def key_of(*parts: object) -> str:
    """A key of these parts that fits its column, however long they are."""
    key = ":".join(map(str, parts))
    return key if len(key) <= _LONGEST else f"{key[:120]}:{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def evidence(about: About, series: Collection[int], **shown: Any) -> dict[str, Any]:
    """What an alert of such a kind keeps; `shown` is for pages. `model` names the models of its cases, where
    these are whole models or their layers: routes of channels go by it."""
    named = Series.objects.filter(pk__in=series, case__params__model__isnull=False)
    models = sorted(set(named.values_list("case__params__model", flat=True)))
    return {
        "kept": {"about": about, "series": sorted(series)},
        **({"model": models} if models else {}),
        **shown,
    }
