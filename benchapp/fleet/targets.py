"""Where work may be asked for, as words: "cpu", "gpu:UUID", "gang:UUID+UUID", "arch:sm120" … Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.core.exceptions import ValidationError

from benchapp.fleet.ask_kinds import EXPLORED, MEASURED
from benchapp.fleet.words import listed, short
from benchapp.runs import queues
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

MOST_GPUS = 16
ON_GPUS = "gpu:UUID, model:NAME, gpuarch:sm90 or gang:UUID+UUID"
_FORMS = f"cpu, cpu:INSTALLATION, {ON_GPUS}"
_UUID = r"(?:GPU|MIG)-[0-9A-Za-z-]{1,60}"
_TARGETS = {
    "cpu": re.compile(r"[0-9A-Za-z_-]{1,16}"),
    "gpu": re.compile(_UUID),
    "model": re.compile(r"[a-z0-9-]{1,60}"),
    "gpuarch": re.compile(r"[a-z0-9_]{1,20}"),
    "gang": re.compile(rf"{_UUID}(?:[+ ]{_UUID})+"),
}


def clean_target(text: str, what: str) -> str:
    """A target of such work, its gang in order. Raises ValidationError."""
    kind, _, which = text.partition(":")
    if what not in MEASURED:
        known = EXPLORED_ARCHES if what in EXPLORED else tuple(ARCHES)
        if kind != "arch" or which not in known:
            expected = ", ".join(f"arch:{arch}" for arch in known)
            raise ValidationError(f"{text[:60]!r} is no target here: expected {expected}.")
        return text
    if text == "cpu":
        return text
    if kind not in _TARGETS or not _TARGETS[kind].fullmatch(which):
        raise ValidationError(f"{text[:60]!r} is no target of a benchmark: expected {_FORMS}.")
    if kind != "gang":
        return text
    gang = sorted(set(re.split(r"[+ ]", which)))
    if not 2 <= len(gang) <= MOST_GPUS:
        raise ValidationError(f"{text[:60]!r} is no gang: expected 2 to {MOST_GPUS} different GPUs.")
    return f"gang:{'+'.join(gang)}"


def gpus_of(target: str) -> int | None:
    """GPUs that a target of measurements is; None of CPUs, where ranks are processes."""
    kind, _, which = target.partition(":")
    return None if kind == "cpu" else which.count("+") + 1


def queue_of(target: str) -> tuple[str, tuple[str, ...]]:
    """The queue of a target of measurements, and the UUIDs where it is a gang."""
    kind, _, which = target.partition(":")
    if kind == "gang":
        gang = tuple(which.split("+"))
        return queues.gpu(gang[0]), gang
    if kind == "cpu":
        return (queues.cpu_of(which) if which else queues.CPU), ()
    return {"gpu": queues.gpu, "model": queues.gpu_model, "gpuarch": queues.gpu_arch}[kind](which), ()


def describe(target: str, hosts: Mapping[str, str]) -> str:
    """A target in words: "any GPU of sm90", "GPU-1a2b3c4d", "CPUs of boxa" where `hosts` knows its host."""
    kind, _, which = target.partition(":")
    if kind == "cpu" and which in hosts:
        return f"CPUs of {hosts[which]}"
    if kind == "arch":
        return which.upper()
    if kind == "gpu":
        return short(which)
    if kind == "gang":
        return f"{listed([short(uuid) for uuid in which.split('+')])} together"
    return queues.describe(queue_of(target)[0])
