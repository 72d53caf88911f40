"""Every write on jobs and runs. Time is Postgres' time; a conditional UPDATE decides every race."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, TextField, Value
from django.db.models.functions import Coalesce, Concat, Left, Now

from benchapp.catalog.digests import digest
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Recipe, Target
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import broker
from benchapp.runs.models import Attempt, Document, Job, Run, State
from benchapp.runs.signals import run_ended
from benchapp.runs.states import ACTIVE, FINAL, may_move

BUILD_QUEUE = "build"
CPU_QUEUE = "cpu"
#: An attempt's log is kept up to this many characters.
LOG_LIMIT = 1_000_000
WORKER_LOST = "worker_lost"
#: Runs of a priority below this are done while nobody needs the host.
BACKGROUND = 0
_RUNNABLE = Q(state=State.QUEUED) & (Q(waits_for=None) | Q(waits_for__state__in=FINAL))


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One run that somebody wants: what the bench is told, with which versions, on which queue.

    Without a priority of its own it goes by who asks. Below 0 it runs in the background: see `must_yield`.
    """

    kind: Run.Kind
    title: str
    queue: str
    versions: dict[str, str]
    params: dict[str, Any]
    target: Target | None = None
    priority: int | None = None


@transaction.atomic
def request_run(
    request: Request, *, user: User | None, source: Job.Source, waits_for: Run | None = None
) -> tuple[Run, bool]:
    """Queue a run and wake its queue. Returns (run, created); an equal run under way is not asked twice.

    Whoever needs it sooner than it was asked for takes its priority along.
    """
    identity = digest(
        {"kind": request.kind, "versions": request.versions, "params": request.params, "queue": request.queue}
    )
    lock(f"request:{identity}")
    recipe, _ = Recipe.objects.get_or_create(
        digest=digest(request.versions), defaults={"versions": request.versions}
    )
    same = Run.objects.filter(
        kind=request.kind, queue=request.queue, recipe=recipe, params=request.params, state__in=ACTIVE
    ).first()
    priority = request.priority
    if priority is None:
        priority = 0 if source == Job.Source.FIRST_START else 10
    if same is not None:
        if Run.objects.filter(pk=same.pk, priority__lt=priority).update(priority=priority):
            broker.wake([same.queue])
        return same, False
    job = Job.objects.create(title=request.title, source=source, requested_by=user)
    run = Run.objects.create(
        job=job,
        kind=request.kind,
        queue=request.queue,
        recipe=recipe,
        target=request.target,
        params=request.params,
        waits_for=waits_for,
        priority=priority,
    )
    audit.record(user, "request_run", f"run {run.pk}", title=request.title, source=source)
    broker.wake([run.queue])
    return run, True


@transaction.atomic
def claim(queue: str, worker: str) -> Run | None:
    """Take the best runnable run of a queue: highest priority, then oldest. None when there is none."""
    run = (
        Run.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(_RUNNABLE, queue=queue)
        .order_by("-priority", "id")
        .first()
    )
    if run is None or must_yield(run, worker):
        return None  # the next sweep wakes the queue again
    Run.objects.filter(pk=run.pk).update(
        state=State.RUNNING,
        attempt=F("attempt") + 1,
        worker=worker,
        heartbeat_at=Now(),
        started_at=Coalesce("started_at", Now()),
        progress_done=0,
        progress_total=0,
        progress_message="",
    )
    run = Run.objects.select_related("recipe", "target").get(pk=run.pk)
    Attempt.objects.create(run=run, number=run.attempt, worker=worker)
    return run


def must_yield(run: Run, worker: str) -> bool:
    """Whether a background run stands in the way of a better one: one running on the worker's host, whatever
    its queue, or one that waits in the run's own queue. All others never yield."""
    if run.priority >= BACKGROUND:
        return False
    host = worker.partition("@")[2]
    here = Q(state=State.RUNNING, worker__endswith=f"@{host}")
    return (
        Run.objects.filter(priority__gt=run.priority).filter(here | (_RUNNABLE & Q(queue=run.queue))).exists()
    )


class Beat(enum.Enum):
    CONTINUE = "continue"
    CANCEL = "cancel"
    #: a better run needs the host; this one comes again later
    YIELD = "yield"
    #: somebody else holds the run now, or it has ended
    LOST = "lost"


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    done: int = 0
    total: int = 0
    message: str = ""


def beat(run_id: int, attempt: int, progress: Progress | None = None, log: str = "") -> Beat:
    """Say that this attempt lives, how far it is, and what it printed since the last beat."""
    mine = Run.objects.filter(pk=run_id, attempt=attempt, state=State.RUNNING)
    values: dict[str, Any] = {"heartbeat_at": Now()}
    if progress is not None:
        values |= {
            "progress_done": progress.done,
            "progress_total": progress.total,
            "progress_message": progress.message[:300],
        }
    if mine.update(**values) == 0:
        return Beat.LOST
    append_log(run_id, attempt, log)
    run = mine.only("priority", "queue", "worker", "cancel_requested_at").first()
    if run is None:
        return Beat.LOST
    if run.cancel_requested_at is not None:
        return Beat.CANCEL
    return Beat.YIELD if must_yield(run, run.worker) else Beat.CONTINUE


def append_log(run_id: int, attempt: int, text: str) -> None:
    if text:
        # NUL is the one character that Postgres text cannot hold
        clean = Value(text.replace("\x00", "�"), output_field=TextField())
        Attempt.objects.filter(run_id=run_id, number=attempt).update(
            log=Left(Concat("log", clean), LOG_LIMIT)
        )


@transaction.atomic
def receive(
    body: bytes,
    *,
    origin: Document.Origin,
    name: str = "",
    run: Run | None = None,
    attempt: int | None = None,
) -> tuple[Document, bool]:
    """Put a document into the inbox as it came. Returns (row, created): equal bytes are kept once."""
    sha256 = hashlib.sha256(body).hexdigest()
    return Document.objects.get_or_create(
        sha256=sha256,
        defaults={
            "body": body,
            "size": len(body),
            "origin": origin,
            "name": name[:300],
            "run": run,
            "attempt": attempt,
        },
    )


@transaction.atomic
def deliver(run_id: int, attempt: int, body: bytes) -> Document:
    """A worker's document into the inbox; ingest decides what becomes of it."""
    run = Run.objects.select_for_update().get(pk=run_id)
    document, created = receive(body, origin=Document.Origin.WORKER, run=run, attempt=attempt)
    if document.run_id != run_id:
        sentence = f"It delivered the very bytes of document {document.pk}, which came from elsewhere."
        fail(run_id, attempt, "known_document", sentence)
        return document
    if not created and document.state != Document.State.RECEIVED:
        return document
    if may_move(run.state, State.DELIVERED):
        Run.objects.filter(pk=run_id).update(
            state=State.DELIVERED, failure_code="", failure="", heartbeat_at=Now()
        )
    _close_attempt(run_id, attempt, "delivered")
    broker.ask_ingest(document.pk)
    return document


@transaction.atomic
def fail(run_id: int, attempt: int, code: str, sentence: str) -> bool:
    """End this attempt's run as failed, with one sentence for people. False if the run is no longer ours."""
    run = Run.objects.select_for_update().filter(pk=run_id, attempt=attempt, state=State.RUNNING).first()
    if run is None:
        return False
    _close_attempt(run_id, attempt, "failed", sentence)
    end(run, State.FAILED, code, sentence)
    return True


@transaction.atomic
def give_up_cancelled(run_id: int, attempt: int) -> None:
    """The worker has ended the child of a run that somebody cancelled."""
    run = Run.objects.select_for_update().filter(pk=run_id, attempt=attempt, state=State.RUNNING).first()
    if run is not None:
        _close_attempt(run_id, attempt, "cancelled")
        end(run, State.CANCELLED)


@transaction.atomic
def cancel(run: Run, user: User) -> bool:
    """Cancel what is queued; ask the worker of a running run to stop. False if it had ended already."""
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.state == State.QUEUED:
        end(run, State.CANCELLED)
    elif run.state == State.RUNNING:
        Run.objects.filter(pk=run.pk).update(cancel_requested_at=Coalesce("cancel_requested_at", Now()))
    else:
        return False
    audit.record(user, "cancel_run", f"run {run.pk}")
    return True


def end(run: Run, state: State, code: str = "", sentence: str = "") -> None:
    """Move a locked run to a final state, wake what waited for it, and tell listeners."""
    if not may_move(run.state, state):
        raise ValueError(f"run {run.pk}: {run.state} → {state} is not a legal move")
    run.state, run.failure_code, run.failure = state, code, sentence
    Run.objects.filter(pk=run.pk).update(state=state, failure_code=code, failure=sentence, finished_at=Now())
    broker.wake(Run.objects.filter(waits_for=run, state=State.QUEUED).values_list("queue", flat=True))
    run_ended.send(sender=Run, run=run)


def _close_attempt(run_id: int, number: int, outcome: str, failure: str = "") -> None:
    Attempt.objects.filter(run_id=run_id, number=number).update(
        outcome=outcome, failure=failure, ended_at=Now()
    )


@transaction.atomic
def put_back(run_id: int, attempt: int, outcome: str = "put back") -> None:
    """A worker that stops or yields gives its run back; this does not count as a lost attempt."""
    run = Run.objects.select_for_update().filter(pk=run_id, attempt=attempt, state=State.RUNNING).first()
    if run is not None:
        _close_attempt(run_id, attempt, outcome)
        run.state = State.QUEUED
        run.save(update_fields=["state"])
        broker.wake([run.queue])


@transaction.atomic
def release(worker: str) -> None:
    """A worker that has just started cannot be working: what it held in an earlier life is lost."""
    for run in Run.objects.select_for_update().filter(state=State.RUNNING, worker=worker):
        _take_up_again(run, "its worker was started anew")


def _take_up_again(run: Run, reason: str) -> bool:
    """Queue a locked run whose heart stopped; end it if cancelled or lost too often. True if queued."""
    _close_attempt(run.pk, run.attempt, "lost", reason)
    lost = Attempt.objects.filter(run=run, outcome="lost").count()
    if run.cancel_requested_at is not None:
        end(run, State.CANCELLED)
    elif lost >= settings.MAX_ATTEMPTS:
        sentence = f"Its worker was lost in each of {lost} attempts, last {run.worker}: {reason}."
        end(run, State.FAILED, WORKER_LOST, sentence)
    else:
        run.state = State.QUEUED
        run.save(update_fields=["state"])
        broker.wake([run.queue])
        return True
    return False


def _postgres_listened() -> bool:
    """Whether Postgres has been up for as long as a heart may be silent: while it is away nobody can beat."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT now() - pg_postmaster_start_time() > make_interval(secs => %s)",
            [settings.HEARTBEAT_TIMEOUT_S],
        )
        return bool(cursor.fetchone()[0])


@transaction.atomic
def sweep() -> int:
    """Take up runs whose heart stopped, ask again for documents not ingested, wake queues that have work.

    Returns how many runs were queued again.
    """
    silent = Now() - dt.timedelta(seconds=settings.HEARTBEAT_TIMEOUT_S)
    requeued = 0
    lost = Run.objects.select_for_update(skip_locked=True).filter(
        state=State.RUNNING, heartbeat_at__lt=silent
    )
    for run in lost if _postgres_listened() else ():
        if _take_up_again(run, f"no heartbeat for {settings.HEARTBEAT_TIMEOUT_S} s"):
            requeued += 1
    waiting = Document.objects.filter(state=Document.State.RECEIVED, received_at__lt=silent)
    for document_id in waiting.values_list("pk", flat=True)[:100]:
        broker.ask_ingest(document_id)
    broker.wake(Run.objects.filter(_RUNNABLE).values_list("queue", flat=True))
    return requeued
