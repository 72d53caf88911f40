"""What there is to ask for: versions, GPUs, hosts. Forms offer it, and nothing else is asked for."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cached_property

from django.db.models.fields.json import KeyTextTransform
from packaging.version import Version

from benchapp.catalog.models import Release, Stack
from benchapp.catalog.versions import version_order
from benchapp.fleet.models import Candidate, Gpu, Installation, WatchedRelease
from benchapp.runs import queues
from benchapp.runs.models import Run
from benchapp.runs.requests import CPU_TORCH, GPU_TORCH
from workers.bench.tiles.versions import normalised_or_none

#: What recipes call a package → what the index calls it.
ON_INDEX = {"flashinfer": "flashinfer-python", "torch": "torch", "sgl-kernel": "sgl-kernel"}


def releases(package: str) -> list[str]:
    """Releases known of a package of recipes, newest first."""
    known = set(Release.objects.filter(package=package).values_list("version", flat=True))
    watched = WatchedRelease.objects.filter(package=ON_INDEX[package])
    known |= set(watched.values_list("version", flat=True))
    if package == "torch":
        known |= {CPU_TORCH, GPU_TORCH}
    if package != "flashinfer":
        seen = Stack.objects.filter(components__has_key=package).values_list(
            KeyTextTransform(package, "components"), flat=True
        )
        # torch says 2.13.0+cpu of what the index calls 2.13.0
        known |= {str(version).partition("+")[0] for version in seen}
    plain = {normalised_or_none(version) for version in known}
    return sorted((version for version in plain if version and "+" not in version), key=version_order)[::-1]


def candidates(package: str) -> list[str]:
    """Versions of the wheels registered as candidates, newest registration first."""
    return list(Candidate.objects.filter(package=package).values_list("version", flat=True))


def candidate_digest(package: str, version: str) -> str | None:
    """The SHA-256 of a registered candidate's wheel; None where it is not registered."""
    found = Candidate.objects.filter(package=package, version=version)
    return found.values_list("sha256", flat=True).first()


def newest(package: str) -> str | None:
    """The newest release known, pre-releases only where there is nothing else."""
    known = releases(package)
    return next((version for version in known if not Version(version).is_prerelease), next(iter(known), None))


@dataclasses.dataclass(frozen=True)
class Machines:
    """The hosts and GPUs that have reported, read once."""

    installations: list[Installation]
    gpus: list[Gpu]

    @classmethod
    def read(cls) -> Machines:
        gpus = Gpu.objects.select_related("installation").order_by("installation__host", "index", "pk")
        return cls(list(Installation.objects.order_by("host", "key")), list(gpus))

    @cached_property
    def by_uuid(self) -> dict[str, Gpu]:
        """One row a GPU: that of the installation whose worker is pinned to it and saw it last."""
        ordered = sorted(self.gpus, key=lambda gpu: (gpu.served, gpu.present, gpu.seen_at))
        return {gpu.uuid: gpu for gpu in ordered}

    @cached_property
    def models(self) -> dict[str, str]:
        """Slug → product."""
        return {queues.slug(gpu.model): gpu.model for gpu in self.by_uuid.values()}

    @cached_property
    def archs(self) -> Counter[str]:
        """GPUs of each architecture."""
        return Counter(gpu.arch for gpu in self.by_uuid.values())

    @cached_property
    def hosts(self) -> dict[str, str]:
        """Installation → host."""
        return {installation.key: installation.host for installation in self.installations}

    def seen_by(self, uuid: str) -> set[str]:
        """Installations that see a GPU."""
        return {gpu.installation.key for gpu in self.gpus if gpu.uuid == uuid}

    def memory_of(self, target: str) -> int | None:
        """Bytes of one GPU of a target of measurements, or of a host whose CPUs it is; of the smallest where
        any of several may be it. None where one of them is not known."""
        kind, _, which = target.partition(":")
        if kind == "cpu":
            told = [each.facts.get("memory_bytes") for each in self.installations if which in ("", each.key)]
        else:
            told = [gpu.memory_bytes for gpu in self._of(kind, which)]
        known = [each for each in told if isinstance(each, int) and each > 0]
        return min(known) if known and len(known) == len(told) else None

    def is_any(self, target: str) -> bool:
        """Whether it stands for whichever of several GPUs or hosts is free."""
        kind, _, which = target.partition(":")
        if kind == "cpu":
            return not which and len(self.installations) > 1
        return kind in ("model", "gpuarch") and len(self._of(kind, which)) > 1

    def _of(self, kind: str, which: str) -> list[Gpu]:
        """The GPUs that a target of GPUs may come to."""
        if kind in ("gpu", "gang"):
            uuids = which.split("+")
            return [gpu for uuid, gpu in self.by_uuid.items() if uuid in uuids]
        every = self.by_uuid.values()
        return [gpu for gpu in every if which == (queues.slug(gpu.model) if kind == "model" else gpu.arch)]

    def kept_busy_by(self, run: Run) -> set[str]:
        """The queues of the workers that a run at work keeps busy, beside its own queue."""
        label, _, place = run.worker.partition("@")
        key = place.rpartition("/")[2]
        role = run.queue.partition(".")[0]
        if role == queues.BUILD:
            return {run.queue, *queues.of_build_worker(key)}
        if role == queues.CPU:
            return {run.queue, *queues.of_cpu_worker(key)}
        busy = {run.queue}
        for gpu in self.gpus:
            its_worker = gpu.installation.key == key and queues.worker_label("gpu", gpu.uuid) == label
            if its_worker or gpu.uuid in run.gpus:
                busy.update(queues.of_gpu_worker(gpu.uuid, gpu.model, gpu.arch))
        return busy
