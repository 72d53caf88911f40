"""Which alerts the inbox shows: by its filters, and by who is told of them."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from benchapp.alerts.forms import ME, NOBODY, AlertFilters
from benchapp.alerts.models import Alert, Change
from benchapp.catalog.models import Host, Target
from benchapp.people.models import User

Verdict = Alert.Verdict
CONFIRMED = (Verdict.SLOW, Verdict.FAST)
#: Kinds that an A/B decides, or measuring again.
DECIDED_BY_RUNS = (Alert.Kind.STACK, Alert.Kind.MACHINE, Alert.Kind.BUILD)
#: So long a certain one of these waits to be decided before it is told without: its host may be away.
HOLD = dt.timedelta(hours=24)


def asleep() -> Q:
    return Q(snoozed_until__gt=timezone.now()) | Q(snoozed_version__gt="")


def decided() -> Q:
    """Of alerts: confirmed by a run; or certain, and no run said or will soon say more of it."""
    waiting = Q(
        kind__in=DECIDED_BY_RUNS,
        confirm__in=(Alert.Confirm.NONE, Alert.Confirm.ASKED),
        opened_at__gt=timezone.now() - HOLD,
    )
    return Q(verdict__in=CONFIRMED) | (Q(certain=True, verdict=Verdict.NONE) & ~waiting)


def told() -> Q:
    """Of alerts: whether people are told of it: open, measured here, awake, and decided."""
    return Q(closed_at=None, recorded=False) & ~asleep() & decided()


def sure(which: str) -> Q:
    """Of alerts: how sure they are, see `forms.SURE`. Each alert is one of the four."""
    if which == "confirmed":
        return Q(verdict__in=CONFIRMED)
    if which == "refuted":
        return Q(verdict=Verdict.SAME)
    if which == "certain":
        return Q(verdict=Verdict.NONE) & decided()
    return ~decided() & ~Q(verdict=Verdict.SAME)


def in_state(which: str) -> Q:
    if which == "all":
        return Q()
    if which == "closed":
        return Q(closed_at__isnull=False)
    if which == "snoozed":
        return Q(closed_at=None) & asleep()
    awake = Q(closed_at=None) & ~asleep()
    return awake if which == "open" else awake & Q(state=which)


def narrowed(filters: AlertFilters, user: object) -> QuerySet[Alert]:
    values = filters.values
    found = Alert.objects.filter(in_state(values["state"]))
    if values["kind"]:
        found = found.filter(kind=values["kind"])
    if values["gpu"]:
        of_changes = Change.objects.filter(alert=OuterRef("pk"), series__target__model=values["gpu"])
        found = found.filter(Q(target__model=values["gpu"]) | Exists(of_changes))
    if values["host"]:
        of_changes = Change.objects.filter(alert=OuterRef("pk"), series__target__host__name=values["host"])
        found = found.filter(
            Q(host__name=values["host"]) | Q(target__host__name=values["host"]) | Exists(of_changes)
        )
    if values["version"]:
        found = found.filter(_of_version(values["version"]))
    if values["who"] == NOBODY:
        found = found.filter(assignee=None)
    elif values["who"] == ME and isinstance(user, User):
        found = found.filter(assignee=user)
    elif values["who"]:
        found = found.filter(assignee__username=values["who"])
    if values["way"]:
        found = found.filter(worse=values["way"] == "worse")
    if values["sure"]:
        found = found.filter(sure(values["sure"]))
    if values["recorded"]:
        found = found.filter(recorded=values["recorded"] == "yes")
    if values["q"]:
        of_changes = Change.objects.filter(
            Q(series__case__label__icontains=values["q"]) | Q(series__backend__icontains=values["q"]),
            alert=OuterRef("pk"),
        )
        found = found.filter(
            Q(title__icontains=values["q"]) | Q(sentence__icontains=values["q"]) | Exists(of_changes)
        )
    return found


def _of_version(asked: str) -> Q:
    """Alerts one of whose suspects is this component, has this version on a side, or both."""
    first, _, second = asked.partition(" ")
    if not second:
        return (
            Q(suspects__contains=[{"component": first}])
            | Q(suspects__contains=[{"before": first}])
            | Q(suspects__contains=[{"after": first}])
        )
    return Q(suspects__contains=[{"component": first, "before": second}]) | Q(
        suspects__contains=[{"component": first, "after": second}]
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Offers:
    """What the filters of the inbox can ask for."""

    gpus: list[str]
    hosts: list[str]
    people: list[str]


def offers() -> Offers:
    of_targets = Exists(Alert.objects.filter(target=OuterRef("pk"))) | Exists(
        Change.objects.filter(alert__isnull=False, series__target=OuterRef("pk"))
    )
    targets = list(Target.objects.filter(of_targets).values_list("model", "host__name"))
    hosts = set(
        Host.objects.filter(Exists(Alert.objects.filter(host=OuterRef("pk")))).values_list("name", flat=True)
    )
    owners = User.objects.filter(Exists(Alert.objects.filter(assignee=OuterRef("pk"))))
    return Offers(
        sorted({model for model, _ in targets if model}),
        sorted(hosts | {host for _, host in targets if host}),
        sorted(owners.values_list("username", flat=True)),
    )
