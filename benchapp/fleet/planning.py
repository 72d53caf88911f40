"""What would happen if an ask were asked for now. Nothing is written; the number of queries is fixed."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count, Q

from benchapp.catalog.digests import digest, environment_name, recipe_words
from benchapp.catalog.versions import is_candidate
from benchapp.fleet import asks, builds, maintenance, model_asks, offers
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Installation
from benchapp.fleet.targets import describe
from benchapp.fleet.waiting import name_of
from benchapp.fleet.words import gpu_name, listed
from benchapp.runs import queues
from benchapp.runs.actions import PRIORITIES, Request, identity
from benchapp.runs.models import Job, Maintenance, Run, State
from benchapp.runs.queries import usual_of
from benchapp.runs.states import ACTIVE
from benchapp.runs.work import PROTOCOL

#: Runs under way that may be equal to one asked for.
MOST_ACTIVE = 2000
#: Hosts under maintenance that a warning names.
MOST_HELD = 3


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run. `expected_s` is how long runs that do the same usually take; None: there is no history."""

    title: str
    where: str
    queue: str
    recipe: str
    cases: int
    gpus: int
    expected_s: float | None
    #: of the same queue, that go first, and those that its workers are at
    ahead: int
    #: an equal run under way, which would be joined
    joins: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedEnvironment:
    """An environment that runs need, the hosts that have it and those that build it first."""

    recipe: str
    #: its kernels are compiled when it is built
    kernels: bool
    ready_on: tuple[str, ...]
    built_on: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    ask: Ask
    runs: tuple[PlannedRun, ...]
    environments: tuple[PlannedEnvironment, ...]
    warnings: tuple[str, ...]
    #: of whole models: what each target needs of its memory, or that nobody knows; a sentence each
    memory: tuple[str, ...] = ()

    @property
    def joined(self) -> int:
        return sum(run.joins is not None for run in self.runs)

    @property
    def unknown(self) -> int:
        """New runs whose time nobody knows."""
        return sum(run.expected_s is None for run in self.runs if run.joins is None)

    @property
    def expected_s(self) -> float | None:
        """Of all new runs one after the other; None where none has a history."""
        return _total(run.expected_s for run in self.runs if run.joins is None)

    @property
    def on_gpus(self) -> bool:
        return any(run.gpus for run in self.runs)

    @property
    def gpu_s(self) -> float | None:
        """GPU seconds of the new runs with a history; None where none has one."""
        return _total(
            None if run.expected_s is None else run.expected_s * run.gpus
            for run in self.runs
            if run.joins is None and run.gpus
        )


def _total(seconds: Iterable[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None


def plan(
    ask: Ask, machines: offers.Machines | None = None, *, source: Job.Source = Job.Source.PERSON
) -> Plan:
    """What `asks.request` would do now. Raises ValidationError as it would."""
    machines = machines or offers.Machines.read()
    asks.check(ask, machines)
    ask = asks.resolved(ask)
    wanted = asks.to_requests(ask, machines.hosts)
    requests = [request for _, request in wanted]
    joined, waiting = under_way(requests), _waiting(requests)
    usual = usual_of(requests[0].kind, [(request.queue, request.params) for request in requests])
    at_work = _at_work(requests, machines)
    runs = []
    for (target, request), expected_s in zip(wanted, usual, strict=True):
        priority = PRIORITIES[source] if request.priority is None else request.priority
        runs.append(
            PlannedRun(
                title=request.title,
                where=_where(target, machines),
                queue=request.queue,
                recipe=recipe_words(request.versions),
                cases=len(request.params.get("cases", ())),
                gpus=len(request.gpus) or int(request.params.get("device") == "cuda"),
                expected_s=expected_s,
                ahead=at_work[request.queue]
                + sum(n for level, n in waiting[request.queue].items() if level >= priority),
                joins=joined.get(identity(request)),
            )
        )
    live = list(builds.live())
    return Plan(
        ask,
        tuple(runs),
        _environments(requests, live),
        tuple(dict.fromkeys(_warnings(ask, wanted, live, machines))),
        tuple(_memory(ask, machines)) if ask.what == "moe" else (),
    )


def _memory(ask: Ask, machines: offers.Machines) -> Iterable[str]:
    for target, found in asks.estimates(ask, machines).items():
        where = _where(target, machines)
        if found is None:
            yield f"How much memory {where} has is not known here, so neither is whether this fits."
        elif found:
            case, estimate = found[0]
            yield f"{where[:1].upper()}{where[1:]}, {model_asks.in_words(case)}: {estimate.sentence}"


def _where(target: str, machines: offers.Machines) -> str:
    """A target in words, by the names that its host and product have."""
    kind, _, which = target.partition(":")
    if kind == "gpu":
        gpu = machines.by_uuid[which]
        return gpu_name(gpu.index, gpu.installation.host)
    if kind == "gang":
        gang = sorted((machines.by_uuid[uuid] for uuid in which.split("+")), key=lambda gpu: gpu.index)
        return f"GPUs {listed([gpu.index for gpu in gang])} of {gang[0].installation.host} together"
    if kind == "model":
        return f"any {machines.models[which]}"
    return describe(target, machines.hosts)


def under_way(requests: Sequence[Request]) -> dict[str, int]:
    """`identity` → run, of those under way that could be equal to one asked for. Requests are of one kind."""
    found = Run.objects.filter(
        state__in=ACTIVE,
        kind=requests[0].kind,
        queue__in={request.queue for request in requests},
        recipe__digest__in={digest(request.versions) for request in requests},
    ).select_related("recipe")
    return {identity(run): run.pk for run in found.order_by("-pk")[:MOST_ACTIVE]}


def _waiting(requests: Sequence[Request]) -> defaultdict[str, dict[int, int]]:
    """Runs that wait in each queue, by priority."""
    queues = {request.queue for request in requests}
    rows = (
        Run.objects.filter(state=State.QUEUED, queue__in=queues)
        .order_by()
        .values_list("queue", "priority")
        .annotate(number=Count("pk"))
    )
    counted: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for queue, priority, number in rows:
        counted[queue][priority] = number
    return counted


def _at_work(requests: Sequence[Request], machines: offers.Machines) -> Counter[str]:
    """Runs that the workers of each queue are at, whichever of their queues these came from."""
    roles = {request.queue.partition(".")[0] for request in requests}
    ours = [Q(queue=role) | Q(queue__startswith=f"{role}.") for role in roles]
    running = Run.objects.filter(functools.reduce(operator.or_, ours), state=State.RUNNING)
    return Counter(
        queue for run in running.only("queue", "worker", "gpus") for queue in machines.kept_busy_by(run)
    )


def _environments(
    requests: Sequence[Request], live: Sequence[Installation]
) -> tuple[PlannedEnvironment, ...]:
    wanted: defaultdict[str, dict[str, Installation]] = defaultdict(dict)
    recipes: dict[str, dict[str, str]] = {}
    for request in requests:
        for versions in request.recipes if request.needs_environment else ():
            name = environment_name(versions)
            recipes[name] = versions
            wanted[name] |= {each.key: each for each in live if request.queue in each.queues}
    return tuple(
        PlannedEnvironment(
            recipe_words(versions),
            "flashinfer" in versions,
            tuple(each.host for each in wanted[name].values() if name in each.environments),
            tuple(each.host for each in wanted[name].values() if name not in each.environments),
        )
        for name, versions in recipes.items()
    )


def _warnings(
    ask: Ask,
    wanted: Sequence[tuple[str, Request]],
    live: Sequence[Installation],
    machines: offers.Machines,
) -> Iterable[str]:
    """Why it may wait, or fail; one sentence each."""
    known = offers.releases(ask.package)
    for version in ask.versions:
        if known and version not in known and not is_candidate(version):
            yield f"{ask.package} {version} is not among the releases known here; the package index decides."
    if ask.what == "moe":
        yield from model_asks.without(ask.chosen_cases, ask.library)
    held = list(maintenance.now())
    maintained = _maintained(machines, held)
    for target, request in dict(wanted).items():
        hosts = sorted({each.host for each in live if request.queue in each.queues})
        if not hosts:
            yield _unserved(request.queue, machines)
        yield from maintained(target)
        if target == "cpu" or target.startswith("arch:"):
            yield from _all_held(hosts, held)


def _unserved(queue: str, machines: offers.Machines) -> str:
    words = name_of(queue, machines.installations, machines.gpus)
    other = next((each for each in machines.installations if queue in each.queues and not each.silent), None)
    if other is not None and other.protocol != PROTOCOL:
        return f"The workers of {other.host} are of another version than Tilewatch: {words} will wait for it."
    return f"No live worker serves {words}: it will wait for one."


def _all_held(hosts: Sequence[str], held: Sequence[Maintenance]) -> Iterable[str]:
    """What keeps the hosts of work that any host can do, where it keeps all of them."""
    found = [(host, maintenance.holding(held, host=host)) for host in hosts]
    said = [f"{host} is {maintenance.words(row).rstrip('.')}" for host, row in found if row is not None]
    if said and len(said) == len(hosts):
        more = f"; the same goes for {len(said) - MOST_HELD} more" if len(said) > MOST_HELD else ""
        yield f"{'; '.join(said[:MOST_HELD])}{more}. No other live host can do it: it will wait."


def _maintained(machines: offers.Machines, held: Iterable[Maintenance]) -> Any:
    """A function that tells, of a target, what keeps its GPUs or its host from working now."""
    reasons = {row.gpu or row.host: row.reason for row in held}

    def about(uuid: str) -> str:
        gpu = machines.by_uuid[uuid]
        name = gpu_name(gpu.index, gpu.installation.host)
        kept = reasons.get(uuid) or reasons.get(gpu.installation.host)
        if kept:
            return f"{name} takes no new runs now: {kept.rstrip('.')}."
        if not gpu.present:
            return f"{name} did not answer in the newest report of its host."
        return ""

    def told(target: str) -> Iterable[str]:
        kind, _, which = target.partition(":")
        if kind in ("gpu", "gang"):
            yield from filter(None, (about(uuid) for uuid in which.split("+")))
        elif kind in ("model", "gpuarch"):
            said = [
                about(uuid)
                for uuid, gpu in machines.by_uuid.items()
                if which in (queues.slug(gpu.model), gpu.arch)
            ]
            if all(said):
                yield f"Each of {describe(target, machines.hosts)} is kept from work. {said[0]}"
        elif kind == "cpu" and (host := machines.hosts.get(which)) in reasons:
            yield f"Host {host} takes no new runs now: {reasons[str(host)].rstrip('.')}."

    return told
