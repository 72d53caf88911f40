"""Reports of hosts, as their workers send them."""

from __future__ import annotations

import copy
from typing import Any

from django.db.models import DateTimeField, Func

from benchapp.fleet import reports, work
from benchapp.fleet.models import Report
from benchapp.runs import queues
from benchapp.runs.work import PROTOCOL

MODEL = "NVIDIA RTX PRO 6000"
UUID = "GPU-{host}000{index}-1111-2222-3333-444444444444"


class ClockTimestamp(Func):
    function = "clock_timestamp"
    output_field = DateTimeField()


def uuid_of(host: str, index: int) -> str:
    return UUID.format(host=host, index=index)


def gpu(host: str, index: int, **changes: Any) -> dict[str, Any]:
    readings = {
        "temperature_c": 41.0 + index, "power_w": 88.5, "sm_clock_mhz": 2430.0, "memory_used_bytes": 2**30,
        "throttle": [], "ecc_uncorrected": 0, "pcie_link": "gen5 x16",
    } | changes.pop("readings", {})  # fmt: skip
    configuration = {"power_limit_w": 600.0, "ecc": True, "mig": False, "pcie": "gen5 x16"}
    return {
        "uuid": uuid_of(host, index), "index": index, "model": MODEL, "arch": "sm120",
        "memory_bytes": 96 * 2**30, "served": True, "cores": "0-15", "processes": [], "holder": "",
        "configuration": configuration | changes.pop("configuration", {}),
        "readings": readings,
    } | changes  # fmt: skip


def report(host: str = "boxa", gpus: int | list[dict[str, Any]] = 2, **changes: Any) -> dict[str, Any]:
    """What the first installation of a host reports: so many GPUs, or these."""
    key = changes.get("installation", f"{host}01")
    devices = [gpu(host, index) for index in range(gpus)] if isinstance(gpus, int) else gpus
    build = list(queues.of_build_worker(key))
    workers = [
        {"name": f"build@{host}/{key}", "kind": "build", "queues": build, "gpu": ""},
        {"name": f"chores@{host}/{key}", "kind": "chores", "queues": [queues.chores_of(key)], "gpu": ""},
    ]
    workers += [
        {
            "name": f"gpu-{each['uuid'][:12]}@{host}/{key}", "kind": "gpu", "gpu": each["uuid"],
            "queues": list(queues.of_gpu_worker(each["uuid"], each["model"], each["arch"])),
        }
        for each in devices
        if each.get("served")
    ]  # fmt: skip
    told = {
        "installation": key, "host": host, "machine": f"machine-of-{host}", "version": "0.4.0",
        "protocol": PROTOCOL, "labels": {"rack": "7"}, "started_at": "2026-11-29T08:00:00+00:00",
        "workers": workers,
        "environments": {"0123456789abcdef": {"bytes": 5 * 2**30, "used_at": "2026-11-29T07:00:00+00:00"}},
        "facts": {"driver": "580.95.05", "kernel": "6.8.0", "python": "3.11.9", "cpus": 64},
        "disk": {
            "total_bytes": 2 * 2**40, "free_bytes": 2**40, "envs_bytes": 20 * 2**30, "cache_bytes": 2**30,
            "log_bytes": 2**20, "spool_files": 0, "budget_bytes": 200 * 2**30,
        },
        "gpus": devices, "missing": [], "xids": [], "nvml": "",
    }  # fmt: skip
    return copy.deepcopy(told | changes)


def send(told: dict[str, Any], worker: str = "") -> None:
    """As a worker does it, each report in a transaction of its own: in a test's, time stands still."""
    worker = worker or f"chores@{told['host']}/{told['installation']}"
    work.report(worker, told)
    Report.objects.filter(worker=worker).update(at=ClockTimestamp())


def take(*told: dict[str, Any]) -> None:
    for each in told:
        send(each)
    reports.take_reports()
