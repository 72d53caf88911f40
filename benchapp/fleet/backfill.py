"""Backfill: what an ask, or a schedule's window in the past, has no data of, asked for now.

What is measured carries the time at which it is measured. Pages that compare versions order by version, so
an old version measured today stands where it belongs.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from benchapp.catalog.digests import digest
from benchapp.catalog.versions import version_order
from benchapp.fleet import asks, offers, planning, schedules
from benchapp.fleet.ask_fields import NEWEST
from benchapp.fleet.ask_kinds import MEASURED
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Firing, Schedule, WatchedRelease
from benchapp.fleet.releases import is_final
from benchapp.fleet.targets import describe
from benchapp.people.models import User
from benchapp.runs import queues
from benchapp.runs.actions import Asked, Request, identity
from benchapp.runs.models import Document, Job, Run
from benchapp.runs.states import ACTIVE
from benchapp.tiles.models import Listing

#: What can be told to have data or not.
WHAT = ("survey", *MEASURED)
LONGEST_WINDOW = dt.timedelta(days=92)
MOST_DUE = 1000


class Have(enum.StrEnum):
    """Whether a version on a target has data."""

    DATA = "has data"
    UNDER_WAY = "under way"
    MISSING = "missing"


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    version: str
    target: str
    have: Have
    #: the target in words
    on: str

    def __str__(self) -> str:
        return f"{self.version} on {self.on}: {self.have}"


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Due times of a schedule without data for which the same would have been asked."""

    ask: Ask
    due: tuple[dt.datetime, ...]


def since(ask: Ask, first: str) -> Ask:
    """The ask for every release known from `first` on, instead of the versions it names."""
    least = version_order(first)
    wanted = [v for v in offers.releases(ask.package) if is_final(v) and version_order(v) >= least]
    if not wanted:
        raise ValidationError({"since": f"No release of {ask.package} from {first[:40]} on is known here."})
    return Ask.from_json(ask.as_json() | {"versions": wanted[::-1]})


def items(ask: Ask) -> list[Item]:
    """Each version on each target, and whether it has accepted data. Raises ValidationError."""
    if ask.what not in WHAT:
        raise ValidationError({"what": f"{ask.what} cannot be backfilled: expected {', '.join(WHAT)}."})
    machines = offers.Machines.read()
    asks.check(ask, machines)
    requests = asks.to_requests(asks.resolved(ask), machines.hosts)
    surveyed = _surveyed() if ask.what == "survey" else set()
    under_way = planning.under_way([request for _, request in requests])
    found = []
    for target, request in requests:
        version = request.versions[ask.package]
        if (target, version) in surveyed or _accepted(ask, target, request).exists():
            have = Have.DATA
        elif identity(request) in under_way:
            have = Have.UNDER_WAY
        else:
            have = Have.MISSING
        found.append(Item(version, target, have, describe(target, machines.hosts)))
    return found


def _surveyed() -> set[tuple[str, str]]:
    """(target, version) of FlashInfer whose lists a survey has read, wherever that was."""
    read = Listing.objects.filter(release__package="flashinfer").order_by()
    pairs = read.values_list("arch", "release__version").distinct()
    return {(f"arch:{arch}", version) for arch, version in pairs}


def _accepted(ask: Ask, target: str, request: Request) -> QuerySet[Document]:
    """Accepted documents of runs that did the very work of a request on its target."""
    done = Document.objects.filter(
        state=Document.State.ACCEPTED, run__kind=request.kind, run__recipe__digest=digest(request.versions)
    )
    if ask.what == "survey":
        return done.filter(run__params=request.params)
    alike = {f"run__params__{name}": value for name, value in ask.options.items()}
    if not ask.backends:
        alike["run__params__backends__isnull"] = True  # some of them are not all
    return done.filter(_measured_on(target), run__params__cases=request.params["cases"], **alike)


def _measured_on(target: str) -> Q:
    kind, _, which = target.partition(":")
    if kind == "cpu":
        return Q(target__kind="cpu") & (Q(run__worker__endswith=f"/{which}") if which else Q())
    if kind == "gang":
        return Q(run__gpus=which.split("+"))
    alone = Q(run__gpus=[])
    if kind == "model":
        models = (
            Document.objects.filter(target__kind="gpu").order_by().values_list("target__model", flat=True)
        )
        return alone & Q(target__model__in=[name for name in models.distinct() if queues.slug(name) == which])
    return alone & (Q(target__uuid=which) if kind == "gpu" else Q(target__kind="gpu", target__arch=which))


def fill(ask: Ask, of: Sequence[Item], *, user: User | None) -> list[Asked]:
    """Ask for what is missing: one job for each set of targets that the same versions lack.

    What was asked for before and failed is asked for again, what has data never.
    """
    lacking: dict[str, list[str]] = defaultdict(list)
    for item in of:
        if item.have is Have.MISSING:
            lacking[item.version].append(item.target)
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for version, targets in lacking.items():
        together[tuple(targets)].append(version)
    return [
        _ask(dataclasses.replace(ask, versions=tuple(versions), targets=targets), "Backfill", user)
        for targets, versions in together.items()
    ]


@transaction.atomic
def _ask(ask: Ask, what: str, user: User | None) -> Asked:
    asked = asks.request(ask, user=user, source=Job.Source.BACKFILL)
    if asked.created:
        asked.job.title = f"{what}: {asked.job.title}"[:200]
        asked.job.save(update_fields=["title"])
    return asked


def gaps(schedule: Schedule, start: dt.datetime, end: dt.datetime) -> list[Gap]:
    """The due times from `start` to `end` without data, by what was newest then. Raises ValidationError."""
    if not dt.timedelta() < end - start <= LONGEST_WINDOW:
        raise ValidationError({"end": f"Expected a window of at most {LONGEST_WINDOW.days} days."})
    end = min(end, schedules.now())
    due = schedules.times(schedule).between(start - dt.timedelta(microseconds=1), end)
    if len(due) > MOST_DUE:
        raise ValidationError(
            {"end": f"{len(due):,} due times: expected a window with at most {MOST_DUE:,}."}
        )
    ask = Ask.from_json(schedule.ask)
    accepted = Document.objects.filter(run__job=OuterRef("job"), state=Document.State.ACCEPTED)
    active = Run.objects.filter(job=OuterRef("job"), state__in=ACTIVE)
    served = Q(Exists(accepted)) | Q(Exists(active))
    fired = schedule.firings.filter(served, due_at__gte=start, due_at__lte=end)
    filled = set(fired.values_list("due_at", flat=True))
    by_ask: dict[Ask, list[dt.datetime]] = defaultdict(list)
    for moment in due:
        if moment not in filled:
            by_ask[newest_then(ask, moment)].append(moment)
    return [Gap(wanted, tuple(moments)) for wanted, moments in by_ask.items()]


def newest_then(ask: Ask, moment: dt.datetime) -> Ask:
    """The ask with the release that was newest at a moment in place of the word.

    What the first look of the release watch found was there before; when it came is not known.
    """
    if NEWEST not in ask.versions:
        return ask
    seen = WatchedRelease.objects.filter(package=offers.ON_INDEX[ask.package])
    known = seen.filter(Q(first_seen_at__lte=moment) | Q(new=False)).values_list("version", flat=True)
    newest = max((version for version in known if is_final(version)), key=version_order, default=None)
    return asks.resolved(ask, newest)


def fill_gaps(schedule: Schedule, found: Iterable[Gap], *, user: User | None) -> list[Asked]:
    """Ask now for each gap, once for all of its due times, which are told of the job."""
    return [_fill_gap(schedule, gap, user) for gap in found]


@transaction.atomic
def _fill_gap(schedule: Schedule, gap: Gap, user: User | None) -> Asked:
    first, last = gap.due[0], gap.due[-1]
    days = f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    asked = _ask(gap.ask, f"Backfill of {schedule.name}, {days}", user)
    said = "Backfilled: measured when this job ran, not when it was due."
    known: Mapping[dt.datetime, Firing] = {
        firing.due_at: firing for firing in schedule.firings.filter(due_at__in=gap.due)
    }
    for moment in gap.due:
        firing = known.get(moment) or Firing(schedule=schedule, due_at=moment)
        before = f"Before: {firing.get_outcome_display()}. {firing.sentence}" if firing.pk else ""
        firing.outcome, firing.by_hand, firing.job = Firing.Outcome.ASKED, True, asked.job
        firing.sentence, firing.checked = f"{said} {before}".strip(), False
        firing.save()
    return asked
