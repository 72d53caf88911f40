"""Who this worker is: its name, the queues it serves, and the GPU it is pinned to."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
from collections.abc import Iterable

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from benchapp.runs import queues
from benchapp.settings.secret import lasting_secret

_ROLE = re.compile(r"[a-z]{1,16}")
_HOST = re.compile(r"[^\s@/]{1,60}")
_GPU = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,70}")

_served: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """One worker process. `role` is build, cpu, gpu …; `gpu` the UUID it is pinned to, or empty."""

    role: str
    queues: tuple[str, ...]
    gpu: str
    host: str
    #: names the data folder, and tells two hosts of one name apart
    installation: str

    @property
    def label(self) -> str:
        """What tells the workers of one installation apart."""
        return queues.worker_label(self.role, self.gpu)

    @property
    def name(self) -> str:
        """As Postgres knows it: gpu-1a2b3c4d@boxa/k3jd82ks."""
        return f"{self.label}@{self.host}/{self.installation}"


def serve(queues: Iterable[str]) -> None:
    """The queues of this worker, first the one it was started for. Before its pool process is forked."""
    global _served
    _served = tuple(queues)


def host_name() -> str:
    """TILEWATCH_HOST_NAME, else the machine's own. Raises ImproperlyConfigured."""
    name = os.environ.get("TILEWATCH_HOST_NAME") or socket.gethostname()[:60]
    if not _HOST.fullmatch(name):
        raise ImproperlyConfigured(
            f"TILEWATCH_HOST_NAME: expected up to 60 characters without spaces, @ and /, got {name[:80]!r}"
        )
    return name


def installation_key() -> str:
    """Eight characters that name this data folder, the same for all its workers."""
    return lasting_secret(settings.HOME / "run" / "installation")[:8]


def current() -> Identity:
    """This process. Raises ImproperlyConfigured where its environment makes no sense."""
    role = os.environ.get("TILEWATCH_WORKER") or (_served[0].partition(".")[0] if _served else "")
    if not _ROLE.fullmatch(role):
        raise ImproperlyConfigured(f"TILEWATCH_WORKER: expected build, cpu or gpu, got {role[:40]!r}")
    gpu = os.environ.get("TILEWATCH_GPU", "")
    if gpu and not _GPU.fullmatch(gpu):
        raise ImproperlyConfigured(f"TILEWATCH_GPU: expected the UUID of a GPU (GPU-…), got {gpu[:80]!r}")
    return Identity(role, _served, gpu, host_name(), installation_key())
