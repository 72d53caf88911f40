"""Which workers a host gets: its GPUs, those asked for, queues and CPUs. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchapp.runs import queues
from workers import affinity

#: an entry of what `workers.gpus.ask` returns
Gpu = Mapping[str, Any]


class PlanError(ValueError):
    """What was asked for does not exist here; the text is one sentence for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Worker:
    """One Celery worker. `gpu` is the one that it is pinned to; None: it uses none."""

    name: str
    kind: str
    queues: tuple[str, ...]
    cpus: tuple[int, ...]
    gpu: Gpu | None = None

    @property
    def uuid(self) -> str:
        return "" if self.gpu is None else str(self.gpu["uuid"])


def choose(found: Mapping[str, Any], asked: str) -> tuple[list[Gpu], list[str]]:
    """The GPUs to serve, in NVML's order, and sentences about what is left out.

    `asked` is "all", or indices and UUIDs with commas between them. A GPU in MIG mode cannot be measured as
    a whole, and its MIG devices are served only where they are named. Raises PlanError.
    """
    gpus: Sequence[Gpu] = found["gpus"]
    if asked == "all":
        chosen = [gpu for gpu in gpus if not gpu["parent"] and not _in_mig_mode(gpu)]
    elif found["nvml"]:
        raise PlanError(f"--gpus {asked}: {found['nvml']}.")
    else:
        uuids = {_uuid(gpus, word) for word in asked.split(",")}
        chosen = [gpu for gpu in gpus if gpu["uuid"] in uuids]
    for gpu in chosen:
        if not gpu["parent"] and _in_mig_mode(gpu):
            raise PlanError(
                f"--gpus: GPU {gpu['index']} is in MIG mode; name a MIG device of it: {_parts(gpus, gpu)}."
            )
    served = {gpu["uuid"] for gpu in chosen} | {gpu["parent"] for gpu in chosen}
    notes = [
        f"GPU {gpu['index']}, {gpu['model']}, is in MIG mode and left out. Its MIG devices are served where"
        f" --gpus names them: {_parts(gpus, gpu)}."
        for gpu in gpus
        if not gpu["parent"] and _in_mig_mode(gpu) and gpu["uuid"] not in served
    ]
    notes += [f"GPU {gpu['index']} cannot be used: {gpu['why']}." for gpu in found["lost"]]
    return chosen, notes


def _in_mig_mode(gpu: Gpu) -> bool:
    return bool(gpu["configuration"].get("mig"))


def _uuid(gpus: Sequence[Gpu], word: str) -> str:
    """The UUID that an index or a UUID stands for. Raises PlanError."""
    word = word.strip()
    for gpu in gpus:
        if gpu["uuid"] == word or (not gpu["parent"] and str(gpu["index"]) == word):
            return str(gpu["uuid"])
    there = ", ".join(f"{gpu['index']} ({gpu['uuid']})" for gpu in gpus if not gpu["parent"])
    raise PlanError(f"--gpus: there is no GPU {word!r} here; there is {there or 'none'}.")


def _parts(gpus: Sequence[Gpu], whole: Gpu) -> str:
    parts = [f"{gpu['uuid']} ({gpu['model']})" for gpu in gpus if gpu["parent"] == whole["uuid"]]
    return ", ".join(parts) or "it has none"


def workers(
    chosen: Sequence[Gpu], installation: str, cores: Sequence[Collection[int]], *, cpu: bool
) -> list[Worker]:
    """The workers of this host: one a GPU, one for builds, one for the CPUs if `cpu`, one for chores.

    `cores` holds the CPUs of each physical core that may be used.
    """
    everything = tuple(sorted(each for core in cores for each in core))
    near = [affinity.from_ranges(gpu["cores"]) for gpu in chosen]
    shares = affinity.shares(near, cores)
    planned = [
        Worker(
            _gpu_name(gpu, chosen),
            "gpu",
            queues.of_gpu_worker(gpu["uuid"], gpu["model"], gpu["arch"]),
            share,
            gpu,
        )
        for gpu, share in zip(chosen, shares, strict=True)
    ]
    rest = affinity.left_over(shares, cores)
    planned.append(Worker("build", "build", queues.of_build_worker(installation), rest))
    if cpu:
        planned.append(Worker("cpu", "cpu", queues.of_cpu_worker(installation), everything))
    planned.append(Worker("chores", "chores", (queues.chores_of(installation),), rest))
    return planned


def _gpu_name(gpu: Gpu, chosen: Sequence[Gpu]) -> str:
    """ "gpu0"; MIG devices of one GPU are told apart: "gpu0-1"."""
    if not gpu["parent"]:
        return f"gpu{gpu['index']}"
    siblings = [each["uuid"] for each in chosen if each["parent"] == gpu["parent"]]
    return f"gpu{gpu['index']}-{siblings.index(gpu['uuid'])}"


def table(planned: Sequence[Worker]) -> str:
    """The plan for people: one line a worker."""
    rows = [("worker", "GPU", "model", "UUID", "CPUs", "queues")]
    for worker in planned:
        gpu = worker.gpu or {"index": "–", "model": "–", "uuid": "–"}
        cpus = affinity.as_ranges(worker.cpus)
        rows.append(
            (worker.name, str(gpu["index"]), gpu["model"], gpu["uuid"], cpus, ", ".join(worker.queues))
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
