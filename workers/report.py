"""What an installation tells Tilewatch about itself: workers, GPUs, environments, disk."""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchapp.runs import work
from workers import identity, lease
from workers.disk import Item
from workers.failure import Failure
from workers.up import PLAN_FILE
from workers.version import VERSION

#: Xid errors that a report still tells of.
MOST_XIDS = 50


def read_plan(home: Path) -> dict[str, Any]:
    """What `up` wrote of this installation's workers; an empty plan where there is none."""
    try:
        said: dict[str, Any] = json.loads((home / "run" / PLAN_FILE).read_bytes())
    except (OSError, ValueError):
        said = {"started_at": None, "labels": {}, "workers": []}
    return said


def unusable(plan: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, str]:
    """The GPUs with a worker here that cannot be worked on now: UUID → why."""
    present = {gpu["uuid"] for gpu in found["gpus"]}
    served = {worker["gpu"] for worker in plan["workers"] if worker["gpu"]}
    return dict.fromkeys(served - present, found["nvml"] or "the driver no longer shows this GPU")


def payload(
    plan: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    supervisor: int,
    xids: Sequence[Mapping[str, Any]],
    disk: Mapping[str, int],
    environments: Sequence[Item],
) -> dict[str, Any]:
    """The report, as `benchapp.fleet.payload` reads it.

    `found` is an answer of `workers.gpus`; what runs below the process `supervisor` is ours.
    """
    served = {worker["gpu"]: worker for worker in plan["workers"] if worker["gpu"]}
    present = {gpu["uuid"] for gpu in found["gpus"]}
    return {
        "installation": identity.installation_key(),
        "host": identity.host_name(),
        "machine": _machine(),
        "version": VERSION,
        "protocol": work.PROTOCOL,
        "labels": plan["labels"],
        "started_at": plan["started_at"],
        "workers": [
            {name: worker[name] for name in ("name", "kind", "queues", "gpu")} for worker in plan["workers"]
        ],
        "environments": {item.path.name: _environment(item) for item in environments},
        "facts": _facts() | ({"driver": found["driver"]} if found["driver"] else {}),
        "disk": dict(disk),
        "gpus": [_gpu(gpu, served.get(gpu["uuid"]), supervisor) for gpu in found["gpus"]],
        # where NVML does not answer, nothing is known to be gone
        "missing": [] if found["nvml"] else sorted(served.keys() - present),
        "xids": list(xids)[-MOST_XIDS:],
        "nvml": found["nvml"],
    }


def _environment(item: Item) -> dict[str, Any]:
    used_at = dt.datetime.fromtimestamp(item.used_at, dt.UTC)
    return {"bytes": item.bytes, "used_at": used_at.isoformat(timespec="seconds")}


def _gpu(gpu: Mapping[str, Any], worker: Mapping[str, Any] | None, supervisor: int) -> dict[str, Any]:
    held_by = holder(gpu["uuid"])
    # another installation that measures here under its lease is no stranger
    ours = {supervisor, lease.holding_pid(gpu["uuid"])} if held_by else {supervisor}
    return {
        **gpu,
        "served": worker is not None,
        "cores": worker["cores"] if worker else gpu["cores"],
        "processes": [
            {**process, "ours": not ours.isdisjoint(ancestry(process["pid"]))} for process in gpu["processes"]
        ],
        "holder": held_by,
    }


def ancestry(pid: int) -> Collection[int]:
    """A process and all above it; empty where it is gone or belongs to another container."""
    found: list[int] = []
    while pid > 0 and pid not in found:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            break
        found.append(pid)
        # the name in brackets may hold anything
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def holder(uuid: str) -> str:
    """Who holds a GPU's lease now, by its own word; "" where nobody does."""
    try:
        descriptor = os.open(lease.file_of(uuid), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, Failure):
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return lease.holder(uuid) or "somebody"
    else:
        return ""
    finally:
        os.close(descriptor)


def _machine() -> str:
    """Tells hosts of one name apart, and tells nobody the machine's own id."""
    try:
        told = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    return hashlib.sha256(told.encode()).hexdigest() if told else ""


def _facts() -> dict[str, Any]:
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
