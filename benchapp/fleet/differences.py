"""What happened between two reports of a host. Pure: nothing here reads or writes a row."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchapp.alerts.models import Event
from benchapp.fleet import words
from benchapp.fleet.payload import GpuReport, Report

INFO, WARNING, ERROR = Event.Severity.INFO, Event.Severity.WARNING, Event.Severity.ERROR
#: A fault of the hardware is shown for so long after it was reported last.
XID_SHOWN = dt.timedelta(hours=24)
MOST_XIDS = 10
#: Below so many bytes, and below this part of the whole, a disk is nearly full.
LOW_DISK_BYTES, LOW_DISK_PART = 20 * 2**30, 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Happening:
    """One event to be. `key` says which thing it is; with the time of the report it is told once."""

    kind: str
    severity: Event.Severity
    subject: str
    sentence: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What the rows say of a GPU."""

    index: int
    model: str
    present: bool
    configuration: Mapping[str, Any]
    readings: Mapping[str, Any]


def width(link: object) -> int | None:
    """Lanes of a PCIe link: 16 of "gen5 x16"."""
    found = re.search(r"\bx(\d{1,2})\b", str(link or ""))
    return int(found[1]) if found else None


def link_width(gpu: GpuReport) -> int | None:
    return width(gpu.readings.pcie_link) or width(gpu.configuration.get("pcie"))


def between(host: str, known: Mapping[str, Known], report: Report) -> list[Happening]:
    """What happened to the GPUs of a host since `known`, by UUID."""
    found: list[Happening] = []
    if not report.nvml:
        answering = {gpu.uuid for gpu in report.gpus} - set(report.missing)
        for uuid, before in known.items():
            if before.present and uuid not in answering:
                name = words.gpu_name(before.index, host)
                sentence = words.fell_off(name, before.model, uuid)
                found.append(Happening("gpu_lost", ERROR, name, sentence, uuid))
    changed: dict[tuple[str, str, str], list[tuple[GpuReport, Any, Any]]] = defaultdict(list)
    for gpu in report.gpus:
        old = known.get(gpu.uuid)
        found += _of_gpu(host, old, gpu, report)
        if old is None:
            continue
        for key in sorted({*old.configuration, *gpu.configuration}):
            was, now = old.configuration.get(key), gpu.configuration.get(key)
            if was != now:
                changed[key, str(was), str(now)].append((gpu, was, now))
    for (key, _, _), gpus in changed.items():
        first, was, now = gpus[0]
        sentence = words.setting_changed(key, [gpu.index for gpu, _, _ in gpus], host, was, now)
        found.append(
            Happening("configuration_changed", WARNING, host, sentence, f"{first.uuid}:{key}:{was}:{now}")
        )
    return found


def _of_gpu(host: str, old: Known | None, gpu: GpuReport, report: Report) -> list[Happening]:
    name = words.gpu_name(gpu.index, host)
    before: Mapping[str, Any] = old.readings if old else {}
    found: list[Happening] = []

    def tell(kind: str, severity: Event.Severity, sentence: str, what: object = "") -> None:
        found.append(Happening(kind, severity, name, sentence, f"{gpu.uuid}:{what}"))

    if old is not None and not old.present and gpu.uuid not in report.missing:
        tell("gpu_back", INFO, f"{name} ({gpu.model}) answers again.")
    counted, was = gpu.readings.ecc_uncorrected or 0, before.get("ecc_uncorrected") or 0
    if counted > was:
        tell("ecc_uncorrected", ERROR, words.ecc_grew(name, counted, was), counted)
    if gpu.readings.pages_pending and not before.get("pages_pending"):
        tell("remap_pending", WARNING, words.remap_pending(name))
    lanes, widest = link_width(gpu), before.get("widest_link")
    if lanes and widest and lanes < widest and lanes != before.get("link_width"):
        tell("link_narrower", WARNING, words.narrower(name, lanes, widest), lanes)
    others = [process for process in gpu.processes if not process.ours]
    if gpu.served and others and not before.get("foreign"):
        tell(
            "foreign_process", INFO, words.foreign(name, [(each.name, each.memory_bytes) for each in others])
        )
    return found


def xids(host: str, known: Mapping[str, Known], report: Report) -> list[Happening]:
    """Each Xid as an event. Its key is its own, so that one reported again and again is told once."""
    indices = {uuid: gpu.index for uuid, gpu in known.items()} | {gpu.uuid: gpu.index for gpu in report.gpus}
    found = []
    for each in report.xids:
        index = indices.get(each.uuid)
        name = f"A GPU of {host}" if index is None else words.gpu_name(index, host)
        hardware = words.XIDS.get(each.code, words.UNKNOWN_XID).hardware
        sentence = f"{name} reported {words.xid(each.code, each.at)}"
        key = f"{each.uuid}:{each.code}:{each.at:%Y%m%dT%H%M%S}"
        found.append(Happening("gpu_xid", ERROR if hardware else INFO, name, sentence, key))
    return found


def kept_xids(uuid: str, before: Mapping[str, Any], report: Report, at: dt.datetime) -> list[dict[str, Any]]:
    """The faults of the hardware that a GPU reported within XID_SHOWN, {code, at}, newest last: each comes in
    one report only."""
    new = [{"code": each.code, "at": each.at.isoformat()} for each in report.xids if each.uuid == uuid]
    kept = [
        each
        for each in (*before.get("xids", ()), *new)
        if words.XIDS.get(each["code"], words.UNKNOWN_XID).hardware
        and at - dt.datetime.fromisoformat(each["at"]) < XID_SHOWN
    ]
    return [each for place, each in enumerate(kept) if each not in kept[:place]][-MOST_XIDS:]


def problems(gpu: GpuReport, kept: Sequence[Mapping[str, Any]], widest: int | None) -> list[str]:
    """What is wrong with a GPU that answers, as sentences; empty: nothing. `kept` as of `kept_xids`."""
    found = [words.xid(each["code"], dt.datetime.fromisoformat(each["at"])) for each in kept]
    if gpu.readings.ecc_uncorrected:
        found.append(f"{gpu.readings.ecc_uncorrected} uncorrected memory errors since its last reset.")
    if gpu.readings.pages_pending:
        found.append("Faulty memory rows wait to be remapped: reset it when it is empty.")
    lanes = link_width(gpu)
    if lanes and widest and lanes < widest:
        found.append(f"Its PCIe link is x{lanes}; it was x{widest}.")
    return found


def low_disk(report: Report) -> bool:
    free, total = report.disk.free_bytes, report.disk.total_bytes
    return free is not None and bool(total) and free < min(LOW_DISK_BYTES, (total or 0) * LOW_DISK_PART)


def of_host(facts: Mapping[str, Any], report: Report, *, has_gpus: bool) -> list[Happening]:
    """What happened to a host as a whole since `facts`, those of its row. Without GPUs it needs no NVML."""
    host, found = report.host, []
    old, new = facts.get("driver"), report.facts.driver
    if old and new and old != new:
        sentence = words.driver_changed(host, old, new)
        found.append(Happening("driver_changed", WARNING, host, sentence, f"{old}:{new}"))
    if has_gpus and report.nvml and not facts.get("nvml"):
        found.append(Happening("nvml_silent", ERROR, host, words.nvml_silent(host, report.nvml), "nvml"))
    if low_disk(report) and not facts.get("low_disk"):
        sentence = words.low_disk(host, report.disk.free_bytes or 0, report.disk.total_bytes or 0)
        found.append(Happening("low_disk", WARNING, host, sentence, "disk"))
    return found
