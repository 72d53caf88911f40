"""The release watch: what pip's configured index offers, and one job for each release that is new."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.catalog.locks import lock
from benchapp.fleet import asks, builds, offers, words
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Gpu, WatchedRelease
from benchapp.fleet.schedule_queries import JobState, job_states
from benchapp.people import audit
from benchapp.runs.models import Job
from benchapp.runs.requests import gang_size
from benchapp.tiles.models import Listing
from benchapp.tiles.queries import FIRST_ARCH
from workers.bench.document import BenchError
from workers.bench.suites import SUITES
from workers.bench.suites.models import MODEL_SUITES
from workers.bench.tiles import pip, versions
from workers.bench.tiles.arches import ARCHES

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Package:
    """A package that is watched, and what a new version of it is good for here."""

    name: str
    label: str
    use: str
    surveyed: bool = False


PACKAGES = (
    Package(
        "flashinfer-python",
        "FlashInfer",
        "a new release is surveyed on every architecture surveyed before or served by the fleet, and "
        "measured on each kind of GPU that the fleet serves",
        surveyed=True,
    ),
    Package(
        "nvidia-cutlass",
        "CUTLASS",
        "recorded only: explorations read the newer CUTLASS that a FlashInfer wheel bundles",
    ),
    Package(
        "nvidia-cutlass-dsl",
        "CUTLASS DSL",
        "recorded only: its wheel holds Python that compiles on a GPU, and no headers to survey",
    ),
    Package(
        "sgl-kernel",
        "sgl-kernel",
        "recorded only: a rival of FlashInfer's GEMMs, whose releases can be asked for",
    ),
)
#: What measures a new release on GPUs of each architecture, and on all others, where no setting names it.
SUITES_BY_ARCH = dict.fromkeys(ARCHES, "glm-5-nvfp4") | {"sm90": "h200-core"}
SUITE = "step"
#: The same for decode steps of a whole model, on GPUs whose memory holds it.
MODEL_SUITE = "qwen3-30b-decode"
#: A release that came while the index hid it for long brings others along; these wait for the next look.
MOST_JOBS = 5
_LONGEST_VERSION = 60
#: So long, and so many, a release is news on the overview.
NEWS_FOR, MOST_NEWS = dt.timedelta(days=7), 5
#: The index may be away for so long before somebody is told.
PATIENCE = dt.timedelta(hours=24)
_AWAY, _BACK, _SILENT = "release_index_away", "release_index_back", "release_watch_blind"


def watch(offered: Callable[[str, Path], Sequence[str]] = pip.wheels) -> list[WatchedRelease]:
    """Ask the index for every package. Returns the releases that are new; an index that is away is no error.

    `offered` gives the versions of a package that have a wheel, and raises BenchError.
    """
    new: list[WatchedRelease] = []
    fault = ""
    with tempfile.TemporaryDirectory() as scratch:
        for package in PACKAGES:
            try:
                found = offered(package.name, Path(scratch))
            except BenchError as error:
                if error.code == "unknown_version" and not package.surveyed:
                    continue  # an index need not hold it
                fault = error.sentence
                break  # the others would only wait for the same index
            new += record(package, found)
    _note(fault)
    ask_for_new()
    return list(WatchedRelease.objects.filter(pk__in=[row.pk for row in new]))


@transaction.atomic
def record(package: Package, offered: Sequence[str]) -> list[WatchedRelease]:
    """Rows for versions not seen before; those after the first look are new. Returns the new ones."""
    lock(f"release_watch:{package.name}")
    seen = set(WatchedRelease.objects.filter(package=package.name).values_list("version", flat=True))
    known = {versions.normalised_or_none(version) for version in offered}
    unseen = sorted(
        (
            version
            for version in known
            if version and len(version) <= _LONGEST_VERSION and version not in seen
        ),
        key=versions.sort_key,
    )
    rows = [WatchedRelease(package=package.name, version=version, new=bool(seen)) for version in unseen]
    WatchedRelease.objects.bulk_create(rows)
    for row in rows if seen else ():
        logger.info("new on the index: %s %s", row.package, row.version)
        audit.record(None, "found_release", f"{row.package} {row.version}")
    return rows if seen else []


def ask_for_new() -> list[Job]:
    """One job for each new release that can be surveyed and has none yet, at most MOST_JOBS at a time."""
    jobs = []
    surveyed = [package.name for package in PACKAGES if package.surveyed]
    waiting = WatchedRelease.objects.filter(package__in=surveyed, new=True, job=None).order_by("-pk")
    final = [row.pk for row in waiting if is_final(row.version)]
    for pk in final[:MOST_JOBS]:
        try:
            job = _ask(pk)
        except ValidationError as error:
            logger.error("release %s cannot be surveyed: %s", pk, " ".join(error.messages))
        else:
            jobs += [job] if job else []
    return jobs


@transaction.atomic
def _ask(pk: int) -> Job | None:
    row = WatchedRelease.objects.select_for_update().get(pk=pk)
    if row.job_id is not None:
        return None  # another watcher was first
    ask = Ask.from_json(
        {"what": "survey", "versions": [row.version], "targets": [f"arch:{arch}" for arch in arches()]}
    )
    asked = asks.request(ask, user=None, source=Job.Source.RELEASE_WATCH, key=f"release:{row.pk}")
    row.job = asked.job
    row.save(update_fields=["job"])
    for ask in benchmarks(row.version):
        asks.request(ask, user=None, source=Job.Source.RELEASE_WATCH, key=f"release:{row.pk}:{ask.suite}")
    return asked.job


def benchmarks(version: str) -> list[Ask]:
    """What measures a FlashInfer release: one ask a suite, on any GPU of each architecture that live workers
    serve, kernels first."""
    served = Gpu.objects.filter(present=True, served=True, installation__in=builds.live())
    arches = list(served.order_by("arch").values_list("arch", flat=True).distinct())
    by_suite: dict[tuple[str, str], list[str]] = defaultdict(list)
    for arch in arches:
        by_suite["gemm", _suite_of(arch)].append(f"gpuarch:{arch}")
    if arches and (suite := _model_suite()):
        by_suite["moe", suite] = [f"gpuarch:{arch}" for arch in arches]
    wanted = [
        Ask.from_json(
            {
                "what": what,
                "library": "flashinfer",
                "versions": [version],
                "targets": targets,
                "suite": suite,
            }
        )
        for (what, suite), targets in by_suite.items()
        if suite
    ]
    return [fitting for ask in wanted if (fitting := _fitting(ask)) is not None]


def _fitting(ask: Ask) -> Ask | None:
    """Without the targets whose memory is known not to hold its models; None where none is left."""
    if ask.what != "moe":
        return ask
    found = asks.estimates(ask, offers.Machines.read())
    targets = [at for at in ask.targets if all(each.fits for _, each in found[at] or ())]
    return dataclasses.replace(ask, targets=tuple(targets)) if targets else None


def _suite_of(arch: str) -> str:
    """The suite that measures a new release on GPUs of an architecture; "" for none."""
    suite = settings.RELEASE_SUITE
    if suite is None:
        suite = SUITES_BY_ARCH.get(arch, SUITE)
    return _known(suite, "TILEWATCH_RELEASE_SUITE", list(SUITES))


def _model_suite() -> str:
    """The suite of models, of one GPU, that measures a new release; "" for none."""
    suite = settings.RELEASE_MODEL_SUITE
    on_one = [name for name, cases in MODEL_SUITES.items() if gang_size(cases) == 1]
    return _known(MODEL_SUITE if suite is None else suite, "TILEWATCH_RELEASE_MODEL_SUITE", on_one)


def _known(suite: str, setting: str, known: Sequence[str]) -> str:
    """The suite; "" where nothing is called so, since a new release is surveyed all the same."""
    if suite and suite not in known:
        logger.error("no suite is called %r: %s takes one of %s", suite, setting, ", ".join(known))
        return ""
    return suite


def is_final(version: str) -> bool:
    """Whether it is a release proper: no pre-release, and no build of somebody's own."""
    return not versions.is_early(version) and "+" not in version


def arches() -> list[str]:
    """Those that surveys have looked at, those of the fleet's GPUs, and the first."""
    known = {FIRST_ARCH}
    known |= set(Listing.objects.order_by().values_list("arch", flat=True).distinct())
    known |= set(Gpu.objects.filter(present=True).values_list("arch", flat=True))
    return [arch for arch in ARCHES if arch in known]


@transaction.atomic
def _note(fault: str) -> None:
    """Keep whether the index answers, as events: one a change, and a warning when it is away for long."""
    lock("release_watch")
    away = away_since()
    if not fault:
        if away is not None:
            _event(_BACK, Event.Severity.INFO, "The package index answers again.", away)
    elif away is None:
        _event(_AWAY, Event.Severity.INFO, fault, _last())
    elif timezone.now() - away.at >= PATIENCE:
        said = f"No new release can be seen since {words.moment(away.at)}. {fault}"
        _event(_SILENT, Event.Severity.WARNING, said, away)


def _event(kind: str, severity: Event.Severity, sentence: str, after: Event | None) -> None:
    raise_event(
        kind,
        severity,
        subject="release watch",
        sentence=sentence,
        dedupe_key=f"{kind}:after:{after.pk if after else 0}",
    )


def _last() -> Event | None:
    return Event.objects.filter(kind__in=[_AWAY, _BACK]).order_by("-pk").first()


def away_since() -> Event | None:
    """The event since which the index has not answered; None while it does."""
    last = _last()
    return last if last is not None and last.kind == _AWAY else None


def known(package: Package) -> int:
    """How many versions of it have been seen."""
    return WatchedRelease.objects.filter(package=package.name).count()


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """A release that came lately, and how far its survey is; None where it has none."""

    release: WatchedRelease
    label: str
    job: JobState | None


def news() -> list[News]:
    """The releases proper that came lately, newest first. Two queries."""
    since = timezone.now() - NEWS_FOR
    rows = WatchedRelease.objects.filter(new=True, first_seen_at__gte=since)
    final = [row for row in rows if is_final(row.version)][:MOST_NEWS]
    states = job_states(row.job_id for row in final if row.job_id)
    return [News(row, label_of(row.package), states.get(row.job_id or 0)) for row in final]


def label_of(package: str) -> str:
    """A package as people call it."""
    return next((watched.label for watched in PACKAGES if watched.name == package), package)
