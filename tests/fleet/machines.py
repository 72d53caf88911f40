"""Hosts and GPUs as their workers report them."""

from __future__ import annotations

from django.db.models.functions import Now

from benchapp.fleet.models import Gpu, Installation
from benchapp.runs import queues
from benchapp.runs.work import PROTOCOL


def host(name: str, key: str, *uuids: str, arch: str = "sm90", **values) -> Installation:
    """A live host whose workers serve all that they can, with an H200 (of another `arch`) for each UUID."""
    served = [*queues.of_cpu_worker(key), *queues.of_build_worker(key)]
    for uuid in uuids:
        served += queues.of_gpu_worker(uuid, "NVIDIA H200", arch)
    installation = Installation.objects.create(
        **{"key": key, "host": name, "protocol": PROTOCOL, "queues": served, "seen_at": Now()} | values
    )
    Gpu.objects.bulk_create(
        Gpu(installation=installation, uuid=uuid, index=index, model="NVIDIA H200", arch=arch)
        for index, uuid in enumerate(uuids)
    )
    return installation
