"""What pages and commands tell of schedules and of jobs that were asked for by themselves."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from django.core.exceptions import ValidationError
from django.db.models import Count
from django.utils import timezone

from benchapp.fleet import job_words, schedules
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Firing, Schedule
from benchapp.fleet.schedule_times import BadTimes
from benchapp.runs.models import Run


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """A due time, and how the clock on the wall of the schedule's zone shows it."""

    at: dt.datetime
    wall: str


@dataclasses.dataclass(frozen=True, slots=True)
class JobState:
    """How far a job has come. `run` is a run to look at: one that failed, else the first."""

    words: str
    #: the class of its tag
    look: str
    run: int
    runs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Fired:
    firing: Firing
    #: None where it asked for nothing
    job: JobState | None


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    schedule: Schedule
    #: what it asks for, in words; None where that can no longer be read
    ask: Ask | None
    when: str
    upcoming: list[Due]
    last: Fired | None


def job_states(jobs: Iterable[int]) -> dict[int, JobState]:
    """By job. One query."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    first: dict[int, int] = {}
    failed: dict[int, int] = {}
    found = Run.objects.filter(job__in=set(jobs)).order_by("pk").values_list("job", "state", "pk")
    for job, state, run in found:
        counts[job][state] += 1
        first.setdefault(job, run)
        if state == "failed":
            failed.setdefault(job, run)
    return {
        job: JobState(
            job_words.in_words(states), job_words.look(states), failed.get(job, first[job]), states.total()
        )
        for job, states in counts.items()
    }


def rows() -> list[Row]:
    """Every schedule by name. Three queries."""
    listed = list(Schedule.objects.select_related("created_by"))
    last = {
        firing.schedule_id: firing
        for firing in Firing.objects.order_by("schedule_id", "-due_at", "-id").distinct("schedule_id")
    }
    states = job_states(firing.job_id for firing in last.values() if firing.job_id)
    return [row(schedule, last.get(schedule.pk), states) for schedule in listed]


def row(schedule: Schedule, last: Firing | None, states: Mapping[int, JobState]) -> Row:
    newest = fired(last, states) if last else None
    try:
        ask = Ask.from_json(schedule.ask)
    except ValidationError:
        ask = None
    try:
        times = schedules.times(schedule)
    except BadTimes as error:
        return Row(schedule, ask, str(error), [], newest)
    due = [] if schedule.paused_at else times.upcoming(timezone.now())
    return Row(
        schedule,
        ask,
        times.in_words(),
        [Due(at, f"{at.astimezone(times.zone):%a %Y-%m-%d %H:%M}") for at in due],
        newest,
    )


def fired(firing: Firing, states: Mapping[int, JobState]) -> Fired:
    return Fired(firing, states.get(firing.job_id) if firing.job_id else None)


def outcomes(schedule: Schedule) -> dict[str, int]:
    """How many firings ended how, by the words for it."""
    counted = schedule.firings.order_by().values_list("outcome").annotate(number=Count("pk"))
    return {Firing.Outcome(outcome).label: number for outcome, number in counted}
