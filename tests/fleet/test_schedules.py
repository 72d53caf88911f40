import datetime as dt
import threading

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from benchapp.alerts.models import Event
from benchapp.catalog.models import Release
from benchapp.fleet import schedules
from benchapp.fleet.models import Firing, Schedule
from benchapp.people.models import AuditEntry
from benchapp.runs import actions
from benchapp.runs.models import Document, Job, Run, State
from tests.fleet.machines import host

pytestmark = pytest.mark.django_db
ASK = {"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120"]}
Outcome = Firing.Outcome


def made(**fields) -> Schedule:
    fields = {"name": "nightly", "ask": ASK, "cron": "0 3 * * *", "timezone": "Europe/Berlin"} | fields
    return schedules.add(fields, None)


def due(schedule: Schedule, text: str) -> dt.datetime:
    """Let it be due at a moment of UTC."""
    moment = dt.datetime.fromisoformat(f"{text}+00:00")
    Schedule.objects.filter(pk=schedule.pk).update(next_due=moment)
    return moment


def ended(firing: Firing, *states: State) -> None:
    for state in states or (State.FAILED,):
        Run.objects.filter(job=firing.job).update(state=state, told=True)


def outcomes(schedule: Schedule) -> list[str]:
    return [firing.outcome for firing in schedule.firings.order_by("due_at")]


def test_what_is_due_becomes_one_job_however_often_it_ticks():
    schedule = made()
    moment = due(schedule, "2026-03-28T02:00")
    assert schedules.tick(moment - dt.timedelta(seconds=1)) == 0
    assert schedules.tick(moment + dt.timedelta(seconds=20)) == 1
    assert schedules.tick(moment + dt.timedelta(seconds=50)) == 0
    firing = schedule.firings.get()
    assert (firing.outcome, firing.due_at, firing.sentence) == (Outcome.ASKED, moment, "")
    assert firing.job.source == Job.Source.SCHEDULE
    assert firing.job.asked == ASK
    assert firing.job.runs.get().priority == actions.PRIORITIES[Job.Source.SCHEDULE]
    schedule.refresh_from_db()
    # the next morning is summer's first: 3 o'clock comes an hour earlier
    assert schedule.next_due == dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)


@pytest.mark.django_db(transaction=True)
def test_ticks_at_once_fire_each_due_time_once():
    schedule = made()
    moment = due(schedule, "2026-03-28T02:00")
    together = threading.Barrier(4)

    def ticking() -> None:
        try:
            together.wait()
            schedules.tick(moment)
        finally:
            connection.close()

    threads = [threading.Thread(target=ticking) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes(schedule) == [Outcome.ASKED]
    assert Job.objects.count() == 1


def test_a_due_time_is_skipped_while_the_one_before_still_runs():
    schedule = made(cron="", interval_s=3600)
    schedules.tick(due(schedule, "2026-03-01T02:00"))
    schedules.tick(due(schedule, "2026-03-01T03:00"))
    assert outcomes(schedule) == [Outcome.ASKED, Outcome.RUNNING]
    first, second = schedule.firings.order_by("due_at")
    assert second.sentence == f"Job {first.job_id} of 2026-03-01 02:00 UTC was still running."
    ended(first)
    schedules.tick(due(schedule, "2026-03-01T04:00"))
    assert outcomes(schedule)[-1] == Outcome.ASKED


def test_missed_times_run_once_late_and_say_how_many():
    schedule = made(timezone="UTC")
    due(schedule, "2026-03-01T03:00")
    schedules.tick(dt.datetime(2026, 3, 4, 5, 30, tzinfo=dt.UTC))
    firing = schedule.firings.get()
    assert (firing.outcome, firing.due_at.day) == (Outcome.ASKED, 4)
    assert firing.sentence == (
        "4 due times, from 2026-03-01 03:00 to 2026-03-04 03:00 UTC, were missed; "
        "this runs once for all of them."
    )
    schedule.refresh_from_db()
    assert schedule.next_due == dt.datetime(2026, 3, 5, 3, tzinfo=dt.UTC)


def test_a_single_missed_time_says_how_late_it_runs():
    schedule = made(timezone="UTC")
    schedules.tick(due(schedule, "2026-03-01T03:00") + dt.timedelta(hours=2))
    assert schedule.firings.get().sentence == "Run 2 hours late: it was missed."


def test_missed_times_are_skipped_and_recorded_as_one_gap():
    schedule = made(timezone="UTC", missed=Schedule.Missed.SKIP)
    due(schedule, "2026-03-01T03:00")
    schedules.tick(dt.datetime(2026, 3, 4, 5, 30, tzinfo=dt.UTC))
    firing = schedule.firings.get()
    assert (firing.outcome, firing.job) == (Outcome.MISSED, None)
    assert firing.sentence.startswith("4 due times")


def test_back_in_time_for_a_due_time_only_those_before_were_missed():
    schedule = made(timezone="UTC", missed=Schedule.Missed.SKIP)
    due(schedule, "2026-03-01T03:00")
    schedules.tick(dt.datetime(2026, 3, 3, 3, 0, 30, tzinfo=dt.UTC))
    assert outcomes(schedule) == [Outcome.MISSED, Outcome.ASKED]


def test_what_can_no_longer_be_asked_for_is_refused_in_a_sentence():
    schedule = made(
        ask={"what": "gemm", "versions": ["2.13.0"], "targets": ["gpu:GPU-gone"], "suite": "cpu-smoke"}
    )
    schedules.tick(due(schedule, "2026-03-01T02:00"))
    firing = schedule.firings.get()
    assert firing.outcome == Outcome.REFUSED
    assert "GPU-gone is no GPU that has reported here" in firing.sentence
    assert not Job.objects.exists()


def test_a_schedule_measures_the_library_it_names_at_its_newest_each_time():
    host("boxa", "aaaaaaaa", "GPU-a0")
    schedule = made(
        ask={
            "what": "gemm", "library": "flashinfer", "versions": ["newest"], "targets": ["gpuarch:sm90"],
            "suite": "h200-core", "processes": 3,
        },
    )  # fmt: skip
    for day, version in enumerate(("0.6.9", "0.6.10"), start=1):
        Release.objects.create(package="flashinfer", version=version)
        schedules.tick(due(schedule, f"2026-03-0{day}T02:00"))
        run = Run.objects.latest("pk")
        assert (run.recipe.versions["flashinfer"], run.params["processes"]) == (version, 3)
        ended(schedule.firings.latest("due_at"))


def test_three_due_times_in_a_row_without_a_job_raise_one_event():
    schedule = made(ask=ASK | {"versions": ["0.6.3+candidate.0123456789ab"]}, cron="", interval_s=3600)
    for hour in range(5):
        schedules.tick(due(schedule, f"2026-03-01T{hour:02}:00"))
        assert Event.objects.filter(kind="schedule_without_data").count() == (hour >= 2)
    event = Event.objects.get(kind="schedule_without_data")
    assert event.severity == Event.Severity.WARNING
    assert "is not registered here" in event.sentence


def test_a_firing_whose_runs_all_ended_without_data_raises_one_event():
    schedule = made()
    schedules.tick(due(schedule, "2026-03-01T02:00"))
    assert not Event.objects.exists()
    ended(schedule.firings.get())
    schedules.check_firings()
    schedules.check_firings()
    event = Event.objects.get()
    assert (event.kind, event.severity) == ("schedule_without_data", "warning")
    assert "nightly, due 2026-03-01 02:00 UTC, yielded no data" in event.sentence


def test_a_firing_with_an_accepted_document_is_at_peace():
    schedule = made()
    schedules.tick(due(schedule, "2026-03-01T02:00"))
    run = schedule.firings.get().job.runs.get()
    document, _ = actions.receive(b"{}", origin=Document.Origin.WORKER, run=run, attempt=1)
    Document.objects.filter(pk=document.pk).update(state=Document.State.ACCEPTED)
    ended(schedule.firings.get(), State.DELIVERED, State.DONE)
    assert schedules.check_firings() == 0
    assert schedule.firings.get().checked


def test_paused_it_is_never_due_and_resumed_it_makes_up_for_nothing():
    schedule = made()
    assert schedules.pause(schedule, None)
    assert not schedules.pause(schedule, None)
    assert schedules.tick(dt.datetime(2030, 1, 1, tzinfo=dt.UTC)) == 0
    assert schedules.resume(schedule, None)
    assert not schedules.resume(schedule, None)
    schedule.refresh_from_db()
    assert schedule.next_due > schedules.now()
    assert not schedule.firings.exists()


def test_run_now_asks_beside_the_due_times_as_a_persons_wish():
    schedule = made()
    before = schedule.next_due
    firing = schedules.run_now(schedule, None)
    assert firing.by_hand
    assert firing.job.runs.get().priority == actions.PRIORITIES[Job.Source.PERSON]
    schedule.refresh_from_db()
    assert schedule.next_due == before


def test_a_schedule_that_has_fired_is_not_deleted(django_user_model):
    person = django_user_model.objects.create_user("ada", role="operator")
    schedule = made()
    schedules.run_now(schedule, person)
    with pytest.raises(ValidationError, match="pause it instead"):
        schedules.delete(schedule, person)
    Firing.objects.all().delete()
    schedules.delete(schedule, person)
    assert not Schedule.objects.exists()


def test_every_write_leaves_an_audit_row(django_user_model):
    person = django_user_model.objects.create_user("ada", role="operator")
    schedule = schedules.add({"name": "hourly", "ask": ASK, "interval_s": 3600}, person)
    schedules.edit(schedule, {"interval_s": 7200}, person)
    schedules.pause(schedule, person)
    schedules.resume(schedule, person)
    schedules.run_now(schedule, person)
    written = AuditEntry.objects.filter(user=person, subject="schedule hourly").order_by("pk")
    assert [entry.action for entry in written] == [
        "add_schedule", "edit_schedule", "pause_schedule", "resume_schedule", "run_schedule",
    ]  # fmt: skip
    assert written[1].detail["times"] == "Every 2 hours"


def test_one_schedule_that_cannot_be_read_does_not_hold_up_the_others():
    broken, sound = made(name="broken"), made(name="sound")
    moment = due(sound, "2026-03-01T02:00")
    Schedule.objects.filter(pk=broken.pk).update(next_due=moment, timezone="Nowhere/Land")
    assert schedules.tick(moment) == 1
    assert outcomes(sound) == [Outcome.ASKED]
