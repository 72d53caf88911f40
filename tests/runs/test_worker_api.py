"""The functions through which workers reach the database, and what they guard whoever writes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, NotSupportedError, connection, transaction
from django.utils import timezone

from benchapp.runs import actions, work, worker_api
from benchapp.runs.actions import Request
from benchapp.runs.models import Attempt, Job, Maintenance, Run, State
from benchapp.runs.signals import run_ended
from benchapp.runs.states import MOVES
from benchapp.runs.work import Lease
from tests.ingest.documents import body, gemm

pytestmark = pytest.mark.django_db(transaction=True)

GPU = "GPU-11111111-1111-1111-1111-111111111111"
QUEUE = f"gpu.uuid.{GPU}"


def ask(number: int = 0, *, queue: str = QUEUE, needs_environment: bool = False, **more: Any) -> Run:
    request = Request(
        Run.Kind.GEMM, f"job {number}", queue, {"torch": "2.13.0"}, {"number": number},
        needs_environment=needs_environment, **more,
    )  # fmt: skip
    return actions.request_run(request, user=None, source=Job.Source.PERSON)[0]


def several(count: int, title: str) -> list[Run]:
    requests = [
        Request(Run.Kind.GEMM, title, QUEUE, {"torch": "2.13.0"}, {"title": title, "number": number})
        for number in range(count)
    ]
    asked = actions.request_job(requests, title=title, user=None, source=Job.Source.COMMAND)
    return [run for run, _ in asked.runs]


def test_the_database_holds_exactly_the_legal_moves():
    allowed = {(str(origin), str(to)) for origin, moves in MOVES.items() for to in moves}
    assert set(re.findall(r"\('(\w+)', '(\w+)'\)", worker_api.SQL.read_text())) == allowed
    for origin in State:
        for to in State:
            run = ask(hash((origin, to)))
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE runs_run DISABLE TRIGGER runs_run_legal_move")
                cursor.execute("UPDATE runs_run SET state = %s, told = true WHERE id = %s", [origin, run.pk])
                cursor.execute("ALTER TABLE runs_run ENABLE TRIGGER runs_run_legal_move")
            moved = True
            try:
                with transaction.atomic():
                    Run.objects.filter(pk=run.pk).update(state=to)
            except IntegrityError as error:
                moved = False
                assert "is not a legal move" in str(error)
            assert moved == (origin == to or to in MOVES[origin]), (origin, to)
            run.delete()


def test_the_database_has_every_function_that_a_host_may_call():
    with connection.cursor() as cursor:
        for function in worker_api.CALLABLE:
            cursor.execute("SELECT to_regprocedure(%s) IS NOT NULL", [f"worker.{function}"])
            assert cursor.fetchone() == (True,), function


def test_a_run_goes_only_to_a_host_that_has_built_its_environment():
    run = ask(needs_environment=True)
    assert len(run.environment) == 16
    assert work.claim([QUEUE], "w", ready=[]) is None
    assert work.claim([QUEUE], "w", ready=["0" * 16]) is None
    claimed = work.claim([QUEUE], "w", ready=["0" * 16, run.environment])
    assert claimed is not None
    assert (claimed.run_id, claimed.environment) == (run.pk, run.environment)


def test_a_worker_takes_the_best_run_of_all_its_queues():
    ask(1, queue="gpu.arch.sm120")
    better = ask(2, queue="gpu.model.h200", priority=50)
    claimed = work.claim(["gpu.arch.sm120", QUEUE, "gpu.model.h200"], "w")
    assert claimed is not None
    assert claimed.run_id == better.pk


@pytest.mark.parametrize("scope", [{"gpu": GPU}, {"host": "boxa"}])
def test_maintenance_keeps_new_runs_away_until_it_ends(scope: dict[str, str]):
    ask()
    row = Maintenance.objects.create(reason="a fan is being replaced", **scope)
    worker = "gpu-11111111@boxa/abcdefgh"
    assert work.claim([QUEUE], worker, gpu=GPU) is None
    Maintenance.objects.filter(pk=row.pk).update(lifted_at=timezone.now())
    assert work.claim([QUEUE], worker, gpu=GPU) is not None


def test_a_gang_waits_while_one_of_its_gpus_is_drained():
    ask(gpus=(GPU, "GPU-2"))
    row = Maintenance.objects.create(gpu="GPU-2", reason="ECC errors")
    assert work.claim([QUEUE], "w@boxa/abcdefgh", gpu=GPU) is None
    row.delete()
    claimed = work.claim([QUEUE], "w@boxa/abcdefgh", gpu=GPU)
    assert claimed is not None
    assert claimed.gpus == (GPU, "GPU-2")


def test_jobs_of_one_priority_take_turns():
    long, short = several(4, "long"), several(2, "short")
    order = []
    while (claimed := work.claim([QUEUE], "w")) is not None:
        order.append(claimed.run_id)
        work.fail(claimed.run_id, claimed.attempt, "crashed", "It crashed.")
    assert order == [long[0].pk, short[0].pk, long[1].pk, short[1].pk, long[2].pk, long[3].pk]


def test_a_job_that_comes_later_does_not_pass_everybody():
    first = several(3, "first")
    for run in first[:2]:
        claimed = work.claim([QUEUE], "w")
        assert claimed is not None
        assert claimed.run_id == run.pk
        work.fail(claimed.run_id, claimed.attempt, "crashed", "It crashed.")
    several(2, "later")
    claimed = work.claim([QUEUE], "w")
    assert claimed is not None
    assert claimed.run_id == first[2].pk


def test_two_clicks_make_one_job():
    request = Request(Run.Kind.GEMM, "twice", QUEUE, {"torch": "2.13.0"}, {})
    asked = [
        actions.request_job([request], title="twice", user=None, source=Job.Source.PERSON, key="form-1")
        for _ in range(2)
    ]
    assert [a.created for a in asked] == [True, False]
    assert asked[0].job == asked[1].job
    assert Job.objects.count() == Run.objects.count() == 1


def test_a_worker_of_another_protocol_gets_no_work_and_is_told_why(monkeypatch: pytest.MonkeyPatch):
    run = ask()
    monkeypatch.setattr(work, "PROTOCOL", 99)
    with pytest.raises(NotSupportedError, match="speaks protocol 99, and Tilewatch expects 1"):
        work.claim([QUEUE], "w")
    run.refresh_from_db()
    assert run.state == State.QUEUED


def test_the_interval_in_which_gpus_were_held_is_recorded():
    run = ask()
    claimed = work.claim([QUEUE], "w", gpu=GPU)
    assert claimed is not None
    since = timezone.now()
    work.beat(run.pk, 1, lease=Lease((GPU,), since))
    attempt = Attempt.objects.get(run=run)
    assert (attempt.gpus, attempt.lease_from, attempt.lease_to) == ([GPU], since, None)
    until = timezone.now()
    work.deliver(run.pk, 1, body(gemm()), Lease((GPU,), since, until))
    attempt.refresh_from_db()
    assert (attempt.lease_from, attempt.lease_to, attempt.outcome) == (since, until, "delivered")


def test_an_environment_that_is_built_ends_its_run_and_nothing_else_may():
    request = Request(Run.Kind.BUILD, "build", "build.abcdefgh", {"torch": "2.13.0"}, {})
    build, _ = actions.request_run(request, user=None, source=Job.Source.COMMAND)
    work.claim(["build.abcdefgh"], "w")
    assert work.built(build.pk, 1)
    build.refresh_from_db()
    assert build.state == State.DONE
    measuring = ask()
    work.claim([QUEUE], "w")
    assert work.built(measuring.pk, 1)
    measuring.refresh_from_db()
    assert measuring.state == State.QUEUED


def test_listeners_hear_once_of_a_run_that_a_worker_ended():
    run, waiting = ask(1), None
    waiting = actions.request_run(
        Request(Run.Kind.GEMM, "after", QUEUE, {"torch": "2.13.0"}, {"after": True}),
        user=None, source=Job.Source.PERSON, waits_for=run,
    )[0]  # fmt: skip
    work.claim([QUEUE], "w")
    work.fail(run.pk, 1, "crashed", "It crashed.")
    assert actions.tell_ended() == 1
    assert actions.tell_ended() == 0
    claimed = work.claim([QUEUE], "w")
    assert claimed is not None
    assert claimed.run_id == waiting.pk


def told(function: str, *arguments: Any) -> Any:
    """What a host's own SQL may say, and `work` never does."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT worker.{function}", arguments)
        return cursor.fetchone()[0]


def test_what_a_host_says_that_it_held_can_always_be_read_and_shown():
    run = ask()
    work.claim([QUEUE], "w")
    lease = Lease((GPU,), timezone.now())
    work.beat(run.pk, 1, lease=lease)
    work.beat(run.pk, 1, log="printed without a lease")
    for hostile in (
        {"from": "infinity", "to": "-infinity"},
        {"from": "294276-01-01T00:00:00Z"},
        {"gpus": "no list"},
        {"gpus": None},
    ):
        assert told("beat(%s, 1, NULL, '', %s::jsonb, '{}', NULL)", run.pk, json.dumps(hostile)) == "continue"
        attempt = Attempt.objects.get()
        assert (attempt.gpus, attempt.lease_from) == ([GPU], lease.since)
    many = {"gpus": [None, "x" * 100, *map(str, range(100_000))], "from": "infinity"}
    assert told("beat(%s, 1, NULL, '', %s::jsonb, '{}', NULL)", run.pk, json.dumps(many)) == "continue"
    assert len(Attempt.objects.get().gpus) == 64
    ending = {"gpus": [GPU], "to": "infinity"}
    assert told("end_attempt(%s, 1, 'failed', 'c', %s, %s::jsonb)", run.pk, "x" * 10**6, json.dumps(ending))
    attempt, run = Attempt.objects.get(), Run.objects.get()
    assert (attempt.gpus, attempt.lease_to) == ([GPU], None)
    assert (len(attempt.failure), len(run.failure)) == (4000, 4000)


def test_a_document_beyond_the_limit_does_not_enter_the_inbox():
    run = ask()
    work.claim([QUEUE], "w")
    size = settings.DOCUMENT_LIMIT_BYTES + 1
    with pytest.raises(IntegrityError, match=f"a document of {size} bytes is not taken"):
        told("deliver(%s, 1, convert_to(repeat('x', %s), 'UTF8'), NULL)", run.pk, size)
    assert Run.objects.get().state == State.RUNNING


def test_a_listener_that_fails_holds_up_no_other_end(caplog: pytest.LogCaptureFixture):
    first, second = ask(1), ask(2)

    def broken(sender: type[Run], run: Run, **kwargs: Any) -> None:
        if run.pk == first.pk:
            raise RuntimeError("a listener of this test")

    for run in (first, second):
        work.claim([QUEUE], "w")
        work.fail(run.pk, 1, "crashed", "It crashed.")
    run_ended.connect(broken)
    try:
        assert actions.tell_ended() == 1
    finally:
        run_ended.disconnect(broken)
    assert "its end could not be told" in caplog.text
    assert actions.tell_ended() == 1
