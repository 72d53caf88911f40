"""Closes alerts that nobody closes: their thing is mended, or was refuted."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from benchapp.alerts.models import Alert
from benchapp.alerts.opening import note
from benchapp.alerts.signals import alert_closed
from benchapp.catalog.locks import lock


@transaction.atomic
def resolve(key: str, sentence: str, state: Alert.State = Alert.State.FIXED) -> Alert | None:
    """Close the open alert of a key as `state`, one that is closed; None where there is none.

    `sentence` says why, and stands in its history.
    """
    lock(f"alert:{key}")
    alert = Alert.objects.select_for_update().filter(key=key, closed_at=None).first()
    if alert is None:
        return None
    alert.state, alert.closed_at = state, timezone.now()
    alert.snoozed_until, alert.snoozed_component, alert.snoozed_version = None, "", ""
    alert.save(update_fields=["state", "closed_at", "snoozed_until", "snoozed_component", "snoozed_version"])
    note(alert, "closed", sentence)
    alert_closed.send(sender=Alert, alert=alert)
    return alert


def closed_itself(alert: Alert) -> bool:
    """Whether a closed alert was closed by `resolve`, and by no person."""
    last = alert.entries.filter(action__in=("state", "closed")).last()
    return last is not None and last.action == "closed"
