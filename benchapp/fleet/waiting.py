"""What keeps queued runs waiting, as far as hosts, GPUs and environments do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django.db.models import DurationField, ExpressionWrapper, F, Q
from django.db.models.functions import Now

from benchapp.fleet import maintenance
from benchapp.fleet.models import Gpu, Installation
from benchapp.fleet.reports import SILENT_S
from benchapp.fleet.words import ago, gpu_name, listed
from benchapp.runs import queues, work
from benchapp.runs.models import Maintenance, Run, State
from benchapp.runs.states import ACTIVE


@dataclasses.dataclass(frozen=True, slots=True)
class _Fleet:
    #: each with `age`, since it was heard
    installations: list[Any]
    gpus: list[Gpu]
    held: list[Maintenance]
    builds: list[Run]
    #: (role, installation) → the run that its one worker of that role is at
    at_work: dict[tuple[str, str], int]


#: Roles that each installation has one worker of, as sentences call it.
_ONE_WORKER = {queues.BUILD: "compiler", queues.CPU: "CPU worker"}


def reasons(runs: Sequence[Run]) -> dict[int, str]:
    """One sentence for each queued run that a host, a GPU or an environment keeps waiting; five queries."""
    runs = [run for run in runs if run.state == State.QUEUED]
    if not runs:
        return {}
    since = ExpressionWrapper(Now() - F("seen_at"), output_field=DurationField())
    recipes = {recipe for run in runs for _, recipe, _ in _needed(run)}
    installations = list(Installation.objects.annotate(age=since).defer("facts"))
    if not installations:
        fleet = _Fleet([], [], [], [], {})
        return {run.pk: said for run in runs if (said := _reason(run, fleet))}
    needed = Q(kind=Run.Kind.BUILD, recipe__in=recipes, state__in=ACTIVE)
    for role in {_role(run.queue) for run in runs} & set(_ONE_WORKER):
        needed |= Q(Q(queue=role) | Q(queue__startswith=f"{role}."), state=State.RUNNING)
    others = list(Run.objects.filter(needed).defer("params"))
    fleet = _Fleet(
        installations,
        list(Gpu.objects.defer("readings")),
        list(maintenance.now()),
        [each for each in others if each.kind == Run.Kind.BUILD and each.recipe_id in recipes],
        {
            (_role(each.queue), each.worker.rpartition("/")[2]): each.pk
            for each in others
            if each.state == State.RUNNING
        },
    )
    found = {run.pk: _reason(run, fleet) for run in runs}
    told = {pk: sentence for pk, sentence in found.items() if sentence}
    busy = {run.pk: said for run in runs if run.pk not in told and (said := _busy(run, fleet))}
    return told | {pk: busy[pk] for pk in _first([run for run in runs if run.pk in busy])}


def _role(queue: str) -> str:
    return queue.partition(".")[0]


def _first(runs: Sequence[Run]) -> list[int]:
    """Those of the runs that are the first of their queue."""
    if not runs:
        return []
    waiting = Run.objects.filter(state=State.QUEUED, queue__in={run.queue for run in runs})
    first = waiting.order_by("queue", "-priority", "turn", "pk").distinct("queue")
    return [pk for pk in first.values_list("pk", flat=True) if pk in {run.pk for run in runs}]


def _busy(run: Run, fleet: _Fleet) -> str:
    """Which runs it waits for where each host that could take it up has one worker, which is busy."""
    role = _role(run.queue)
    if role not in _ONE_WORKER:
        return ""
    said = []
    for each in _live(run, fleet):
        if maintenance.holding(fleet.held, host=each.host) is not None:
            continue
        if (role, each.key) not in fleet.at_work:
            return ""
        said.append(f"{each.host}'s {_ONE_WORKER[role]} is at run {fleet.at_work[role, each.key]}")
    more = [f"{len(said) - 3} more are busy too"] if len(said) > 3 else []
    return f"Next in line; {listed([*said[:3], *more])}." if said else ""


def _live(run: Run, fleet: _Fleet) -> list[Any]:
    return [
        each
        for each in fleet.installations
        if run.queue in each.queues and each.age.total_seconds() < SILENT_S and each.protocol == work.PROTOCOL
    ]


def _reason(run: Run, fleet: _Fleet) -> str:
    what = name_of(run.queue, fleet.installations, fleet.gpus)
    serving = [each for each in fleet.installations if run.queue in each.queues]
    if not serving:
        if run.queue.startswith("gpu."):
            return f"No worker serves {what}, and none ever has; “python -m workers up” on its host adds one."
        return f"No worker serves {what}." if fleet.installations else ""
    heard = [each for each in serving if each.age.total_seconds() < SILENT_S]
    if not heard:
        last = min(serving, key=lambda each: each.age)
        return (
            f"No live worker serves {what}: the last one, {last.host}, was heard "
            f"{ago(last.age.total_seconds())} ago."
        )
    live = _live(run, fleet)
    if not live:
        hosts = listed(sorted({each.host for each in heard}))
        return f"The workers of {hosts}, which serve {what}, are of another version of Tilewatch."
    return _held(run, live, fleet) or _environment(run, live, fleet)


def name_of(queue: str, installations: Sequence[Installation], gpus: Sequence[Gpu]) -> str:
    """A queue in words, its host and GPU by name: "compiler of boxa", "GPU 3 of boxb"."""
    key = queue.partition(".")[2]
    place = next((each for each in installations if each.key == key), None)
    if place:
        return queues.describe(queue).replace(key, place.host)
    gpu = next((each for each in gpus if queue == queues.gpu(each.uuid)), None)
    if gpu is None:
        return queues.describe(queue)
    host = next((each.host for each in installations if each.pk == gpu.installation_id), "?")
    return gpu_name(gpu.index, host)


def place_names(rows: Sequence[Maintenance]) -> dict[int, str]:
    """What each of the rows is of, by name: "GPU 3 of boxb", "boxa"."""
    uuids = {row.gpu for row in rows if row.gpu}
    gpus = Gpu.objects.filter(uuid__in=uuids).select_related("installation") if uuids else ()
    names = {gpu.uuid: gpu_name(gpu.index, gpu.installation.host) for gpu in gpus}
    return {row.pk: names.get(row.gpu, row.gpu) if row.gpu else row.host for row in rows}


def _held(run: Run, live: list[Any], fleet: _Fleet) -> str:
    """What is said of the host or GPU where nothing else could do the run."""
    said: list[str] = []
    for installation in live:
        held = maintenance.holding(fleet.held, host=installation.host)
        if held is not None:
            said.append(f"{installation.host} is {maintenance.words(held)}")
            continue
        if not run.queue.startswith("gpu."):
            return ""
        for gpu in fleet.gpus:
            if gpu.installation_id != installation.pk or not gpu.served:
                continue
            if run.queue not in queues.of_gpu_worker(gpu.uuid, gpu.model, gpu.arch):
                continue
            name = gpu_name(gpu.index, installation.host)
            held = maintenance.holding(fleet.held, uuids=[gpu.uuid, *run.gpus])
            if held is not None:
                which = next((each for each in fleet.gpus if each.uuid == held.gpu), gpu)
                said.append(f"{gpu_name(which.index, installation.host)} is {maintenance.words(held)}")
            elif not gpu.present:
                said.append(f"{name} no longer answers")
            else:
                return ""
    said = list(dict.fromkeys(said))
    more = f"; the same goes for {len(said) - 3} more" if len(said) > 3 else ""
    return f"{'; '.join(said[:3])}{more}." if said else ""


def _environment(run: Run, live: list[Any], fleet: _Fleet) -> str:
    lacking = [
        [(what, recipe) for what, recipe, name in _needed(run) if name not in each.environments]
        for each in live
    ]
    least = min(lacking, key=len, default=[])
    if not least:
        return ""
    what, recipe = least[0]
    hosts = {queues.build_of(each.key): each.host for each in live}
    builds = [each for each in fleet.builds if each.queue in hosts and each.recipe_id == recipe]
    if builds:
        build = min(builds, key=lambda each: (each.state == State.QUEUED, each.pk))
        how = "waits to be built" if build.state == State.QUEUED else "is being built"
        return f"Its {what} {how} on {hosts[build.queue]} (run {build.pk})."
    return f"Its {what} is not built on {listed(sorted(set(hosts.values())))} yet."


def _needed(run: Run) -> list[tuple[str, int, str]]:
    """(in words, recipe, name) of each environment that a host must have built before."""
    needed = [("environment", run.recipe_id, run.environment)] if run.environment else []
    if run.recipe_beside_id is not None:
        needed.append(("old environment", run.recipe_beside_id, run.environment_beside))
    return needed
