"""Every write on schedules. A row lock, and one row for each due time, decide who fires."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from benchapp.alerts.actions import raise_event
from benchapp.alerts.kinds import schedules as alerts
from benchapp.alerts.models import Event
from benchapp.fleet import asks, words
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Firing, Schedule
from benchapp.fleet.schedule_times import MOST_COUNTED, Times, length, times_of
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs.actions import PRIORITIES, Asked
from benchapp.runs.models import Document, Job, Run
from benchapp.runs.states import ACTIVE

logger = logging.getLogger(__name__)

#: A time that comes up later than this was missed: beat looks twice a minute.
LATE_S = 300
#: So many firings in a row without a job raise an event.
IDLE_FIRINGS = 3
#: Joined runs that a sentence names one by one.
MOST_NAMED = 5
WITHOUT_DATA = "schedule_without_data"
_Outcome = Firing.Outcome


def now() -> dt.datetime:
    """Postgres' time, which all of a deployment share."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    assert isinstance(moment, dt.datetime)
    return moment


def times(schedule: Schedule) -> Times:
    """When it is due. Intervals count from when the schedule was made. Raises BadTimes."""
    return times_of(schedule.cron, schedule.interval_s, schedule.timezone, schedule.created_at)


def tick(moment: dt.datetime | None = None) -> int:
    """Fire what is due, and look at what earlier firings yielded. Returns how many schedules fired.

    Two at once fire each due time once.
    """
    moment = moment or now()
    fired = 0
    for pk in Schedule.objects.filter(paused_at=None, next_due__lte=moment).values_list("pk", flat=True):
        try:
            fired += _fire_if_due(pk, moment)
        except Exception:
            # the others are due too; this one is tried again with the next tick
            logger.exception("schedule %s could not be fired", pk)
    check_firings()
    return fired


@transaction.atomic
def _fire_if_due(pk: int, moment: dt.datetime) -> bool:
    schedule = (
        Schedule.objects.select_for_update(skip_locked=True)
        .filter(pk=pk, paused_at=None, next_due__lte=moment)
        .first()
    )
    if schedule is None or schedule.next_due is None:
        return False
    when = times(schedule)
    due = [schedule.next_due, *when.between(schedule.next_due, moment)]
    late = (moment - due[-1]).total_seconds() > LATE_S
    missed = due if late else due[:-1]
    if not late or schedule.missed == Schedule.Missed.RUN:
        _fire(schedule, due[-1], _told_late(missed, due[-1], moment, late=late))
    if missed and schedule.missed == Schedule.Missed.SKIP:
        _record(schedule, missed[-1], _Outcome.MISSED, f"{_missed(missed)} and skipped.")
    schedule.next_due = when.next_due(moment)
    schedule.save(update_fields=["next_due"])
    return True


def _told_late(missed: list[dt.datetime], due: dt.datetime, moment: dt.datetime, *, late: bool) -> str:
    if not missed:
        return ""
    if len(missed) == 1 and late:
        return f"Run {length(int((moment - due).total_seconds() // 60 * 60))} late: it was missed."
    return f"{_missed(missed)}; this runs once for all of them."


def _missed(missed: list[dt.datetime]) -> str:
    if len(missed) == 1:
        return f"One due time, {words.moment(missed[0])}, was missed"
    number = f"{len(missed):,}" if len(missed) < MOST_COUNTED else f"More than {MOST_COUNTED:,}"
    return (
        f"{number} due times, from {missed[0]:%Y-%m-%d %H:%M} to {missed[-1]:%Y-%m-%d %H:%M} UTC, were missed"
    )


def _fire(schedule: Schedule, due: dt.datetime, sentence: str) -> Firing:
    before = _still_running(schedule) if schedule.skip_if_running else None
    if before is not None:
        said = f"Job {before.job_id} of {words.moment(before.due_at)} was still running. {sentence}"
        return _record(schedule, due, _Outcome.RUNNING, said.strip())
    key = f"schedule:{schedule.pk}:{due.isoformat(timespec='seconds')}"
    try:
        with transaction.atomic():
            asked = asks.request(Ask.from_json(schedule.ask), user=None, source=Job.Source.SCHEDULE, key=key)
    except ValidationError as error:
        return _record(schedule, due, _Outcome.REFUSED, " ".join(error.messages))
    return _record(schedule, due, _Outcome.ASKED, sentence, asked.job)


def _still_running(schedule: Schedule) -> Firing | None:
    active = Run.objects.filter(job=OuterRef("job"), state__in=ACTIVE)
    return schedule.firings.filter(Exists(active), by_hand=False).first()


def _record(
    schedule: Schedule, due: dt.datetime, outcome: Firing.Outcome, sentence: str, job: Job | None = None
) -> Firing:
    firing, _ = Firing.objects.get_or_create(
        schedule=schedule, due_at=due, defaults={"outcome": outcome, "sentence": sentence, "job": job}
    )
    if outcome != _Outcome.ASKED:
        _tell_idle(schedule)
    return firing


def _tell_idle(schedule: Schedule) -> None:
    """One event for a row of firings that asked for nothing."""
    by_clock = schedule.firings.filter(by_hand=False)
    asked = by_clock.filter(outcome=_Outcome.ASKED).first()
    idle = list(by_clock.filter(due_at__gt=asked.due_at) if asked else by_clock)
    if len(idle) >= IDLE_FIRINGS:
        raise_event(
            WITHOUT_DATA,
            Event.Severity.WARNING,
            subject=f"schedule {schedule.name}",
            sentence=f"The last {len(idle)} due times of the schedule {schedule.name} asked for nothing. "
            f"{Firing.Outcome(idle[0].outcome).label.capitalize()}: {idle[0].sentence}",
            dedupe_key=f"schedule_idle:{schedule.pk}:{idle[-1].pk}",
            payload={"schedule": schedule.pk},
        )


def check_firings() -> int:
    """Raise an event for each firing whose runs have all ended without data; how many there were.

    What was asked for by hand is watched by whoever asked.
    """
    active = Run.objects.filter(job=OuterRef("job"), state__in=ACTIVE)
    accepted = Document.objects.filter(run__job=OuterRef("job"), state=Document.State.ACCEPTED)
    barren = 0
    with transaction.atomic():
        ended = (
            Firing.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(~Exists(active), checked=False, outcome=_Outcome.ASKED, by_hand=False)
            .annotate(yielded=Exists(accepted))
            .select_related("schedule")
            .order_by("due_at")
        )
        for firing in ended:
            if firing.yielded:
                _tell_yielded(firing)
            else:
                barren += _tell_barren(firing)
        Firing.objects.filter(pk__in=[firing.pk for firing in ended]).update(checked=True)
    return barren


def _tell_yielded(firing: Firing) -> None:
    said = f"The schedule {firing.schedule.name}, due {words.moment(firing.due_at)}, yielded data"
    alerts.yielded(firing.schedule_id, f"{said}: job {firing.job_id}.")


def _tell_barren(firing: Firing) -> bool:
    return raise_event(
        WITHOUT_DATA,
        Event.Severity.WARNING,
        subject=f"schedule {firing.schedule.name}",
        sentence=f"The schedule {firing.schedule.name}, due {words.moment(firing.due_at)}, yielded no "
        f"data: every run of job {firing.job_id} ended without an accepted document.",
        dedupe_key=f"{WITHOUT_DATA}:{firing.pk}",
        payload={"schedule": firing.schedule_id, "job": firing.job_id},
    )


@transaction.atomic
def add(fields: dict[str, Any], user: User | None) -> Schedule:
    """A new schedule of cleaned fields: see `schedule_forms`. Raises BadTimes."""
    schedule = Schedule(**fields, created_by=user, created_at=now())
    schedule.next_due = times(schedule).next_due(now())
    schedule.save()
    audit.record(user, "add_schedule", f"schedule {schedule.name}", ask=schedule.ask, times=_times(schedule))
    return schedule


@transaction.atomic
def edit(schedule: Schedule, fields: dict[str, Any], user: User | None) -> Schedule:
    """Change it; what it fired stays. Times before now are not made up for. Raises BadTimes."""
    schedule = Schedule.objects.select_for_update().get(pk=schedule.pk)
    for name, value in fields.items():
        setattr(schedule, name, value)
    when = times(schedule)
    schedule.next_due = None if schedule.paused_at else when.next_due(now())
    schedule.save()
    audit.record(user, "edit_schedule", f"schedule {schedule.name}", ask=schedule.ask, times=_times(schedule))
    return schedule


def _times(schedule: Schedule) -> str:
    return times(schedule).in_words()


@transaction.atomic
def pause(schedule: Schedule, user: User | None) -> bool:
    """It is due no more until resumed. False if it was paused."""
    changed = Schedule.objects.filter(pk=schedule.pk, paused_at=None).update(paused_at=now(), next_due=None)
    if changed:
        audit.record(user, "pause_schedule", f"schedule {schedule.name}")
        alerts.paused(schedule.pk, f"The schedule {schedule.name} was paused.")
    return bool(changed)


@transaction.atomic
def resume(schedule: Schedule, user: User | None) -> bool:
    """Due again from now on; times that passed in between were not missed. False if it was not paused."""
    schedule = Schedule.objects.select_for_update().get(pk=schedule.pk)
    if schedule.paused_at is None:
        return False
    schedule.paused_at, schedule.next_due = None, times(schedule).next_due(now())
    schedule.save(update_fields=["paused_at", "next_due"])
    audit.record(user, "resume_schedule", f"schedule {schedule.name}")
    return True


@transaction.atomic
def run_now(schedule: Schedule, user: User | None) -> Firing:
    """Ask at once, beside its due times, as a person's wish; its sentence says what it only joined.

    Raises ValidationError.
    """
    asked = asks.request(
        Ask.from_json(schedule.ask),
        user=user,
        source=Job.Source.SCHEDULE,
        priority=PRIORITIES[Job.Source.PERSON],
    )
    audit.record(user, "run_schedule", f"schedule {schedule.name}", job=asked.job.pk)
    return Firing.objects.create(
        schedule=schedule,
        due_at=now(),
        outcome=_Outcome.ASKED,
        sentence=_joined(asked),
        by_hand=True,
        job=asked.job,
    )


def _joined(asked: Asked) -> str:
    """Which runs under way were joined; "" where all are new."""
    joined = [run.pk for run, created in asked.runs if not created]
    if not joined:
        return ""
    if len(joined) == 1:
        said = f"run {joined[0]}, which was under way already."
    elif len(joined) <= MOST_NAMED:
        said = f"runs {words.listed(joined)}, which were under way already."
    else:
        said = f"{words.count(len(joined), 'run')} that were under way already."
    return f"Asked for as job {asked.job.pk}, and joined {said}" if asked.created else f"Joined {said}"


@transaction.atomic
def delete(schedule: Schedule, user: User) -> None:
    """Raises ValidationError for one that has fired: its history is worth more than a short list."""
    schedule = Schedule.objects.select_for_update().get(pk=schedule.pk)  # so that it cannot fire meanwhile
    if schedule.firings.exists():
        raise ValidationError(
            f"{schedule.name} has fired before, and its history stays: pause it instead of deleting it."
        )
    audit.record(user, "delete_schedule", f"schedule {schedule.name}", ask=schedule.ask)
    schedule.delete()
