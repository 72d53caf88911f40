"""Listens to alerts and runs for confirming and bisecting."""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver

from benchapp.alerts import bisecting, confirm
from benchapp.alerts.models import Alert
from benchapp.alerts.signals import alert_closed, alert_opened, alert_updated
from benchapp.runs import broker
from benchapp.runs.models import Run
from benchapp.runs.signals import run_ended, run_judged


@receiver(alert_opened)
def confirm_it(sender: type[Alert], alert: Alert, **kwargs: Any) -> None:
    """Not here: its changes become the alert's after it is opened."""
    if alert.kind in confirm.KINDS:
        broker.ask_control(confirm.TASK)


@receiver(alert_updated)
def confirm_with_more(sender: type[Alert], alert: Alert, **kwargs: Any) -> None:
    confirm.look_again(alert)


@receiver(alert_closed)
def bisect_no_more(sender: type[Alert], alert: Alert, **kwargs: Any) -> None:
    bisecting.stop(alert)


@receiver(run_judged)
def what_decided_is_judged(sender: type[Run], run: Run, **kwargs: Any) -> None:
    confirm.judged(run)


@receiver(run_ended)
def confirming_ended(sender: type[Run], run: Run, **kwargs: Any) -> None:
    confirm.ended(run)
