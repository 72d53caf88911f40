"""A schedule without data: one alert a schedule, joined by each further firing that yields none, closed by
one that does, or once the schedule is paused."""

from __future__ import annotations

from django.db import transaction

from benchapp.alerts.closing import resolve
from benchapp.alerts.models import Alert, Event
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.locks import lock

WITHOUT_DATA = "schedule_without_data"
#: Events of one alert whose sentences it keeps.
_KEPT = 20


def _key(schedule: int) -> str:
    return f"schedule:{schedule}"


@transaction.atomic
def without_data(event: Event) -> Alert:
    """Open or join the alert of the schedule that the event is about."""
    schedule = int(event.payload["schedule"])
    lock(f"kinds:{_key(schedule)}")
    open_one = Alert.objects.filter(key=_key(schedule), closed_at=None).first()
    told = [*(open_one.evidence["told"] if open_one else ()), event.sentence]
    times = (open_one.evidence["times_in_a_row"] if open_one else 0) + 1
    again = f" That is the {_ordinal(times)} time in a row." if times > 1 else ""
    alert, _ = open_or_join(
        Proposal(
            key=_key(schedule),
            kind=Alert.Kind.SCHEDULE,
            title=f"{event.subject[:1].upper()}{event.subject[1:]} yields no data",
            sentence=f"{event.sentence}{again}",
            event=event,
            evidence={"times_in_a_row": times, "told": told[-_KEPT:]},
        )
    )
    return alert


def yielded(schedule: int, sentence: str) -> Alert | None:
    """Close the alert of a schedule whose firing brought data; None where none is open."""
    return resolve(_key(schedule), sentence)


def paused(schedule: int, sentence: str) -> Alert | None:
    """Close the alert of a schedule that fires no more: no data is waited for. None where none is open."""
    return resolve(_key(schedule), sentence, Alert.State.WONT_FIX)


def _ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
