"""Chores of the control worker for the fleet."""

from __future__ import annotations

from celery import shared_task

from benchapp.fleet import builds, releases, reports, schedules
from benchapp.fleet.work import REPORTS_TASK


@shared_task(name=REPORTS_TASK)  # type: ignore[untyped-decorator,unused-ignore]
def take_reports() -> None:
    reports.take_reports()
    builds.ask_for_builds()


@shared_task(name=builds.TASK)  # type: ignore[untyped-decorator,unused-ignore]
def ask_for_builds() -> None:
    builds.ask_for_builds()


@shared_task(name="fleet.tick")  # type: ignore[untyped-decorator,unused-ignore]
def tick() -> None:
    schedules.tick()


@shared_task(name="fleet.watch_releases")  # type: ignore[untyped-decorator,unused-ignore]
def watch_releases() -> None:
    releases.watch()
