"""Who may work on a run, and what happens when a heart stops."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from benchapp.alerts.models import Event
from benchapp.ingest.actions import ingest
from benchapp.people.models import AuditEntry, User
from benchapp.runs import actions, work
from benchapp.runs.actions import Request
from benchapp.runs.models import Attempt, Document, Job, Run, State
from benchapp.runs.requests import request_cpu_gemm, request_survey
from benchapp.runs.work import Beat, Progress
from tests.ingest.documents import body, gemm, measurement

pytestmark = pytest.mark.django_db(transaction=True)


def ask(number: int = 0, *, waits_for: Run | None = None, source: Job.Source = Job.Source.PERSON) -> Run:
    request = Request(Run.Kind.GEMM, f"job {number}", "cpu", {"torch": "2.13.0"}, {"number": number})
    return actions.request_run(request, user=None, source=source, waits_for=waits_for)[0]


def claimed(worker: str = "w") -> Run:
    run = work.claim(["cpu"], worker)
    assert run is not None
    return Run.objects.get(pk=run.run_id)


@pytest.fixture(autouse=True)
def postgres_up_for_long(settings: Any) -> None:
    """The server of these tests is young; what it was up for is a matter of its own test."""
    settings.HEARTBEAT_TIMEOUT_S = 1


def silence(run: Run, seconds: float = 3600) -> None:
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - dt.timedelta(seconds=seconds))


def state(run: Run) -> str:
    return Run.objects.get(pk=run.pk).state


def test_a_run_is_claimed_once_and_the_claim_is_an_attempt():
    run = ask()
    mine = claimed()
    assert (mine.pk, mine.state, mine.attempt) == (run.pk, State.RUNNING, 1)
    assert work.claim(["cpu"], "other") is None
    assert Attempt.objects.get().worker == "w"


def test_persons_go_before_the_first_start_and_the_oldest_first():
    ask(1, source=Job.Source.FIRST_START)
    second, third = ask(2), ask(3)
    assert [claimed().pk for _ in range(3)][:2] == [second.pk, third.pk]


def test_another_queue_is_another_queue():
    ask()
    assert work.claim(["build"], "w") is None


def test_a_run_waits_for_the_end_of_another_whatever_it_was():
    first = ask(1)
    second = ask(2, waits_for=first)
    run = claimed()
    assert run.pk == first.pk
    assert work.claim(["cpu"], "w") is None
    work.fail(run.pk, run.attempt, "crashed", "It crashed.")
    assert claimed().pk == second.pk


def test_twenty_workers_at_once_claim_twenty_different_runs():
    wanted = {ask(number).pk for number in range(20)}
    got: list[int] = []

    def go() -> None:
        run = work.claim(["cpu"], threading.current_thread().name)
        if run is not None:
            got.append(run.run_id)
        connection.close()

    threads = [threading.Thread(target=go) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # SKIP LOCKED may leave one empty-handed while another still holds the row it looked at; none is shared
    assert len(got) == len(set(got))
    while (run := work.claim(["cpu"], "late")) is not None:
        got.append(run.run_id)
    assert set(got) == wanted
    assert len(got) == 20


def test_two_people_asking_for_the_same_at_once_get_one_run():
    runs: list[int] = []

    def press() -> None:
        run, _ = request_survey("0.6.3", "sm120", user=None, source=Job.Source.PERSON)
        runs.append(run.pk)
        connection.close()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(runs)) == 1
    assert Run.objects.count() == Job.objects.count() == 1


def test_the_same_may_be_asked_for_again_once_it_has_ended():
    run, _ = request_survey("0.6.3", "sm120", user=None, source=Job.Source.PERSON)
    claimed_run = work.claim(["build"], "w")
    assert claimed_run is not None
    work.fail(run.pk, 1, "crashed", "It crashed.")
    again, created = request_survey(" v0.6.3 ", "sm120", user=None, source=Job.Source.PERSON)
    assert created
    assert again.pk != run.pk


@pytest.mark.parametrize(
    "version",
    ["", "latest", "0.6.3; rm -rf /", "../0.6.3", "0.6.3+local", "-r file", "1!2.0", "9" * 300, "9" * 5000],
)
def test_what_is_no_version_is_refused_before_anything_is_stored(version: str):
    with pytest.raises(ValidationError):
        request_survey(version, "sm120", user=None, source=Job.Source.PERSON)
    assert not Run.objects.exists()


def test_an_unknown_arch_or_suite_is_refused_with_what_is_known():
    with pytest.raises(ValidationError, match="sm120"):
        request_survey("0.6.3", "sm42", user=None, source=Job.Source.PERSON)
    with pytest.raises(ValidationError, match="cpu-smoke"):
        request_cpu_gemm("none", user=None, source=Job.Source.PERSON)


def test_a_beat_keeps_progress_and_log():
    ask()
    run = claimed()
    assert work.beat(run.pk, 1, Progress(2, 5, "compiling"), "one\n") is Beat.CONTINUE
    assert work.beat(run.pk, 1, None, "two\x00\n") is Beat.CONTINUE
    run.refresh_from_db()
    assert (run.progress_done, run.progress_total, run.progress_message) == (2, 5, "compiling")
    assert Attempt.objects.get().log == "one\ntwo�\n"


def test_a_log_without_end_is_cut():
    ask()
    run = claimed()
    for _ in range(3):
        work.beat(run.pk, 1, None, "x" * 400_000)
    assert len(Attempt.objects.get().log) == actions.LOG_LIMIT


def test_a_silent_run_is_taken_up_again_and_the_old_attempt_hears_that_it_is_lost():
    ask()
    run = claimed("old")
    silence(run)
    assert actions.sweep() == 1
    again = claimed("new")
    assert again.attempt == 2
    assert work.beat(run.pk, 1) is Beat.LOST
    assert work.beat(run.pk, 2) is Beat.CONTINUE
    assert not work.fail(run.pk, 1, "crashed", "too late")
    assert Attempt.objects.get(number=1).outcome == "lost"


def test_a_run_that_beats_is_left_alone():
    ask()
    run = claimed()
    silence(run, 0)
    assert actions.sweep() == 0
    assert state(run) == State.RUNNING


def test_two_sweeps_at_once_lose_one_attempt_and_not_the_next_one_too(monkeypatch: pytest.MonkeyPatch):
    take_up = actions._take_up_again

    def late(run_id: int, reason: str) -> bool:
        """The other sweep was first, and a worker is at the run already."""
        assert take_up(run_id, reason)
        claimed("new")
        return take_up(run_id, reason)

    monkeypatch.setattr(actions, "_take_up_again", late)
    ask()
    run = claimed("old")
    silence(run)
    assert actions.sweep() == 0
    assert work.beat(run.pk, 2) is Beat.CONTINUE


def test_nobody_is_called_silent_before_postgres_has_listened_long_enough(settings: Any):
    settings.HEARTBEAT_TIMEOUT_S = 10**6
    run = ask()
    claimed()
    silence(run, 10**7)
    assert actions.sweep() == 0
    assert state(run) == State.RUNNING


def test_after_three_lost_attempts_the_run_fails_and_says_so():
    run = ask()
    for _ in range(3):
        silence(claimed())
        actions.sweep()
    run.refresh_from_db()
    assert (run.state, run.failure_code) == (State.FAILED, "worker_lost")
    assert run.failure.startswith("Its worker was lost in each of 3 attempts")
    assert Event.objects.get(kind="run_failed").payload["run"] == run.pk


def test_a_worker_that_stops_in_good_order_costs_no_attempt():
    run = ask()
    for _ in range(5):
        work.put_back(run.pk, claimed().attempt)
    assert state(run) == State.QUEUED


def test_a_run_that_was_cancelled_is_not_put_back():
    run = ask()
    attempt = claimed().attempt
    actions.cancel(run, User.objects.create_user("op", role="operator"))
    work.put_back(run.pk, attempt)
    assert state(run) == State.CANCELLED


def test_a_worker_started_anew_gives_up_what_its_earlier_life_held():
    mine, other = ask(1), ask(2)
    claimed("w")
    claimed("v")
    work.release("w")
    assert (state(mine), state(other)) == (State.QUEUED, State.RUNNING)


def test_a_queued_run_is_cancelled_at_once_and_a_running_one_is_asked_to_stop():
    user = User.objects.create_user("op", role="operator")
    queued, running = ask(1), ask(2)
    Run.objects.filter(pk=queued.pk).update(priority=-1)
    run = claimed()
    assert run.pk == running.pk
    assert actions.cancel(queued, user)
    assert actions.cancel(running, user)
    assert state(queued) == State.CANCELLED
    assert work.beat(run.pk, 1) is Beat.CANCEL
    work.give_up_cancelled(run.pk, 1)
    assert state(running) == State.CANCELLED
    assert not actions.cancel(running, user)
    assert AuditEntry.objects.filter(action="cancel_run", user=user).count() == 2


@pytest.fixture
def delivered() -> Iterator[tuple[Run, Document]]:
    ask()
    run = claimed()
    yield run, Document.objects.get(pk=work.deliver(run.pk, run.attempt, body(gemm())))


def test_a_delivered_document_ends_the_run_when_it_is_ingested(delivered: tuple[Run, Document]):
    run, document = delivered
    assert state(run) == State.DELIVERED
    ingest(document.pk)
    run.refresh_from_db()
    assert run.state == State.DONE
    assert run.finished_at is not None
    assert run.target is not None


def test_a_message_delivered_twice_changes_nothing(delivered: tuple[Run, Document]):
    run, document = delivered
    assert work.deliver(run.pk, 1, body(gemm())) == document.pk
    ingest(document.pk)
    ingest(document.pk)
    assert work.deliver(run.pk, 1, body(gemm())) == document.pk
    assert state(run) == State.DONE
    assert Document.objects.count() == 1


def test_a_late_document_is_kept_as_superseded(delivered: tuple[Run, Document]):
    run, document = delivered
    late = work.deliver(run.pk, 1, body(gemm(measurement(median=9e-3))))
    ingest(document.pk)
    assert ingest(late).state == Document.State.SUPERSEDED
    assert state(run) == State.DONE


def test_a_late_document_of_a_run_that_had_failed_still_counts():
    run = ask()
    for _ in range(3):
        silence(claimed())
        actions.sweep()
    ingest(work.deliver(run.pk, 3, body(gemm())))
    run.refresh_from_db()
    assert (run.state, run.failure) == (State.DONE, "")


def test_the_first_of_two_attempts_to_deliver_wins_and_stops_the_other():
    run = ask()
    silence(claimed("slow"))
    actions.sweep()
    claimed("second")
    ingest(work.deliver(run.pk, 1, body(gemm())))
    assert state(run) == State.DONE
    assert run.attempts.get(number=2).outcome == "overtaken"
    assert work.beat(run.pk, 2) is Beat.LOST
    late = work.deliver(run.pk, 2, body(gemm(measurement(median=9e-3))))
    assert ingest(late).state == Document.State.SUPERSEDED


def test_a_refused_document_fails_its_run_with_the_fault():
    run = ask()
    claimed()
    ingest(work.deliver(run.pk, 1, b"{}"))
    run.refresh_from_db()
    assert run.state == State.FAILED
    assert run.failure.startswith("The document it delivered was refused: schema_version: Field required")


def test_the_time_that_a_run_took_is_that_of_its_last_attempt():
    run = ask()
    claimed()
    run.refresh_from_db()
    first = run.started_at
    assert first is not None
    work.put_back(run.pk, 1)
    run.refresh_from_db()
    assert run.started_at is None
    claimed()
    run.refresh_from_db()
    assert run.started_at > first
