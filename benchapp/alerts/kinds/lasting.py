"""Alerts about series that are in trouble: they know which still are, and close when none is.

An alert's `evidence` holds the series still in trouble (`series`), and what its sentence is about (`about`).
A series that some alert holds, also one that a person closed, is no news in any other: it opens nothing until
it was good again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.db import transaction

from benchapp.alerts.closing import resolve
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.locks import lock
from benchapp.catalog.versions import version_order

About = dict[str, Any]
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
    return {pk for alert in _holding(kind, place) for pk in alert.evidence["series"]}


def _holding(kind: Kind, place: str) -> list[Alert]:
    of_place = Alert.objects.filter(kind=kind.kind, evidence__about__place=place)
    return list(of_place.exclude(evidence__series=[]).order_by("pk"))


@transaction.atomic
def settle(kind: Kind, place: str, *, good: Mapping[int, str], found: Mapping[str, Trouble]) -> None:
    """Take good series (with the version that they are good in) from the alerts that hold them, close those
    that hold none any more, and open or join for what is new of `found`, by key."""
    held(kind, place)
    known: set[int] = set()
    for alert in _holding(kind, place):
        series, about = set(alert.evidence["series"]), alert.evidence["about"]
        since = version_order(about["after"])
        left = {pk for pk in series if pk not in good or version_order(good[pk]) < since}
        if left != series:
            _keep(kind, alert, left)
        known |= left
    for key, trouble in found.items():
        if new := trouble.series - known:
            joined = Alert.objects.filter(key=key, closed_at=None).first()
            about = joined.evidence["about"] if joined else trouble.about
            before = set(joined.evidence["series"]) if joined else set()
            open_or_join(kind.build(about, sorted(new | before)))


def _keep(kind: Kind, alert: Alert, left: set[int]) -> None:
    if left and alert.closed_at is None:
        open_or_join(kind.build(alert.evidence["about"], sorted(left)))
        return
    alert.evidence["series"] = sorted(left)
    alert.save(update_fields=["evidence"])
    if alert.closed_at is None:
        resolve(alert.key, kind.mended(alert.evidence["about"]))


def key_of(*parts: object) -> str:
    """A key of these parts that fits its column, however long they are."""
    key = ":".join(map(str, parts))
    return key if len(key) <= _LONGEST else f"{key[:120]}:{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def evidence(about: About, series: Collection[int], **shown: Any) -> dict[str, Any]:
    """What an alert of such a kind keeps; `shown` is for pages."""
    return {"about": about, "series": sorted(series), **shown}
