"""The chore of the control worker that looks at series."""

from __future__ import annotations

from celery import shared_task

from benchapp.alerts import watching


@shared_task(name=watching.LOOK_TASK)  # type: ignore[untyped-decorator,unused-ignore]
def look() -> None:
    watching.look_at_due()
