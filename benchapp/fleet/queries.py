"""What the fleet page shows. The number of queries never grows with hosts, GPUs or runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count, F, Min, Q
from django.db.models.functions import Left, Now
from django.utils.dateparse import parse_datetime

from benchapp.catalog.models import Recipe
from benchapp.fleet import maintenance, words
from benchapp.fleet.models import Gpu, Installation
from benchapp.fleet.reports import SILENT_S
from benchapp.fleet.waiting import name_of
from benchapp.runs import queues, work
from benchapp.runs.models import Attempt, Maintenance, Run, State
from benchapp.runs.queries import etag

RUNNING_SHOWN = 40
QUEUES_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Trouble:
    """What is not as it should be, and since when where that is known."""

    words: str
    since: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GpuRow:
    gpu: Gpu
    #: idle, busy, drained, lost, silent, outdated, unserved
    state: str
    held: Maintenance | None
    #: what its lease is held for; a gang stands at each of its GPUs
    attempts: list[Attempt]
    #: queued for it alone, and for any of its kind
    queued: int
    shared: int

    @property
    def works(self) -> bool:
        return self.state in ("idle", "busy")

    @property
    def short(self) -> str:
        return words.short(self.gpu.uuid)

    @property
    def settings(self) -> list[tuple[str, str]]:
        """(name, value) of its configuration, as people say it."""
        return [
            (words.setting_name(key), words.setting_value(key, value))
            for key, value in sorted(self.gpu.configuration.items())
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class HostRow:
    installation: Installation
    live: bool
    #: its workers speak the protocol that gets work
    current: bool
    held: Maintenance | None
    gpus: list[GpuRow]
    #: runs of its build and CPU workers
    attempts: list[Attempt]
    #: environment → its recipe in words
    recipes: dict[str, str]

    @property
    def served(self) -> list[GpuRow]:
        return [row for row in self.gpus if row.gpu.served]

    @property
    def working(self) -> int:
        return sum(row.works for row in self.served)

    @property
    def disk(self) -> dict[str, Any]:
        disk = self.installation.facts.get("disk") or {}
        total, free = disk.get("total_bytes"), disk.get("free_bytes")
        return {**disk, "used_bytes": total - free if total is not None and free is not None else None}

    @property
    def environments(self) -> list[tuple[str, int | None, dt.datetime | None]]:
        """(name, bytes, when it was used last), the newest use first. A name that `recipes` knows is said."""
        found = [
            (self.recipes.get(name, name), each.get("bytes"), parse_datetime(each.get("used_at") or ""))
            for name, each in self.installation.environments.items()
        ]
        return sorted(found, key=lambda each: (each[2] is None, each[2] and -each[2].timestamp(), each[0]))

    @property
    def environment_bytes(self) -> int:
        return sum(each.get("bytes") or 0 for each in self.installation.environments.values())

    @property
    def started_at(self) -> dt.datetime | None:
        return parse_datetime(self.installation.facts.get("started_at") or "")

    @property
    def troubles(self) -> list[Trouble]:
        """The gravest first."""
        host, facts = self.installation.host, self.installation.facts
        if not self.live:
            return [Trouble(f"{host} is silent, last heard", self.installation.seen_at)]
        named = [(words.gpu_name(row.gpu.index, host), row) for row in self.gpus]
        found = [
            Trouble(f"{name} no longer answers, last seen", row.gpu.seen_at)
            for name, row in named
            if row.state == "lost"
        ]
        if not self.current:
            found.append(Trouble(f"{host} gets no work, its workers are of another version of Tilewatch"))
        if facts.get("nvml") and self.gpus:
            found.append(Trouble(f"NVML does not answer on {host}"))
        for name, row in named:
            # what to do about it stands at the GPU
            found += [
                Trouble(f"{name}: {problem.partition(';')[0].rstrip('.')}") for problem in row.gpu.problems
            ]
        if facts.get("low_disk"):
            found.append(Trouble(f"the disk of {host} is nearly full"))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRow:
    queue: str
    words: str
    queued: int
    running: int
    #: when the one that waits longest was asked for
    oldest: dt.datetime | None
    #: live hosts that serve it
    hosts: int


@dataclasses.dataclass(frozen=True, slots=True)
class Fleet:
    hosts: list[HostRow]
    queues: list[QueueRow]
    more_queues: int
    running: list[Attempt]
    queued: int
    under_way: int
    coming: list[Maintenance]
    etag: str

    @property
    def gpus(self) -> dict[tuple[str, str], bool]:
        """(host, UUID) of each GPU that is served → does it work?"""
        found: dict[tuple[str, str], bool] = {}
        for host in self.hosts:
            for row in host.served:
                key = host.installation.host, row.gpu.uuid
                found[key] = found.get(key, False) or row.works
        return found

    @property
    def working(self) -> int:
        return sum(self.gpus.values())

    @property
    def host_names(self) -> set[str]:
        return {row.installation.host for row in self.hosts}

    @property
    def troubles(self) -> list[Trouble]:
        """Those since a known time first: something is gone."""
        found = [trouble for host in self.hosts for trouble in host.troubles]
        return sorted(found, key=lambda trouble: trouble.since is None)

    @property
    def drained(self) -> list[str]:
        """What takes no new runs because somebody said so."""
        found = []
        for host in self.hosts:
            if host.held:
                found.append(host.installation.host)
            found += [
                words.gpu_name(row.gpu.index, host.installation.host)
                for row in host.gpus
                if row.state == "drained" and not host.held
            ]
        return list(dict.fromkeys(found))


def fleet() -> Fleet:
    """Everything, in seven queries."""
    installations = list(Installation.objects.annotate(now=Now()))
    gpus = list(Gpu.objects.order_by("installation", "index", "uuid"))
    current_and_coming = list(maintenance.current_and_coming().annotate(now=Now()))
    held = [row for row in current_and_coming if row.starts_at <= row.now]
    attempts = list(
        Attempt.objects.filter(run__state=State.RUNNING, number=F("run__attempt"))
        .select_related("run__job", "run__recipe")
        .defer("log")
        .order_by("run__started_at", "run")
    )
    waiting = _queues()
    by_place = _by_place(attempts)
    recipes = _recipes(installations)
    hosts = [_host(each, gpus, held, by_place, waiting, recipes) for each in installations]
    shown = sorted(waiting.items(), key=lambda item: (item[1][2] is None, item[1][2], item[0]))
    return Fleet(
        hosts,
        [_queue(queue, counts, hosts, gpus) for queue, counts in shown[:QUEUES_SHOWN]],
        len(shown[QUEUES_SHOWN:]),
        attempts[:RUNNING_SHOWN],
        sum(queued for queued, _, _ in waiting.values()),
        len(attempts),
        [row for row in current_and_coming if row.starts_at > row.now],
        etag(
            (
                [(row.installation.pk, row.installation.seen_at, row.live, row.current) for row in hosts],
                [(gpu.pk, gpu.present, gpu.served) for gpu in gpus],
                [(row.pk, row.starts_at <= row.now) for row in current_and_coming],
                [(each.run_id, each.number, each.run.progress_done, each.gpus) for each in attempts],
                sorted(waiting.items()),
            )
        ),
    )


def _queues() -> dict[str, tuple[int, int, dt.datetime | None]]:
    """Queue → (queued, running, when the longest waiting was asked for)."""
    rows = (
        Run.objects.filter(state__in=[State.QUEUED, State.RUNNING])
        .order_by()
        .values_list("queue")
        .annotate(
            queued=Count("id", filter=Q(state=State.QUEUED)),
            running=Count("id", filter=Q(state=State.RUNNING)),
            oldest=Min("created_at", filter=Q(state=State.QUEUED)),
        )
    )
    return {queue: (queued, running, oldest) for queue, queued, running, oldest in rows}


def _recipes(installations: Iterable[Installation]) -> dict[str, str]:
    """Environment → its recipe in words, of those that are built somewhere."""
    # an environment is named by the beginning of its recipe's digest
    names = {name for each in installations for name in each.environments}
    known = Recipe.objects.annotate(name=Left("digest", 16)).filter(name__in=names) if names else ()
    return {recipe.name: str(recipe) for recipe in known}


def _by_place(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """What runs, by the UUIDs that are held for it and by the end of its worker's name."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        place = attempt.worker.partition("@")[2]
        for uuid in attempt.gpus:
            found[f"{uuid}@{place.partition('/')[0]}"].append(attempt)
        if not attempt.gpus:  # it has no lease yet
            found[attempt.worker].append(attempt)
        if not attempt.worker.startswith("gpu"):
            found[place].append(attempt)
    return found


def _host(
    installation: Any,
    gpus: Sequence[Gpu],
    held: Sequence[Maintenance],
    by_place: dict[str, list[Attempt]],
    waiting: dict[str, tuple[int, int, dt.datetime | None]],
    recipes: dict[str, str],
) -> HostRow:
    host, place = installation.host, f"{installation.host}/{installation.key}"
    live = (installation.now - installation.seen_at).total_seconds() < SILENT_S
    current = installation.protocol == work.PROTOCOL
    of_host = maintenance.holding(held, host=host)
    rows = []
    for gpu in gpus:
        if gpu.installation_id != installation.pk:
            continue
        worker = f"gpu-{gpu.uuid.partition('-')[2][:8]}@{place}"
        running = by_place.get(f"{gpu.uuid}@{host}", []) + by_place.get(worker, [])
        of_gpu = maintenance.holding(held, host=host, uuids=[gpu.uuid])
        own, *shared = [
            waiting.get(queue, (0, 0, None))[0]
            for queue in queues.of_gpu_worker(gpu.uuid, gpu.model, gpu.arch)
        ]
        rows.append(
            GpuRow(gpu, _state(gpu, live, current, of_gpu, bool(running)), of_gpu, running, own, sum(shared))
        )
    return HostRow(installation, live, current, of_host, rows, by_place.get(place, []), recipes)


def _state(gpu: Gpu, live: bool, current: bool, held: Maintenance | None, running: bool) -> str:
    if not live:
        return "silent"
    if not gpu.present:
        return "lost"
    if held is not None:
        return "drained"
    if not gpu.served:
        return "unserved"
    if not current:
        return "outdated"
    return "busy" if running else "idle"


def _queue(
    queue: str,
    counts: tuple[int, int, dt.datetime | None],
    hosts: Sequence[HostRow],
    gpus: Sequence[Gpu],
) -> QueueRow:
    serving = {
        row.installation.host
        for row in hosts
        if row.live and row.current and queue in row.installation.queues
    }
    return QueueRow(queue, name_of(queue, [row.installation for row in hosts], gpus), *counts, len(serving))
