"""What would confirm an alert: its strongest cases on one target that somebody serves, and both recipes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, FloatField
from django.db.models.functions import Abs, Cast, Ln

from benchapp.alerts.models import Alert, Change
from benchapp.alerts.places import Place, place_of
from benchapp.catalog.digests import digest
from benchapp.catalog.models import Stack, Target
from benchapp.catalog.versions import is_candidate
from benchapp.runs import requests
from benchapp.runs.actions import Request
from benchapp.runs.models import Measurement, Run
from workers.bench.cases.base import Case
from workers.bench.cases.modules import JitModule
from workers.bench.cases.parse import from_params
from workers.bench.cases.serving import Serving
from workers.bench.document import BenchError

#: Cases of one confirming: the strongest say what the others would, and each takes minutes of its GPU.
MOST_CASES = 5
#: Changes of an alert that are looked through for them.
MOST_CHANGES = 60
#: Below a person's runs and above a schedule's.
PRIORITY = 7
#: Differences that a sentence names.
_NAMED = 4


class CannotError(Exception):
    """It cannot be confirmed by measuring; its text is the sentence that says why."""


class NobodyError(CannotError):
    """It cannot be measured while nobody serves where it is of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """The environment that a measurement of a change was made in: versions of a recipe, and the gang."""

    versions: Mapping[str, str]
    gpus: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """`changes` of one target and one pair of recipes, the strongest first; `cases` are theirs."""

    target: Target
    place: Place
    bench: str
    changes: tuple[Change, ...]
    cases: tuple[Case, ...]
    old: dict[str, str]
    new: dict[str, str]
    gpus: tuple[str, ...]

    @property
    def library(self) -> str:
        return requests.library_of(self.new)

    @property
    def backends(self) -> tuple[str, ...]:
        """Those that moved; none of what has no backends."""
        named = {change.series.backend for change in self.changes} - {""}
        return tuple(sorted(named)) if all(change.series.backend for change in self.changes) else ()

    @property
    def digest(self) -> str:
        """Of what would be measured: the same again would tell nothing new."""
        return digest(
            {
                "series": sorted(change.series_id for change in self.changes),
                "old": self.old,
                "new": self.new,
                "queue": self.place.queue,
            }
        )


def plan(alert: Alert) -> Plan:
    """How the alert's change could be measured again, now. Raises CannotError."""
    changes = _strongest(alert)
    if not changes:
        raise CannotError("None of its changes is there any more, so that there is nothing to measure again.")
    place, changes = _placed(changes)
    first: Plan | None = None
    why = ""
    for change in changes:
        try:
            found = _of(change, place)
        except CannotError as error:
            why = why or str(error)
            continue
        if first is None:
            first = found
        elif _together(first, found) and (len(first.cases) < MOST_CASES or found.cases[0] in first.cases):
            cases = tuple(dict.fromkeys((*first.cases, *found.cases)))
            first = dataclasses.replace(first, changes=(*first.changes, change), cases=cases)
    if first is None:
        raise CannotError(why)
    return first


def _strongest(alert: Alert) -> list[Change]:
    weight = Cast(Abs(Ln(F("ratio"))) * F("confidence"), FloatField())
    found = alert.changes.filter(gone_at=None, ratio__gt=0, worse=alert.worse).order_by(weight.desc(), "pk")
    return list(
        found.select_related("series__case", "series__target__host", "stack_before", "stack_after")[
            :MOST_CHANGES
        ]
    )


def _placed(changes: Sequence[Change]) -> tuple[Place, list[Change]]:
    """The first target that somebody serves, and its changes. Raises CannotError where there is none."""
    why = ""
    for target in {change.series.target_id: change.series.target for change in changes}.values():
        place = place_of(target)
        if place.queue:
            return place, [change for change in changes if change.series.target_id == target.pk]
        why = why or place.why
    raise NobodyError(why)


def _together(first: Plan, other: Plan) -> bool:
    return (first.bench, first.old, first.new, first.gpus) == (other.bench, other.old, other.new, other.gpus)


def _of(change: Change, place: Place) -> Plan:
    """A plan for one change. Raises CannotError."""
    series = change.series
    try:
        case = from_params(series.case.kind, series.case.params, "case")
    except BenchError:
        raise CannotError(f"No bench here measures {series.case}.") from None
    if isinstance(case, Serving):
        raise CannotError(f"{series.target} is somebody else's server: its versions are not ours to change.")
    device = "cpu" if series.target.kind == Target.Kind.CPU else "cuda"
    old = _side(change, change.before_at, change.stack_before, device)
    new = _side(change, change.at, change.stack_after, device)
    gpus = new.gpus if device == "cuda" else ()
    if device == "cuda" and requests.gpus_of(case) > 1 and len(gpus) != requests.gpus_of(case):
        raise CannotError(f"{series.case} takes {requests.gpus_of(case)} GPUs, and nothing tells which.")
    return Plan(
        series.target, place, bench_of(case), (change,), (case,), dict(old.versions), dict(new.versions), gpus
    )


def bench_of(case: Case) -> str:
    """The bench that measures a case, as `workers.bench` calls it."""
    if isinstance(case, JitModule):
        return "modules"
    return "moe" if requests.is_of_models(case) else "gemm"


def _side(change: Change, at: Any, stack: Stack, device: str) -> Side:
    """Of the run that measured it; of a document that came as a file, of what its stack tells."""
    measured = Measurement.objects.filter(series=change.series_id, measured_at=at, stack=stack)
    row = measured.select_related("run__recipe").order_by("-run", "-id").first()
    if row is not None and row.run is not None and row.run.kind != Run.Kind.CONFIRM:
        return Side(row.run.recipe.versions, tuple(row.run.gpus))
    library = requests.library_of(stack.components)
    if not library:
        known = ", ".join(requests.LIBRARIES.values())
        raise CannotError(f"Its stack names none of {known}, so that no environment can be built of it.")
    versions = {name: plain(stack.components[name]) for name in {"torch", library} & stack.components.keys()}
    return Side(requests.recipe(library, versions[library], device=device) | versions)


def plain(version: str) -> str:
    """As the index calls it: 2.11.0 of what torch calls 2.11.0+cu130."""
    return version if is_candidate(version) else version.partition("+")[0]


def differences(before: Stack | None, after: Stack | None) -> list[str]:
    """ "driver 580.1 → 580.2" for each component that differs."""
    return list(_differences(before.components if before else {}, after.components if after else {}))


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}"


def beside(plan: Plan) -> None:
    """Raises CannotError where both sides would be one environment: then nothing can be put beside."""
    if plan.old != plan.new:
        return
    change = plan.changes[0]
    found = differences(change.stack_before, change.stack_after)
    if not found:
        raise CannotError("Both sides are of one stack, so that there are no two environments to compare.")
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    raise CannotError(
        f"Both stacks are of one recipe and differ in {', '.join(found[:_NAMED])}{more}, "
        "which no environment can bring back."
    )


def request(alert: Alert, plan: Plan) -> Request:
    """The A/B of a plan. Raises CannotError."""
    return a_b(
        alert,
        plan.cases,
        bench=plan.bench,
        old=plan.old,
        new=plan.new,
        place=plan.place,
        gpus=plan.gpus,
        backends=plan.backends,
    )


def a_b(
    alert: Alert,
    cases: Sequence[Case],
    *,
    bench: str,
    old: Mapping[str, str],
    new: Mapping[str, str],
    place: Place,
    gpus: Sequence[str],
    backends: Sequence[str],
) -> Request:
    """An A/B of two recipes where something is served. Raises CannotError."""
    try:
        return requests.confirm(
            cases,
            bench=bench,
            old=dict(old),
            new=dict(new),
            queue=place.queue,
            where=place.where,
            gpus=gpus,
            backends=backends,
            alert=alert.pk,
            priority=PRIORITY,
        )
    except ValidationError as error:
        raise CannotError(" ".join(error.messages)) from None
