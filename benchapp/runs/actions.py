"""Every write on jobs and runs. Time is Postgres' time; a conditional UPDATE decides every race."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Min, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from benchapp.catalog.digests import digest, environment_name
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Recipe, Target
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import broker
from benchapp.runs.latest import find_good_again
from benchapp.runs.models import Document, Job, Run, State
from benchapp.runs.signals import run_ended, run_judged, runs_asked
from benchapp.runs.states import ACTIVE, FINAL, may_move

logger = logging.getLogger(__name__)

#: An attempt's log is kept up to this many characters; `worker_api.sql` cuts it.
LOG_LIMIT = 1_000_000
RUNNABLE = Q(state=State.QUEUED) & (Q(waits_for=None) | Q(waits_for__state__in=FINAL))
#: Of runs that name none of their own. Below 0 would be background work.
PRIORITIES = {
    Job.Source.PERSON: 10,
    Job.Source.COMMAND: 10,
    Job.Source.FOLLOW_UP: 10,
    Job.Source.SCHEDULE: 5,
    Job.Source.RELEASE_WATCH: 3,
    Job.Source.BACKFILL: 1,
    Job.Source.FIRST_START: 0,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One run that somebody wants: what the bench is told, with which versions, on which queue.

    Without a priority of its own it goes by who asks. Below 0 it runs in the background, and makes way.
    """

    kind: Run.Kind
    title: str
    queue: str
    versions: dict[str, str]
    params: dict[str, Any]
    target: Target | None = None
    priority: int | None = None
    #: it runs in the recipe's environment, so its host must have built that before
    needs_environment: bool = False
    #: UUIDs of a gang, in the order in which they are taken
    gpus: tuple[str, ...] = ()
    time_limit_s: int | None = None
    #: versions of the old environment of an A/B, `versions` being the new one's
    beside: dict[str, str] | None = None

    @property
    def recipes(self) -> tuple[dict[str, str], ...]:
        """Versions of each environment that it runs in."""
        return (self.versions,) if self.beside is None else (self.versions, self.beside)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What came of a request: each run, and whether it is new. Without a new run the job is an older one."""

    job: Job
    runs: list[tuple[Run, bool]]
    #: a job was made now
    created: bool


@transaction.atomic
def request_job(
    requests: Sequence[Request],
    *,
    title: str,
    user: User | None,
    source: Job.Source,
    key: str | None = None,
    asked: dict[str, Any] | None = None,
    waits_for: Run | None = None,
) -> Asked:
    """Queue runs as one job and wake their queues. The same `key` again gives the job that it made.

    An equal run under way is not asked for twice; whoever needs it sooner takes its priority along. `asked`
    is what the trigger page would be filled with. Raises ValueError for no requests.
    """
    if not requests:
        raise ValueError("a job needs at least one run")
    if key is not None:
        lock(f"job:{key}")
        made = Job.objects.filter(key=key).first()
        if made is not None:
            return Asked(made, [(run, False) for run in made.runs.order_by("pk")], False)
    distinct = {identity(request): request for request in requests}
    requests = list(distinct.values())
    for each in sorted(distinct):  # in one order, so that two jobs never wait for each other
        lock(f"request:{each}")
    recipes = {
        name: _recipe(versions)
        for name, versions in {digest(v): v for request in requests for v in request.recipes}.items()
    }
    beside = [None if request.beside is None else recipes[digest(request.beside)] for request in requests]
    found: list[Run | None] = [
        _under_way(request, recipes[digest(request.versions)], old)
        for request, old in zip(requests, beside, strict=True)
    ]
    job = next((run.job for run in found if run is not None), None)
    created = None in found
    if created:
        job = Job.objects.create(
            title=title[:200], source=source, requested_by=user, key=key, asked=asked or {}
        )
    assert job is not None
    turns: dict[str, int] = {}
    runs: list[tuple[Run, bool]] = []
    for request, old, same in zip(requests, beside, found, strict=True):
        priority = PRIORITIES[source] if request.priority is None else request.priority
        if same is not None:
            Run.objects.filter(pk=same.pk, priority__lt=priority).update(priority=priority)
            runs.append((same, False))
            continue
        if request.queue not in turns:
            turns[request.queue] = _first_turn(request.queue)
        turn = turns[request.queue]
        turns[request.queue] += 1
        run = Run.objects.create(
            job=job,
            kind=request.kind,
            queue=request.queue,
            recipe=recipes[digest(request.versions)],
            target=request.target,
            params=request.params,
            environment=environment_name(request.versions) if request.needs_environment else "",
            recipe_beside=old,
            environment_beside="" if request.beside is None else environment_name(request.beside),
            gpus=list(request.gpus),
            time_limit_s=request.time_limit_s,
            waits_for=waits_for,
            priority=priority,
            turn=turn,
        )
        audit.record(user, "request_run", f"run {run.pk}", title=request.title, source=source)
        runs.append((run, True))
    broker.wake(run.queue for run, _ in runs)
    if created:
        runs_asked.send(sender=Run, runs=[run for run, new in runs if new])
    return Asked(job, runs, created)


def request_run(
    request: Request, *, user: User | None, source: Job.Source, waits_for: Run | None = None
) -> tuple[Run, bool]:
    """Queue one run as a job of its own. Returns (run, created); see `request_job`."""
    asked = request_job([request], title=request.title, user=user, source=source, waits_for=waits_for)
    return asked.runs[0]


def identity(run: Request | Run) -> str:
    """What two runs that do the very same have in common. Of a Run it needs `recipe` and `recipe_beside`."""
    old: dict[str, str] | None
    if isinstance(run, Request):
        versions, old = run.versions, run.beside
    else:
        versions = run.recipe.versions
        old = None if run.recipe_beside is None else run.recipe_beside.versions
    return digest(
        {
            "kind": run.kind,
            "versions": versions,
            "params": run.params,
            "queue": run.queue,
            "gpus": list(run.gpus),
            **({"beside": old} if old is not None else {}),
        }
    )


def _recipe(versions: dict[str, str]) -> Recipe:
    return Recipe.objects.get_or_create(digest=digest(versions), defaults={"versions": versions})[0]


def _under_way(request: Request, recipe: Recipe, beside: Recipe | None) -> Run | None:
    """A run under way that does the very same."""
    return (
        Run.objects.filter(
            kind=request.kind,
            queue=request.queue,
            recipe=recipe,
            recipe_beside=beside,
            params=request.params,
            gpus=list(request.gpus),
            state__in=ACTIVE,
        )
        .select_related("job")
        .first()
    )


def _first_turn(queue: str) -> int:
    """The turn of a new job's first run: level with whoever is next, so that a long job does not hold up the
    others of its priority, and nobody is passed over for ever."""
    lowest = Run.objects.filter(queue=queue, state__in=ACTIVE).aggregate(turn=Min("turn"))["turn"]
    return lowest or 0


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
def cancel(run: Run, user: User | None) -> bool:
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
    _tell(run)


def _tell(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(told=True)
    broker.wake(Run.objects.filter(waits_for=run, state=State.QUEUED).values_list("queue", flat=True))
    run_ended.send(sender=Run, run=run)


def tell_ended() -> int:
    """Tell listeners of runs that workers ended, which workers cannot do themselves; how many there were.

    A run whose listeners fail is tried again with the next call, and holds up no other.
    """
    told, failed = 0, 0
    while True:
        try:
            with transaction.atomic():
                run = (
                    Run.objects.select_for_update(skip_locked=True, of=("self",))
                    .filter(state__in=FINAL, told=False, pk__gt=failed)
                    .order_by("pk")
                    .first()
                )
                if run is None:
                    return told
                _tell(run)
            told += 1
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            assert run is not None  # its listeners are what failed
            logger.exception("run %s: its end could not be told", run.pk)
            failed = run.pk


def cancel_job(job: Job, user: User) -> int:
    """Cancel all of a job's runs that have not ended, each as `cancel` does. Returns how many."""
    active = job.runs.filter(state__in=ACTIVE).order_by("pk")
    return sum(cancel(run, user) for run in active)


@transaction.atomic
def mark_invalid(run: Run, user: User, reason: str) -> bool:
    """Take an ended run out of detection and ranking, or with an empty reason back into them.

    It stays visible, and each series falls back to its newest measurement that may rank.
    False, and nothing done, while the run has not ended or where it stands so already.
    """
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.state not in FINAL or run.invalid_reason == reason:
        return False
    run.invalid_reason = reason
    run.save(update_fields=["invalid_reason"])
    find_good_again(run.pk)
    run_judged.send(sender=Run, run=run)
    audit.record(user, "mark_invalid" if reason else "mark_valid", f"run {run.pk}", reason=reason)
    return True


def postgres_listened(seconds: float) -> bool:
    """Whether Postgres has been up for so long: while it is away nobody can beat or report."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() - pg_postmaster_start_time() > make_interval(secs => %s)", [seconds])
        return bool(cursor.fetchone()[0])


def _silent_runs() -> QuerySet[Run]:
    silent = Now() - dt.timedelta(seconds=settings.HEARTBEAT_TIMEOUT_S)
    return Run.objects.filter(state=State.RUNNING, heartbeat_at__lt=silent)


@transaction.atomic
def _take_up_again(run_id: int, reason: str) -> bool:
    """Queue a run whose heart stopped; end it if cancelled or lost too often. True if queued."""
    # looked at again under its lock: another sweep may have queued it, and a worker be at it since
    if not _silent_runs().select_for_update(skip_locked=True).filter(pk=run_id).exists():
        return False  # somebody is at it, perhaps its worker; a host's open transaction holds up no sweep
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker.take_up_again(%s, %s, %s)", [run_id, reason, settings.MAX_ATTEMPTS])
        return bool(cursor.fetchone()[0])


def sweep() -> int:
    """Take up runs whose heart stopped, ask again for documents not ingested, wake queues that have work.

    Returns how many runs were queued again.
    """
    reason = f"no heartbeat for {settings.HEARTBEAT_TIMEOUT_S} s"
    requeued = 0
    listened = postgres_listened(settings.HEARTBEAT_TIMEOUT_S)
    for run_id in _silent_runs().values_list("pk", flat=True) if listened else ():
        requeued += _take_up_again(run_id, reason)
    silent = Now() - dt.timedelta(seconds=settings.HEARTBEAT_TIMEOUT_S)
    waiting = Document.objects.filter(state=Document.State.RECEIVED, received_at__lt=silent)
    for document_id in waiting.values_list("pk", flat=True)[:100]:
        broker.ask_ingest(document_id)
    broker.wake(Run.objects.filter(RUNNABLE).values_list("queue", flat=True).distinct())
    tell_ended()  # last: a listener that fails must not keep work from the queues
    return requeued
