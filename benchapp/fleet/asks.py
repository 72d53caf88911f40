"""What may be asked for: one form of words for the trigger page, its permalinks, commands and schedules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.http import QueryDict

from benchapp.catalog.models import Target
from benchapp.catalog.versions import is_candidate
from benchapp.fleet import ask_fields, model_asks, offers
from benchapp.fleet.ask_fields import NEWEST
from benchapp.fleet.ask_kinds import EXPLORED, MEASURED, WHAT
from benchapp.fleet.targets import describe, queue_of
from benchapp.fleet.words import count, listed
from benchapp.people.models import User
from benchapp.runs import requests
from benchapp.runs.actions import Asked, Request, request_job
from benchapp.runs.again import OPTIONS, PARAMETERS, words_of
from benchapp.runs.models import Job
from workers.bench.cases.base import Case
from workers.bench.moe.fit import Estimate


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Runs of each version on each target. Made by `Ask.from_json` or `clean`, which check each field."""

    what: str
    versions: tuple[str, ...]
    targets: tuple[str, ...]
    #: of a benchmark: what `versions` are versions of
    library: str = "torch"
    #: name of a list of cases; "": the cases are free
    suite: str = ""
    #: MxNxK:dtype or kind:name=value,…; empty: all of the suite
    cases: tuple[str, ...] = ()
    time_limit_s: int | None = None
    #: what becomes of a GPU measurement beside another program
    foreign: str = "refuse"
    #: fresh processes that measure each case; None: as many as the bench takes by itself
    processes: int | None = None
    #: of one case; None: as long as the bench gives it
    case_timeout_s: int | None = None
    #: how GPU time is taken; "auto": the best that there is
    timer: str = "auto"
    #: those that are measured; empty: all that the library offers
    backends: tuple[str, ...] = ()
    #: of whole models, a choice instead of a suite or cases: see `model_asks.Choice`
    models: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()
    tp: int | None = None
    ep: int | None = None
    layers: int | None = None

    @property
    def package(self) -> str:
        """Of recipes: what `versions` are versions of."""
        return self.library if self.what in MEASURED else "flashinfer"

    @property
    def chosen_cases(self) -> tuple[Case, ...]:
        """What each run measures; none for tiles."""
        return ask_fields.chosen(self.suite, self.cases, self.choice, self.what)

    @property
    def choice(self) -> model_asks.Choice:
        return model_asks.Choice(
            self.models, self.batches, self.phases, self.contexts, self.tp, self.ep, self.layers
        )

    @property
    def options(self) -> dict[str, Any]:
        """How it is measured, without what is as by default; parameters of a benchmark's run."""
        told = self.as_json()
        return {name: told[name] for name in OPTIONS if name in told}

    def as_json(self) -> dict[str, Any]:
        """Without what is as by default."""
        told = dataclasses.asdict(self)
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in told.items()
            if value != defaults[name]
        }

    @classmethod
    def from_json(cls, data: object) -> Ask:
        """Raises ValidationError, {field: sentence}; whether what is named exists is for `check`."""
        return cls(**ask_fields.read(data))

    def query(self) -> str:
        """The parameters of the permalink, without "?"."""
        return urlencode(words_of(self.as_json()), safe=":")

    def __str__(self) -> str:
        return self.title({})

    def title(self, hosts: Mapping[str, str]) -> str:
        """ "Tile survey of FlashInfer 0.6.3 on SM120"; `hosts`: installation → host, as far as known."""
        package = requests.LIBRARIES[self.package]
        what = WHAT[self.what]
        if self.what in MEASURED:
            cases = self.chosen_cases
            noun = "MoE" if self.what == "moe" else requests.noun(cases)
            what = f"{noun} suite {self.suite}" if self.suite else count(len(cases), f"{noun} case")
            if 0 < len(self.models) < 4:
                what += f" of {listed(self.models)}"
            what = f"{what[0].upper()}{what[1:]}"
        versions = (
            ", ".join(self.versions) if len(self.versions) < 4 else count(len(self.versions), "version")
        )
        targets = (
            ", ".join(describe(target, hosts) for target in self.targets)
            if len(self.targets) < 4
            else count(len(self.targets), "target")
        )
        return f"{what} {'with' if self.what in MEASURED else 'of'} {package} {versions} on {targets}"


def from_query(query: QueryDict) -> dict[str, Any]:
    """What `clean` takes, of a permalink's parameters; those that nobody knows are left out."""
    single = {field.name for field in dataclasses.fields(Ask)} - set(PARAMETERS.values())
    data: dict[str, Any] = {name: query[name] for name in single if query.get(name)}
    return data | {field: query.getlist(name) for name, field in PARAMETERS.items() if name in query}


def clean(data: Mapping[str, Any]) -> Ask:
    """An ask of whatever a form, a command or an address holds. Raises ValidationError, {field: sentence}."""
    ask = Ask.from_json(data)
    check(ask)
    return ask


def check(ask: Ask, machines: offers.Machines | None = None) -> None:
    """Whether what is named exists here. Raises ValidationError, {field: sentence}."""
    faults: dict[str, str] = {}
    for version in ask.versions:
        if version == NEWEST and offers.newest(ask.package) is None:
            faults["versions"] = (
                f"No release of {ask.package} is known here yet; expected a version by number."
            )
        if is_candidate(version) and version not in offers.candidates(ask.package):
            faults["versions"] = f"{version} is not registered here as a candidate of {ask.package}."
    if ask.what in MEASURED and any(target != "cpu" for target in ask.targets):
        machines = machines or offers.Machines.read()
        wrong = next(
            (said for said in (_missing(target, machines, ask.library) for target in ask.targets) if said), ""
        )
        if wrong:
            faults["targets"] = wrong
    if ask.what == "moe" and not faults:
        faults = _unfit(ask, machines or offers.Machines.read())
    if faults:
        raise ValidationError(faults)


def _unfit(ask: Ask, machines: offers.Machines) -> dict[str, str]:
    """What does not fit the memory of a target, by the field that chose it."""
    for target, found in estimates(ask, machines).items():
        if found and (said := model_asks.unfit(found, _inside(target, machines))):
            return {"models" if ask.models else "suite" if ask.suite else "cases": said}
    return {}


def estimates(ask: Ask, machines: offers.Machines) -> dict[str, list[tuple[Case, Estimate]] | None]:
    """By target, the memory that each case of a model needs there, the fullest first; None where nobody knows
    the target's memory."""
    cases, found = ask.chosen_cases, {}
    # many targets have the same memory, and each case of each is reckoned in turn
    known: dict[tuple[int, str], list[tuple[Case, Estimate]]] = {}
    for target in ask.targets:
        memory = machines.memory_of(target)
        device = "cpu" if target.partition(":")[0] == "cpu" else "cuda"
        if memory is not None and (memory, device) not in known:
            known[memory, device] = model_asks.fullest(cases, memory, device=device)
        found[target] = None if memory is None else known[memory, device]
    return found


def _inside(target: str, machines: offers.Machines) -> str:
    """A target in words, as what memory is of."""
    words = describe(target, machines.hosts)
    return f"{words}, the smallest of them" if machines.is_any(target) else words


def _missing(target: str, machines: offers.Machines, library: str) -> str:
    """Why a target of measurements cannot be asked for; "" if it can."""
    kind, _, which = target.partition(":")
    uuids = which.split("+") if kind in ("gpu", "gang") else []
    unknown = next((uuid for uuid in uuids if uuid not in machines.by_uuid), None)
    if unknown is not None:
        return f"{unknown} is no GPU that has reported here{_expected(kind, library, machines.by_uuid)}."
    if kind == "gang" and not set.intersection(*(machines.seen_by(uuid) for uuid in uuids)):
        return (
            f"{describe(target, {})}: the GPUs of a gang must be in one host, and no host has all of these."
        )
    here: dict[str, Iterable[str]] = {
        "cpu": machines.hosts, "model": machines.models, "gpuarch": machines.archs,
    }  # fmt: skip
    known = list(here.get(kind, ()))
    if which and kind in here and which not in known:
        return f"{target} is not here{_expected(kind, library, [f'{kind}:{name}' for name in known])}."
    return ""


def _expected(kind: str, library: str, names: Iterable[str], most: int = 8) -> str:
    """The end of a sentence that refuses a target of this kind; `names` are those that could be asked for."""
    listed = list(names)
    if not listed:
        instead = "expected cpu" if library == "torch" else f"{requests.LIBRARIES[library]} needs one"
        return f": no {'host' if kind == 'cpu' else 'GPU'} has reported here yet; {instead}"
    more = f" or one of {len(listed) - most} more" if len(listed) > most else ""
    return f"; expected {', '.join(listed[:most])}{more}"


def resolved(ask: Ask, newest: str | None = None) -> Ask:
    """With a version in place of the word: `newest`, else what is newest now. Raises ValidationError."""
    if NEWEST not in ask.versions:
        return ask
    newest = newest or offers.newest(ask.package)
    if newest is None:
        raise ValidationError({"versions": f"No release of {ask.package} is known here yet."})
    versions = dict.fromkeys(newest if version == NEWEST else version for version in ask.versions)
    return dataclasses.replace(ask, versions=tuple(versions))


def to_requests(ask: Ask, hosts: Mapping[str, str]) -> list[tuple[str, Request]]:
    """(target, request) of each version and target, in the order asked. "newest" must be resolved before.

    `hosts`: installation → host, as titles name it.
    """
    return [
        (target, _request(ask, version, target, hosts)) for version in ask.versions for target in ask.targets
    ]


def _request(ask: Ask, version: str, target: str, hosts: Mapping[str, str]) -> Request:
    request = _plain_request(ask, version, target, describe(target, hosts))
    return dataclasses.replace(
        request,
        params=request.params | candidate_params(request.versions),
        time_limit_s=ask.time_limit_s,
    )


def _plain_request(ask: Ask, version: str, target: str, where: str) -> Request:
    if ask.what in MEASURED:
        queue, gpus = queue_of(target)
        to_request = requests.moe if ask.what == "moe" else requests.gemm
        return to_request(
            ask.chosen_cases,
            suite=ask.suite,
            library=ask.library,
            version=version,
            queue=queue,
            where=where,
            gpus=gpus,
            foreign=ask.foreign,
            options=ask.options,
        )
    which = target.partition(":")[2]
    if ask.what in EXPLORED:
        return requests.exploration(version, which, rescue=ask.what == "rescue")
    return requests.survey(version, which, tier="full" if ask.what == "full" else "types")


def candidate_params(versions: Mapping[str, str]) -> dict[str, str]:
    """What tells a worker which wheel a recipe with a candidate means; empty for releases, and for a
    candidate that is not registered any more."""
    for name, version in versions.items():
        if is_candidate(version) and (digest := offers.candidate_digest(name, version)):
            return {"candidate": digest}
    return {}


def request(
    ask: Ask, *, user: User | None, source: Job.Source, key: str | None = None, priority: int | None = None
) -> Asked:
    """Ask for it: one job of many runs. Raises ValidationError where something named is not here any more.

    The same `key` again gives the job that it made. `priority` is of runs that are no background work.
    """
    machines = offers.Machines.read()
    check(ask, machines)
    gpus = Target.objects.in_bulk(ask.targets, field_name="key") if ask.what in MEASURED else {}
    wanted = []
    for target, request in to_requests(resolved(ask), machines.hosts):
        placed = (
            dataclasses.replace(request, target=gpus.get(target))
            if ask.what in MEASURED
            else requests.placed(request)
        )
        wanted.append(
            dataclasses.replace(placed, priority=priority if placed.priority is None else placed.priority)
        )
    title = wanted[0].title if len(wanted) == 1 else ask.title(machines.hosts)
    return request_job(wanted, title=title, user=user, source=source, key=key, asked=ask.as_json())
