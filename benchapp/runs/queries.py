"""Reads on jobs, runs, logs and documents; the number of queries never grows with the rows."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, When, Window
from django.db.models.functions import Length, Right, RowNumber
from django.urls import reverse

from benchapp.runs.models import Attempt, Document, Job, Measurement, Run, State
from benchapp.runs.ranking import ranked
from benchapp.runs.signals import why_runs_wait
from benchapp.runs.states import ACTIVE, FINAL
from workers.bench.cases.parse import work_of

RUNS_A_PAGE = 50
#: Runs that tell how long another one usually takes: the newest.
HISTORY = 20
#: Results of one run shown on its page; all of them are in its document.
RESULTS_SHOWN = 500
#: Characters of a log shown on a page; the whole of it is served as plain text.
TAIL = 20_000

#: Escape sequences of terminals (colours, cursor moves), which a page cannot use.
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


@dataclasses.dataclass(frozen=True, slots=True)
class JobRuns:
    """A job and those of its runs that stand on this page."""

    job: Job
    runs: list[Run]


def runs_page(
    *, state: str | None, kind: str | None, job: int | None = None, number: str | None
) -> tuple[Page[Run], list[JobRuns]]:
    """One page of runs, newest first, and the same by job. A number that is no page falls back."""
    runs: QuerySet[Run] = Run.objects.select_related(
        "job__requested_by", "recipe", "target", "waits_for__job"
    ).order_by("-job_id", "-id")
    if state:
        runs = runs.filter(state=state)
    if kind:
        runs = runs.filter(kind=kind)
    if job:
        runs = runs.filter(job=job)
    page = Paginator(runs, RUNS_A_PAGE).get_page(number)
    groups = [JobRuns(job, list(group)) for job, group in groupby(page.object_list, key=lambda run: run.job)]
    return page, groups


def counts_by_state(job: int | None = None) -> dict[str, int]:
    """How many runs are in each state, of all or of one job; states without a run are missing."""
    runs = Run.objects.filter(job=job) if job else Run.objects.all()
    return dict(runs.order_by().values_list("state").annotate(Count("id")))


def job_or_none(job_id: int) -> Job | None:
    return Job.objects.select_related("requested_by").filter(pk=job_id).first()


def usual_s(run: Run) -> float | None:
    """Median seconds of the newest runs that did the same and ended well, of any version; None: none did."""
    return usual_of(run.kind, [(run.queue, run.params)])[0]


def usual_of(kind: str, wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[float | None]:
    """`usual_s` of each (queue, parameters), in one query."""
    distinct: list[Mapping[str, Any]] = []
    for _, params in wanted:
        if params not in distinct:
            distinct.append(params)
    if not distinct:
        return []
    which = Case(*(When(params=params, then=number) for number, params in enumerate(distinct)))
    done = Run.objects.filter(
        kind=kind,
        queue__in={queue for queue, _ in wanted},
        params__in=distinct,
        state=State.DONE,
    ).annotate(which=which)
    age = Window(RowNumber(), partition_by=[F("queue"), F("which")], order_by=F("pk").desc())
    newest = done.annotate(age=age).filter(age__lte=HISTORY).order_by()
    took: dict[tuple[str, int], list[float]] = defaultdict(list)
    for queue, number, started, finished in newest.values_list("queue", "which", "started_at", "finished_at"):
        if started and finished:
            took[queue, number].append((finished - started).total_seconds())
    times = [took.get((queue, distinct.index(params))) for queue, params in wanted]
    return [statistics.median(seconds) if seconds else None for seconds in times]


def active_runs(limit: int) -> list[Run]:
    """Runs under way, then those queued by their turn; at most `limit`."""
    turn = Case(When(state=State.DELIVERED, then=0), When(state=State.RUNNING, then=1), default=2)
    runs = Run.objects.filter(state__in=ACTIVE).select_related(
        "job__requested_by", "recipe", "target", "waits_for"
    )
    return list(runs.order_by(turn, "-priority", "id")[:limit])


def run_or_none(run_id: int) -> Run | None:
    return (
        Run.objects.select_related("job__requested_by", "recipe", "target__host", "waits_for__job")
        .filter(pk=run_id)
        .first()
    )


def why_it_waits(run: Run) -> str:
    """One sentence for a queued run; "" for any other."""
    return why_they_wait([run]).get(run.pk, "")


def why_they_wait(runs: Iterable[Run]) -> dict[int, str]:
    """One sentence for each of the runs that is queued: what it waits for, what listeners know to hold it up,
    or its place in the queue. Needs `waits_for__job`; one query beside those of listeners."""
    queued = [run for run in runs if run.state == State.QUEUED]
    said = {
        run.pk: f"Waits for run {run.waits_for.pk} ({run.waits_for.job.title}) to end."
        for run in queued
        if run.waits_for is not None and run.waits_for.state not in FINAL
    }
    rest = [run for run in queued if run.pk not in said]
    for _, answer in why_runs_wait.send(sender=Run, runs=rest) if rest else ():
        said |= cast("dict[int, str]", answer)
    rest = [run for run in rest if run.pk not in said]
    if not rest:
        return said
    ahead = (
        Run.objects.filter(queue=OuterRef("queue"), state__in=[State.QUEUED, State.RUNNING])
        .filter(
            Q(state=State.RUNNING)
            | Q(priority__gt=OuterRef("priority"))
            | Q(priority=OuterRef("priority"), turn__lt=OuterRef("turn"))
            | Q(priority=OuterRef("priority"), turn=OuterRef("turn"), pk__lt=OuterRef("pk"))
        )
        .order_by()
        .values("queue")
    )
    counted = Run.objects.filter(pk__in=[run.pk for run in rest]).annotate(
        running=Subquery(ahead.annotate(n=Count("id", filter=Q(state=State.RUNNING))).values("n")),
        all=Subquery(ahead.annotate(n=Count("id")).values("n")),
    )
    for pk, queue, running, everything in counted.values_list("pk", "queue", "running", "all"):
        said[pk] = _place(queue, running or 0, (everything or 0) - (running or 0))
    return said


def _place(queue: str, running: int, queued: int) -> str:
    if queued:
        return f"Number {queued + 1} in queue {queue}."
    if running:
        return f"Next in queue {queue}, which is busy."
    return (
        f"Next in queue {queue}; a worker that is free takes it up at once, one that is busy when it is done."
    )


def attempts_of(run: Run) -> list[Attempt]:
    """Attempts, newest first, with `log_length` and the end of the log as `tail` (characters)."""
    return list(
        run.attempts.defer("log")
        .annotate(log_length=Length("log"), tail=Right("log", TAIL))
        .order_by("-number")
    )


def readable(log: str) -> str:
    """A log without terminal escapes; a line that was drawn over and over shows its last state."""
    lines = ESCAPES.sub("", log).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def readable_tail(attempt: Attempt) -> str:
    """The end of an attempt's log, beginning with a whole line."""
    tail: str = attempt.tail  # type: ignore[attr-defined]
    if attempt.log_length > len(tail):  # type: ignore[attr-defined]
        tail = tail.partition("\n")[2] or tail
    return readable(tail)


def attempt_log(run_id: int, number: int) -> str | None:
    """The whole log of one attempt as it was written; None if there is no such attempt."""
    return Attempt.objects.filter(run_id=run_id, number=number).values_list("log", flat=True).first()


def pulse(run: Run, attempts: list[Attempt], waits: str) -> str:
    """An ETag of all that the progress fragment of a run shows."""
    shown: list[Any] = [
        run.state, run.attempt, run.worker, run.heartbeat_at, run.cancel_requested_at, run.progress_done,
        run.progress_total, run.progress_message, run.failure, waits,
    ]  # fmt: skip
    shown += [(a.number, a.outcome, a.log_length, a.lease_from, a.lease_to) for a in attempts]  # type: ignore[attr-defined]
    return etag(shown)


def etag(shown: object) -> str:
    return f'"{hashlib.sha256(repr(shown).encode()).hexdigest()[:32]}"'


def documents_of(run: Run) -> list[Document]:
    """Documents that the run delivered, newest first, without their bodies."""
    return list(run.documents.defer("body").select_related("target", "stack"))


def document_or_none(document_id: int) -> Document | None:
    return Document.objects.filter(pk=document_id).first()


def repeat_command(document: Document | None) -> str:
    """The command line that repeats the run, as its document tells it; "" if it tells none."""
    command = document.facts.get("command") if document else None
    return shlex.join(str(word) for word in command) if isinstance(command, list) else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """Measurements of one document, and how many there are in all."""

    rows: list[Measurement]
    total: int

    @property
    def cut(self) -> bool:
        return self.total > len(self.rows)


def results_of(document: Document | None) -> Results:
    """What was measured, by case. Rates are computed by `Measurement` rows' flops over median seconds."""
    if document is None:
        return Results([], 0)
    rows = Measurement.objects.filter(document=document)
    total = rows.count()
    shown = rows.select_related("series__case", "series__target").order_by("measured_at", "id")
    return Results(list(shown[:RESULTS_SHOWN]) if total else [], total)


def compared(document: Document | None) -> list[tuple[Any, list[tuple[str, str, str]]]]:
    """The first comparisons of an A/B, which the room of alerts keeps, in its order; each with
    the (component, before, after) in which its stacks differ."""
    if document is None or document.kind != "confirm":
        return []
    rows = document.comparisons.select_related("case", "target", "old_stack", "new_stack").order_by("pk")
    return [
        (row, _differing(row.old_stack.components, row.new_stack.components)) for row in rows[:RESULTS_SHOWN]
    ]


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = sorted(old.keys() | new.keys())
    return [
        (name, old.get(name, "none"), new.get(name, "none"))
        for name in names
        if old.get(name) != new.get(name)
    ]


def source_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """(address, in words) of what brought a measurement: its run, or its document where it came without."""
    run, document = row["run_id"], row["document_id"]
    if run:
        return reverse("runs:detail", args=[run]), f"run {run}"
    return reverse("runs:document", args=[document]), f"document {document}"


def fastest(document: Document, kinds: Collection[str] = ()) -> Measurement | None:
    """The measurement with the highest rate of those that may rank, of these kinds of case if any are named;
    None where none may."""
    rated = Measurement.objects.filter(ranked(), document=document, flops__gt=0, median__gt=0)
    if kinds:
        rated = rated.filter(series__case__kind__in=kinds)
    return (
        rated.select_related("series__case", "series__target")
        .order_by((F("flops") / F("median")).desc(), "id")
        .first()
    )


def rate(measurement: Measurement) -> float | None:
    """FLOP/s of the median; None where nothing was measured, or no peak is stated for such work."""
    case = measurement.series.case
    work = work_of(case.kind, case.params)
    rated = work is None or work.rate is not None
    if not measurement.median or not measurement.flops or not rated:
        return None
    return measurement.flops / measurement.median


def traffic(measurement: Measurement) -> float | None:
    """GB/s of compulsory traffic by the median; None where it is not known."""
    if not measurement.median or not measurement.bytes:
        return None
    return measurement.bytes / measurement.median / 1e9
