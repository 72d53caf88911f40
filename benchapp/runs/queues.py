"""Names of the queues, and of the workers that serve them.

Each worker serves all that fit it, so work can be asked of one GPU, of any of a model or of an architecture.
"""

from __future__ import annotations

import hashlib
import re

CONTROL = "control"
#: Static work that any host can do.
BUILD = "build"
#: Measurements on any host's CPUs.
CPU = "cpu"


def slug(name: str) -> str:
    """ "NVIDIA H200" → "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def build_of(installation: str) -> str:
    """Of one installation's build worker: environments, which are of use on its host alone."""
    return f"build.{installation}"


def cpu_of(installation: str) -> str:
    return f"cpu.{installation}"


def chores_of(installation: str) -> str:
    return f"chores.{installation}"


def gpu(uuid: str) -> str:
    return f"gpu.uuid.{uuid}"


def gpu_model(model: str) -> str:
    return f"gpu.model.{slug(model)}"


def gpu_arch(arch: str) -> str:
    return f"gpu.arch.{arch}"


def of_build_worker(installation: str) -> tuple[str, ...]:
    return (build_of(installation), BUILD)


def of_cpu_worker(installation: str) -> tuple[str, ...]:
    return (cpu_of(installation), CPU)


def of_gpu_worker(uuid: str, model: str, arch: str) -> tuple[str, ...]:
    return (gpu(uuid), gpu_model(model), gpu_arch(arch))


def worker_label(role: str, gpu: str = "") -> str:
    """What tells the workers of one installation apart: build, gpu-1a2b3c4d (of a UUID)."""
    if gpu.startswith("MIG-GPU-"):  # older drivers call parts of one GPU by its UUID and two numbers
        return f"{role}-{hashlib.sha256(gpu.encode()).hexdigest()[:8]}"
    return f"{role}-{gpu.partition('-')[2][:8]}" if gpu else role


def describe(queue: str) -> str:
    """What a queue stands for, in words: "any GPU of sm120"."""
    kind, _, rest = queue.partition(".")
    if kind == "gpu":
        by, _, which = rest.partition(".")
        return {"uuid": f"GPU {which}", "model": f"any {which}", "arch": f"any GPU of {which}"}.get(by, queue)
    if rest:
        return {"build": "compiler", "cpu": "CPUs", "chores": "chores"}.get(kind, kind) + f" of {rest}"
    return {"build": "any compiler", "cpu": "any host's CPUs", "control": "control"}.get(kind, queue)
