"""A run through a real Celery worker: done, failed, cancelled, killed, stopped."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from benchapp.people.models import User
from benchapp.runs import actions, broker
from benchapp.runs.models import Attempt, Document, Measurement, Run, State
from tests.conftest import Servers
from tests.workers.conftest import (
    Gate,
    Start,
    alive,
    ask,
    ask_at,
    becomes,
    furnish,
    good_document,
    request,
    until,
    worker_of,
)

Launch = Callable[[], "subprocess.Popen[bytes]"]


def child_of(run_id: int) -> int:
    """The process id that the child printed into its log."""
    log = ""

    def printed() -> bool:
        nonlocal log
        attempt = Attempt.objects.filter(run_id=run_id).order_by("-number").first()
        log = attempt.log if attempt else ""
        return "started" in log

    until(printed, what="the child's first line")
    return int(log.split("started ")[1].split()[0])


def test_from_request_to_stored_measurements(worker: Launch, control: Launch, home: Path):
    worker()
    control()
    run = becomes(ask(document=good_document()), State.DONE)
    assert Measurement.objects.filter(run=run).count() == 1
    assert run.documents.get().state == Document.State.ACCEPTED
    attempt = run.attempts.get()
    assert attempt.outcome == "delivered"
    assert "started" in attempt.log
    assert run.progress_message == "working"
    for secret in ("DATABASE_URL", "REDIS_URL", "TILEWATCH_HOME"):
        assert secret not in attempt.log
    until(lambda: not list((home / "work").iterdir()), what="the end of its folder")
    assert not list((home / "spool").glob("*.json"))


@pytest.mark.parametrize(
    ("case", "code", "sentence"),
    [
        ({"error": "g++ is missing: apt-get install g++."}, "no_gpp", "g++ is missing: apt-get install g++."),
        ({"signal": int(signal.SIGSEGV)}, "crashed", "The child process was killed by SIGSEGV."),
        ({}, "stored_nothing", "It ended without an error and without a document."),
        ({"chatter": True}, "log_limit", "It printed more than 67,108,864 bytes and was ended."),
    ],
)
def test_a_child_that_fails_fails_its_run_in_one_sentence(
    worker: Launch, home: Path, case: dict[str, object], code: str, sentence: str
):
    worker()
    run = becomes(ask(**case), State.FAILED)
    assert (run.failure_code, run.failure) == (code, sentence)
    assert "started" in run.attempts.get().log
    until(lambda: not list((home / "work").iterdir()), what="the end of its folder")


def test_a_cancelled_run_ends_its_child_and_what_that_started(worker: Launch, tmp_path: Path):
    worker()
    run = ask(seconds=600, deaf=True, grandchild=str(tmp_path / "pid"))
    child = child_of(run.pk)
    grandchild = int((tmp_path / "pid").read_text())
    assert actions.cancel(run, User.objects.create_user("op"))
    becomes(run, State.CANCELLED)
    assert not alive(child)
    assert not alive(grandchild)


def test_a_worker_killed_with_9_leaves_nothing_running_and_its_successor_takes_the_run_up(
    worker: Launch, tmp_path: Path
):
    first = worker()
    run = ask(seconds=600, grandchild=str(tmp_path / "pid"))
    child = child_of(run.pk)
    grandchild = int((tmp_path / "pid").read_text())
    assert os.getsid(grandchild) == grandchild
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not alive(child) and not alive(grandchild), what="the end of both")
    worker()
    until(lambda: run.attempts.count() == 2, what="a second attempt")
    assert run.attempts.get(number=1).outcome == "lost"


def test_two_installations_of_a_host_never_measure_on_one_gpu_at_once(
    start: Start, home: Path, tmp_path: Path
):
    gpu = "GPU-1a2b3c4d"
    pinned = {"TILEWATCH_WORKER": "gpu", "TILEWATCH_GPU": gpu, "TILEWATCH_HOST_NAME": "boxa"}
    for at, queue in ((home, "gpu.arch.one"), (furnish(tmp_path / "other"), "gpu.arch.other")):
        start(*worker_of(f"gpu.uuid.{gpu},{queue}"), log="gpu.log", at=at, environment=pinned)

    def asked(queue: str, **case: object) -> Run:
        return request(queue, {"device": "cuda", "cases": [case]})

    def waits(run: Run) -> bool:
        run.refresh_from_db()
        said = f"waiting for GPU {gpu}, held by {first} of gpu-1a2b3c4d@boxa/"
        return run.progress_message.startswith(said)

    operator = User.objects.create_user("op")
    first = asked("gpu.arch.one", seconds=600)
    child = child_of(first.pk)
    given_up = asked("gpu.arch.other", document=good_document(1))
    until(lambda: waits(given_up), what="its wait for the GPU")
    actions.cancel(given_up, operator)
    becomes(given_up, State.CANCELLED)
    second = asked("gpu.arch.other", document=good_document(2))
    until(lambda: waits(second), what="its wait for the GPU")
    assert alive(child)
    actions.cancel(first, operator)
    becomes(second, State.DELIVERED)
    one, other = first.attempts.get(), second.attempts.get()
    assert one.worker != other.worker
    assert one.lease_to <= other.lease_from


def test_postgres_away_while_a_child_runs_and_ends_costs_nothing(
    start: Start, control: Launch, home: Path, gate: Gate
):
    start(*worker_of("cpu"), log="worker.log", environment={"DATABASE_URL": gate.url})
    control()
    run = ask(document=good_document(), seconds=3)
    child_of(run.pk)
    gate.close()
    until(lambda: list((home / "spool").glob("*.json")) != [], what="the document in the spool")
    run.refresh_from_db()
    assert run.state == State.RUNNING
    gate.open()
    becomes(run, State.DONE)
    attempt = run.attempts.get()
    assert attempt.outcome == "delivered"
    assert attempt.lease_to is not None
    assert "Postgres is away" in (home / "worker.log").read_text()


def test_a_run_that_fails_while_postgres_is_away_fails_when_it_is_back(start: Start, home: Path, gate: Gate):
    start(*worker_of("cpu"), log="worker.log", environment={"DATABASE_URL": gate.url})
    run = ask(seconds=2, error="it broke")
    child_of(run.pk)
    gate.close()
    until(lambda: "tried again in" in (home / "worker.log").read_text(), what="its end")
    gate.open()
    assert becomes(run, State.FAILED).failure == "it broke"
    assert run.attempts.get().outcome == "failed"


def test_a_worker_asked_to_stop_puts_its_run_back(worker: Launch):
    first = worker()
    run = ask(seconds=600)
    child = child_of(run.pk)
    first.terminate()
    first.wait(20)
    becomes(run, State.QUEUED)
    assert run.attempts.get().outcome == "put back"
    assert not alive(child)


def test_a_background_run_makes_way_for_a_better_one_and_comes_again(worker: Launch, control: Launch):
    worker()
    control()
    background = ask_at(-10, seconds=600)
    child = child_of(background.pk)
    assert os.getpriority(os.PRIO_PROCESS, child) == 10
    becomes(ask(document=good_document()), State.DONE)
    assert not alive(child)
    until(lambda: background.attempts.count() == 2, what="its second attempt")
    assert background.attempts.get(number=1).outcome == "made way for a better run"


def test_runs_of_one_queue_go_one_after_the_other(worker: Launch, control: Launch):
    runs = [ask(document=good_document(number), number=number) for number in range(3)]
    worker()
    control()
    for run in runs:
        becomes(run, State.DONE)
    intervals = sorted(Attempt.objects.values_list("started_at", "ended_at"))
    assert all(ended <= started for (_, ended), (started, _) in itertools.pairwise(intervals))


def test_the_bytes_of_another_runs_document_are_no_result(worker: Launch, control: Launch):
    worker()
    control()
    becomes(ask(document=good_document(), number=1), State.DONE)
    run = becomes(ask(document=good_document(), number=2), State.FAILED)
    assert run.failure_code == "known_document"


def test_hints_sent_again_and_again_change_nothing(worker: Launch, control: Launch):
    run = ask(document=good_document())
    for _ in range(5):
        actions.sweep()  # nobody has claimed it, so each sweep sends another hint
    worker()
    control()
    becomes(run, State.DONE)
    assert run.attempts.count() == 1


def test_a_flushed_broker_costs_no_more_than_the_time_to_the_next_sweep(
    worker: Launch, control: Launch, servers: Servers
):
    run = ask(document=good_document())
    redis.Redis.from_url(servers.redis_url).flushall()
    worker()
    control()
    actions.sweep()
    becomes(run, State.DONE)


def test_a_document_over_the_limit_is_not_delivered(worker: Launch):
    worker()
    run = ask(document="x" * (32 * 1024 * 1024 + 1))
    assert becomes(run, State.FAILED).failure == (
        "Its document has 33,554,433 bytes; at most 33,554,432 are taken."
    )
    assert not Document.objects.exists()


def test_a_second_worker_of_a_queue_leaves_the_first_alone(worker: Launch):
    worker()
    run = ask(seconds=600)
    child = child_of(run.pk)
    worker()
    for _ in range(5):
        broker.wake([run.queue])
    second = ask(number=2)
    until(lambda: Run.objects.filter(pk=second.pk, state=State.QUEUED).exists())
    time.sleep(8)
    run.refresh_from_db()
    assert (run.state, run.attempt) == (State.RUNNING, 1)
    assert alive(child)
