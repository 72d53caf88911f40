"""What must be true after a soak, each with a sentence and, where it is not true, the evidence."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from django.db.models import Count, Q

from bench.soak_chaos import Chaos
from bench.soak_load import Load
from bench.soak_place import Place
from bench.soak_plan import CHILDREN, Asked, overlaps
from benchapp.alerts.models import Event
from benchapp.people.models import AuditEntry
from benchapp.runs.models import Attempt, Document, Run, State
from benchapp.runs.states import FINAL

#: An attempt that was lost too often fails with this, whatever its child would have done.
LOST = "worker_lost"
#: and one whose child was killed, with this
CRASHED = "crashed"
SHOWN = 5

Intervals = dict[str, list[tuple[float, float, str]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    sentence: str
    #: what contradicts it
    against: list[str]

    def __str__(self) -> str:
        mark = "✓" if not self.against else "✗"
        shown = self.against[:SHOWN]
        rest = [f"and {len(self.against) - SHOWN} more"] if len(self.against) > SHOWN else []
        return "\n".join([f"{mark} {self.sentence}", *(f"    {each}" for each in (*shown, *rest))])


def checks(load: Load, chaos: Chaos, place: Place) -> list[Check]:
    """All of them, read from the database, the children's own notes and the disk."""
    asked = load.asked
    runs = list(Run.objects.filter(pk__in=asked).annotate(accepted=_accepted()).order_by("pk"))
    return [
        Check("each run that was asked for is there", _missing(asked, runs)),
        Check("each ended", [_said(run) for run in runs if run.state not in FINAL]),
        Check(
            "each that failed says why in a sentence",
            [_said(run) for run in runs if run.state == State.FAILED and not run.failure.strip()],
        ),
        Check(
            "each ended as its child did, or lost its worker too often",
            _unexpected(asked, runs, chaos.struck),
        ),
        Check(
            "each that is done has one accepted document, the others none",
            [_said(run) for run in runs if run.accepted != (run.state == State.DONE)],
        ),
        Check("each document that came late is kept as superseded", _not_superseded(chaos.late)),
        Check("each that was cancelled had been asked to", _wrongly_cancelled(asked, runs, load.cancelled)),
        Check(
            "no GPU had two children at one time, by their own notes on the host's raw clock",
            _together(by_children(place.evidence)),
        ),
        Check(
            "no GPU had two leases at one time, by what workers recorded",
            _together(by_leases(asked)),
        ),
        Check("no document is left in a spool or in the inbox", _undelivered(place)),
        Check("each end was told to those who listen, and each request is in the audit", _untold(asked)),
    ]


def _accepted() -> Count:
    return Count("documents", filter=Q(documents__state=Document.State.ACCEPTED))


def _said(run: Run) -> str:
    return f"run {run.pk}, {run.state}, attempt {run.attempt}: {run.failure or run.progress_message or '–'}"


def _missing(asked: Iterable[int], runs: Sequence[Run]) -> list[str]:
    there = {run.pk for run in runs}
    return [f"run {pk}" for pk in asked if pk not in there]


def _unexpected(asked: Mapping[int, Asked], runs: Sequence[Run], struck: Collection[int]) -> list[str]:
    found = []
    for run in runs:
        child = asked[run.pk].child
        expected = {*CHILDREN[child], LOST, *([CRASHED] if run.pk in struck else [])}
        if run.state in (State.DONE, State.FAILED) and run.failure_code not in expected:
            found.append(f"{child!r}, {_said(run)} ({run.failure_code or 'done'})")
    return found


def _not_superseded(late: Iterable[int]) -> list[str]:
    odd = Document.objects.filter(pk__in=late).exclude(state=Document.State.SUPERSEDED)
    return [f"document {row.pk} of run {row.run_id} is {row.state}" for row in odd]


def _wrongly_cancelled(asked: Mapping[int, Asked], runs: Sequence[Run], cancelled: int) -> list[str]:
    found = [
        _said(run) for run in runs if run.state == State.CANCELLED and asked[run.pk].cancelled_after_s is None
    ]
    number = sum(run.state == State.CANCELLED for run in runs)
    if number > cancelled:
        found.append(f"{number} were cancelled, {cancelled} were asked to")
    return found


def by_children(evidence: Path) -> Intervals:
    """When each child was on each GPU: from its first note to its last."""
    notes: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in evidence.read_text().splitlines():
        moment, _, gpus, attempt = line.split()
        for gpu in gpus.split(","):
            notes[gpu, attempt].append(float(moment))
    found: Intervals = defaultdict(list)
    for (gpu, attempt), moments in notes.items():
        found[gpu].append((min(moments), max(moments), attempt))
    return found


def by_leases(asked: Iterable[int]) -> Intervals:
    """When each attempt held each GPU. Of one whose worker was lost only its start is known."""
    found: Intervals = defaultdict(list)
    for attempt in Attempt.objects.filter(run__in=list(asked), lease_from__isnull=False):
        assert attempt.lease_from is not None
        since = attempt.lease_from.timestamp()
        until = attempt.lease_to.timestamp() if attempt.lease_to else since
        for gpu in attempt.gpus:
            found[gpu].append((since, until, f"{attempt.run_id}-{attempt.number}"))
    return found


def _together(intervals: Intervals) -> list[str]:
    if not intervals:
        return ["nothing was recorded"]
    return [
        f"GPU {gpu}: {one} and {other}" for gpu, held in intervals.items() for one, other in overlaps(held)
    ]


def _undelivered(place: Place) -> list[str]:
    waiting = Document.objects.filter(state=Document.State.RECEIVED)
    return [str(path) for path in place.spooled()] + [f"document {row.pk}" for row in waiting]


def _untold(asked: Mapping[int, Asked]) -> list[str]:
    found = [_said(run) for run in Run.objects.filter(pk__in=asked, told=False)]
    requests = AuditEntry.objects.filter(action="request_run", subject__in=[f"run {pk}" for pk in asked])
    if requests.count() != len(asked):
        found.append(f"{requests.count()} requests are in the audit, {len(asked)} were made")
    failed = Run.objects.filter(pk__in=asked, state=State.FAILED)
    events = Event.objects.filter(kind="run_failed")
    if events.count() < failed.count():
        found.append(f"{events.count()} events tell of {failed.count()} runs that failed")
    return found
