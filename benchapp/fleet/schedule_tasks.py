"""What beat asks of the control worker by the clock. `benchapp.fleet.tasks` registers it."""

from __future__ import annotations

from celery import shared_task

from benchapp.fleet import releases, schedules


@shared_task(name="fleet.tick")  # type: ignore[untyped-decorator,unused-ignore]
def tick() -> None:
    schedules.tick()


@shared_task(name="fleet.watch_releases")  # type: ignore[untyped-decorator,unused-ignore]
def watch_releases() -> None:
    releases.watch()
