"""The chores of the control worker that tell people of alerts."""

from __future__ import annotations

from celery import shared_task

from benchapp.alerts import deliveries, sending


@shared_task(name=deliveries.TASK)  # type: ignore[untyped-decorator,unused-ignore]
def deliver() -> None:
    sending.deliver()


@shared_task(name=deliveries.BEAT_TASK)  # type: ignore[untyped-decorator,unused-ignore]
def tell() -> None:
    deliveries.catch_up()
    sending.deliver()
