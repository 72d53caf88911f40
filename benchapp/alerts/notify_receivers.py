"""Listens to what happens to alerts. Messages are decided on after the commit: only then all that belongs to
an alert is there, and no fault of theirs undoes a detection."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.dispatch import receiver

from benchapp.alerts.deliveries import decide
from benchapp.alerts.models import Alert
from benchapp.alerts.signals import alert_closed, alert_opened, alert_updated


@receiver((alert_opened, alert_updated, alert_closed))
def tell(sender: type[Alert], alert: Alert, **kwargs: Any) -> None:
    # no partial: Django names what failed by its __qualname__
    transaction.on_commit(lambda: decide(alert.pk), robust=True)
