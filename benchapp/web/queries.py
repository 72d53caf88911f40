"""What the overview shows: what needs a look, what runs, the newest figures, coverage and age of data."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from benchapp.alerts.models import Alert, Event
from benchapp.alerts.queries import Standing, for_overview, standing
from benchapp.catalog import places
from benchapp.catalog.models import Target
from benchapp.catalog.versions import is_candidate, version_order
from benchapp.moe.queries import FACTS as STEP_FACTS
from benchapp.runs import steps
from benchapp.runs.models import Document, Latest, Measurement, Run, State
from benchapp.runs.queries import active_runs, etag, fastest, rate
from benchapp.runs.ranking import RANKED_OUTCOMES, ranked
from benchapp.runs.states import ACTIVE, FINAL
from benchapp.tiles import families
from benchapp.tiles.fates import FITTING
from benchapp.tiles.models import Evidence, Verdict
from benchapp.tiles.queries import FIRST_ARCH, FIRST_INPUTS
from benchapp.trends import utilisation
from workers.bench.cases.model import Decode
from workers.bench.cases.parse import from_params
from workers.bench.document import BenchError, Step

#: Older failures are history, to be found on the runs page.
LOOK_BACK = dt.timedelta(days=7)
LOOKS_SHOWN = 20
ACTIVE_SHOWN = 8
NEWEST_SHOWN = 8
#: Models on the overview, and newest measurements looked through for them.
MODELS_SHOWN, MODEL_ROWS = 8, 1000
#: Kinds of runs that leave a document, by what a narrow column calls them.
MEASURING = {
    Run.Kind.TILES: "Tiles",
    Run.Kind.GEMM: "GEMM",
    Run.Kind.MOE: "MoE",
    Run.Kind.SERVING: "Serving",
}
#: Kinds of case that are matrix products.
GEMMS = ("gemm", "grouped_gemm")
#: Of a stack, what names it shortest.
MAIN_COMPONENTS = ("flashinfer", "torch")
#: Events that a failed run or a rejected document speaks for itself.
TOLD_ELSEWHERE = ("run_failed", "document_rejected")
#: Events that a later one of the same subject takes back.
TAKEN_BACK = {"gpu_lost": "gpu_back", "host_silent": "host_back"}


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One thing for a person to look at."""

    tag: str
    #: "failed" or "uncertain": the class of its tag
    look: str
    what: str
    sentence: str
    at: dt.datetime
    run_id: int | None = None


def needs_a_look() -> list[Look]:
    """Failed runs that no equal run has made good since, refused documents and warnings that opened no alert;
    newest first."""
    since = timezone.now() - LOOK_BACK
    redone = Run.objects.filter(
        kind=OuterRef("kind"), queue=OuterRef("queue"), recipe=OuterRef("recipe"), params=OuterRef("params"),
        state=State.DONE, pk__gt=OuterRef("pk"),
    )  # fmt: skip
    failed = Run.objects.filter(
        ~Exists(redone), state=State.FAILED, finished_at__gte=since, invalid_reason=""
    ).select_related("job")
    refused = Document.objects.filter(state=Document.State.REJECTED, run=None, received_at__gte=since).defer(
        "body"
    )
    events = Event.objects.filter(
        at__gte=since, severity__in=[Event.Severity.WARNING, Event.Severity.ERROR]
    ).exclude(kind__in=TOLD_ELSEWHERE)
    events = events.exclude(Exists(Alert.objects.filter(event=OuterRef("pk"))))
    for kind, back in TAKEN_BACK.items():
        later = Event.objects.filter(kind=back, subject=OuterRef("subject"), pk__gt=OuterRef("pk"))
        events = events.exclude(Exists(later), kind=kind)
    looks = [
        Look("▲ failed", "failed", f"Run {run.pk}: {run.job.title}", run.failure, run.finished_at, run.pk)
        for run in failed.order_by("-finished_at")[:LOOKS_SHOWN]
        if run.finished_at
    ]
    looks += [
        Look("▲ refused", "failed", document.name or str(document), document.fault, document.received_at)
        for document in refused[:LOOKS_SHOWN]
    ]
    looks += [
        Look(
            "▲ error" if event.severity == Event.Severity.ERROR else "~ warning",
            "failed" if event.severity == Event.Severity.ERROR else "uncertain",
            event.subject,
            event.sentence,
            event.at,
        )
        for event in events[:LOOKS_SHOWN]
    ]
    return sorted(looks, key=lambda look: look.at, reverse=True)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenAlerts:
    """The costliest alerts that are told, and how many are open, told or not."""

    costliest: list[Alert]
    standing: Standing


def open_alerts() -> OpenAlerts:
    counted = standing()
    return OpenAlerts(for_overview() if counted.told else [], counted)


@dataclasses.dataclass(frozen=True, slots=True)
class Motion:
    """Runs under way and next in turn. `etag` stands for all that is shown of them."""

    runs: list[Run]
    total: int
    #: of `runs`, those queued behind another run that has not ended
    waiting: frozenset[int]
    etag: str
    #: changes when results, failures or states may have changed
    pulse: str


def motion() -> Motion:
    runs = active_runs(ACTIVE_SHOWN)
    total = len(runs) if len(runs) < ACTIVE_SHOWN else Run.objects.filter(state__in=ACTIVE).count()
    waiting = frozenset(r.pk for r in runs if r.waits_for is not None and r.waits_for.state not in FINAL)
    shown = [
        (
            r.pk,
            r.state,
            r.attempt,
            r.progress_done,
            r.progress_total,
            r.progress_message,
            r.cancel_requested_at,
        )
        for r in runs
    ]
    newest = Document.objects.order_by("-id").values_list("id", "state").first()
    event = Event.objects.order_by("-id").values_list("id", flat=True).first()
    return Motion(
        runs,
        total,
        waiting,
        etag((shown, total, sorted(waiting), newest, event)),
        etag(([(r.pk, r.state) for r in runs], total, newest, event)).strip('"'),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """How many tile variants of one release fit, whatever their output type."""

    arch: str
    version: str
    inputs: str
    fit: int
    total: int
    found_at: dt.datetime
    #: how many of `total` were tried on a device
    tried: int
    #: the release's other input types: (inputs, fit, total)
    others: list[tuple[str, int, int]]
    #: all that is known of it came with Tilewatch
    recorded: bool


def newest_fit() -> Fit | None:
    """The MoE's grouped GEMMs in the newest release known, on FIRST_ARCH where there is any; else None."""
    of_moe = Verdict.objects.filter(tile__family=families.FIRST)
    pairs = of_moe.values_list("tile__arch", "release__version").distinct()
    releases = [pair for pair in pairs if not is_candidate(pair[1])]
    found = max(releases, key=lambda pair: (pair[0] == FIRST_ARCH, version_order(pair[1])), default=None)
    if found is None:
        return None
    arch, version = found
    by_inputs: dict[str, dict[tuple[object, ...], bool]] = defaultdict(dict)
    tried: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    at: list[dt.datetime] = []
    for verdict in of_moe.filter(tile__arch=arch, release__version=version).select_related("tile"):
        tile = verdict.tile
        variant = (tile.m, tile.n, tile.k, tile.cluster, tile.fusion, tile.swap_ab, tile.schedule)
        fits = verdict.stage in FITTING
        by_inputs[tile.inputs][variant] = by_inputs[tile.inputs].get(variant, True) and fits
        if verdict.source == "device":
            tried[tile.inputs].add(variant)
        at.append(verdict.found_at)
    counts = sorted(
        ((inputs, sum(fates.values()), len(fates)) for inputs, fates in by_inputs.items()),
        key=lambda row: (row[0] != FIRST_INPUTS, -row[2], row[0]),
    )
    inputs, fit, total = counts[0]
    own = Evidence.objects.filter(tile__family=families.FIRST, tile__arch=arch, release__version=version)
    recorded = not own.exclude(document__origin=Document.Origin.RECORDED).exists()
    return Fit(arch, version, inputs, fit, total, max(at), len(tried[inputs]), counts[1:], recorded)


@dataclasses.dataclass(frozen=True, slots=True)
class Fastest:
    """The highest rate in the newest GEMM document of a target, in FLOP/s."""

    document: Document
    measurement: Measurement
    #: of the target, told apart from others of its model
    name: str
    rate: float | None
    #: of the roofline at the datasheet's clock, 0.645 is 64.5 %; None where the device's peak is not known
    share: float | None


def fastest_gemm() -> list[Fastest]:
    """One for each of the two targets measured last: measured here before recorded elsewhere.

    What other tools measured is for the trends pages.
    """
    newest = [each for each in newest_documents(kind="gemm") if each.origin != Document.Origin.IMPORT]
    newest.sort(key=lambda d: (d.origin != Document.Origin.RECORDED, d.received_at), reverse=True)
    named = places.names([each.target for each in newest if each.target is not None])
    found: list[Fastest] = []
    for document in newest:
        if len(found) == 2:
            break
        best = fastest(document, kinds=GEMMS)
        if best is not None:
            name = named[document.target_id or 0]
            found.append(Fastest(document, best, name, rate(best), _share_of_roofline(best)))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRate:
    """The newest decode of a whole model: the highest tok/s of its newest document."""

    document: Document
    model: str
    #: of the target, told apart from others of its model
    name: str
    step: Step
    batch: int
    context: int
    version: str
    backend: str

    @property
    def rate(self) -> float:
        return steps.rate(self.step)

    @property
    def layers(self) -> str:
        return steps.layers_words(self.step)

    @property
    def window(self) -> str:
        return steps.window_words("decode", self.step)


def newest_models() -> list[ModelRate]:
    """Each model's decode in the newest document that has one: measured here before recorded elsewhere."""
    good = Latest.objects.filter(
        series__case__kind="decode", series__metric="time", good_measurement_id__isnull=False
    ).order_by("-good_measured_at")
    keys = list(good.values_list("good_measurement_id", "good_measured_at")[:MODEL_ROWS])
    rows = Measurement.objects.filter(
        ranked(), id__in=[key for key, _ in keys], measured_at__in={at for _, at in keys}
    ).values(
        "document_id", "series__backend", "series__case__params", *(f"facts__{name}" for name in STEP_FACTS)
    )
    cases = [(row, case) for row in rows if (case := _decode(row["series__case__params"])) is not None]
    documents = (
        Document.objects.exclude(origin=Document.Origin.IMPORT)
        .defer("body")
        .select_related("target__host", "stack")
        .in_bulk({row["document_id"] for row, _ in cases})
    )
    named = places.names({each.target for each in documents.values() if each.target is not None})
    found: dict[str, ModelRate] = {}
    for row, case in cases:
        document = documents.get(row["document_id"])
        step = steps.step_of({name: row[f"facts__{name}"] for name in STEP_FACTS})
        if document is None or step is None:
            continue
        one = ModelRate(
            document, case.model, named[document.target_id or 0], step, case.batch, case.context,
            _main_version(document), row["series__backend"],
        )  # fmt: skip
        best = found.get(one.model)
        if best is None or _standing(one) > _standing(best):
            found[one.model] = one
    return sorted(found.values(), key=lambda one: one.model)[:MODELS_SHOWN]


def _decode(params: dict[str, Any]) -> Decode | None:
    try:
        case = from_params("decode", params, "decode")
    except BenchError:
        return None
    return case if isinstance(case, Decode) else None


def _standing(one: ModelRate) -> tuple[bool, dt.datetime, int, bool, float]:
    """The newest document's, and of it whole models before slices."""
    of, whole = one.document, not steps.is_slice(one.step)
    return of.origin != Document.Origin.RECORDED, of.received_at, of.pk, whole, one.rate


def _main_version(document: Document) -> str:
    components = document.stack.components if document.stack else {}
    return next((f"{name} {components[name]}" for name in MAIN_COMPONENTS if name in components), "")


def _share_of_roofline(measurement: Measurement) -> float | None:
    case = measurement.series.case
    work = utilisation.counted(case.kind, case.params, measurement.flops, measurement.bytes)
    limit = work.ceiling(measurement.series.target)
    percent = utilisation.value("roofline", measurement.median, work.flops, work.moved, limit)
    return None if percent is None else percent / 100


def newest_documents(kind: str | None = None) -> list[Document]:
    """The newest accepted document of each target and kind, without bodies."""
    documents = Document.objects.filter(state=Document.State.ACCEPTED, target__isnull=False)
    if kind:
        documents = documents.filter(kind=kind)
    return list(
        documents.order_by("target", "kind", "-received_at")
        .distinct("target", "kind")
        .defer("body")
        .select_related("target__host", "stack")
    )


@dataclasses.dataclass(frozen=True, slots=True)
class SeriesHealth:
    """How many series have data; in how many the newest outcome may not rank as a speed, in how many the
    library does not do the case there (no failure), and in how many it may rank but carries a flag."""

    total: int
    failing: int
    unsupported: int
    flagged: int


def series_health() -> SeriesHealth:
    ranks, unsupported = Q(outcome__in=RANKED_OUTCOMES), Q(outcome="unsupported")
    return SeriesHealth(
        **Latest.objects.aggregate(
            total=Count("pk"),
            failing=Count("pk", filter=~ranks & ~unsupported),
            unsupported=Count("pk", filter=unsupported),
            flagged=Count("pk", filter=ranks & Q(flags__len__gt=0)),
        )
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Cover:
    """One target's newest data by kind; None where there is none."""

    target: Target
    name: str
    recorded: bool
    ages: list[dt.datetime | None]


def coverage() -> list[Cover]:
    """Every target with data: when its newest data of each kind was taken, in the order of MEASURING."""
    rows: dict[Target, dict[str, Document]] = defaultdict(dict)
    for document in newest_documents():
        if document.target is not None:
            rows[document.target][document.kind] = document
    named = places.names(rows)
    covers = [
        Cover(
            target,
            named[target.pk],
            all(document.origin == Document.Origin.RECORDED for document in kinds.values()),
            [taken_at(kinds[kind]) if kind in kinds else None for kind in MEASURING],
        )
        for target, kinds in rows.items()
    ]
    return sorted(covers, key=lambda cover: (cover.recorded, cover.target.kind, cover.name))


def taken_at(document: Document) -> dt.datetime:
    """When the work of a document ended; when it arrived, where it does not tell."""
    told = document.facts.get("finished_at")
    return (parse_datetime(told) if isinstance(told, str) else None) or document.received_at


def title_of(document: Document) -> str:
    """What a document holds: its job's title, or its kind and the version that matters most."""
    if document.run is not None:
        return document.run.job.title
    kind = dict(Run.Kind.choices).get(document.kind, document.kind)
    main = _main_version(document)
    return f"{kind[:1].upper()}{kind[1:]}" + (f", {main}" if main else "")


def newest_results() -> list[Document]:
    """The documents accepted last, without bodies."""
    return list(
        Document.objects.filter(state=Document.State.ACCEPTED)
        .order_by("-id")
        .defer("body")
        .select_related("target", "stack", "run__job")[:NEWEST_SHOWN]
    )
