"""Wakes snoozed alerts when their time has come, or the version that they wait for was measured."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.alerts.confirm_plan import plain
from benchapp.alerts.confirm_rows import locked
from benchapp.alerts.models import Alert, Change
from benchapp.alerts.opening import note
from benchapp.alerts.signals import alert_updated
from benchapp.catalog.models import Series, Stack
from benchapp.catalog.versions import version_order
from benchapp.runs.models import Document


def wake_snoozed() -> int:
    """Wake every alert whose time or version has come; how many."""
    asleep = Alert.objects.filter(closed_at=None).exclude(snoozed_until=None, snoozed_version="")
    return sum(_wake(alert.pk) for alert in asleep if _reason(alert))


@transaction.atomic
def _wake(pk: int) -> bool:
    """False where somebody woke, closed or snoozed it anew meanwhile."""
    alert = locked(pk)
    reason = "" if alert.closed_at else _reason(alert)
    if not reason:
        return False
    alert.snoozed_until, alert.snoozed_component, alert.snoozed_version = None, "", ""
    alert.save(update_fields=["snoozed_until", "snoozed_component", "snoozed_version"])
    note(alert, "snooze", reason)
    alert_updated.send(sender=Alert, alert=alert, what=reason)
    return True


def _reason(alert: Alert) -> str:
    """Why it wakes, as a sentence; "" while it sleeps on, or is awake."""
    if alert.snoozed_until is not None and alert.snoozed_until <= timezone.now():
        return f"Awake again: it was snoozed until {alert.snoozed_until:%Y-%m-%d %H:%M} UTC."
    component, version = alert.snoozed_component, alert.snoozed_version
    if not version:
        return ""
    wanted = version_order(plain(version))
    come = [each for each in _measured(alert, component) if version_order(plain(each)) >= wanted]
    return f"Awake again: {component} {max(come, key=version_order)} was measured." if come else ""


def _measured(alert: Alert, component: str) -> Iterator[str]:
    """Versions of a component that were measured where the alert is of."""
    targets = Series.objects.filter(pk__in=Change.objects.filter(alert=alert).values("series")).values(
        "target"
    )
    where = Q(target__in=targets) | Q(target=alert.target_id) if alert.target_id else Q(target__in=targets)
    documents = Document.objects.filter(where, state=Document.State.ACCEPTED, stack__isnull=False)
    stacks = Stack.objects.filter(pk__in=documents.order_by().values("stack").distinct())
    for components in stacks.values_list("components", flat=True):
        if component in components:
            yield str(components[component])
