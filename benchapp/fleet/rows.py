"""What the fleet page shows of hosts, GPUs and queues, and the words for what is not as it should be."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from django.utils.dateparse import parse_datetime

from benchapp.fleet import words
from benchapp.fleet.models import Gpu, Installation
from benchapp.runs.models import Attempt, Maintenance


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
