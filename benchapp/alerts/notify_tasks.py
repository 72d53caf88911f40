"""The chore of the control worker that sends messages."""

from __future__ import annotations

from celery import shared_task

from benchapp.alerts import deliveries, sending


@shared_task(name=deliveries.TASK)  # type: ignore[untyped-decorator,unused-ignore]
def deliver() -> None:
    deliveries.catch_up()
    sending.deliver()
