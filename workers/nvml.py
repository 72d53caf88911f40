"""One look at this machine's GPUs through NVML, in a process of its own: `workers.gpus` starts it.

A process that forks must never have spoken to NVML, so no worker imports this.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workers.affinity import as_ranges
from workers.bench.gemm import nvidia

#: NVML hands out CPUs in words of so many bits.
_WORD = 64
#: Of one GPU at one look: a broken one may tell of thousands.
_MOST_XIDS = 50


class LostError(Exception):
    """The driver says that the GPU has fallen off the bus."""


class UnavailableError(Exception):
    """NVML does not answer; the text says why, for a person."""


class Device(nvidia.Nvml):
    """One GPU or MIG device: its settings as documents write them, and its readings now."""

    def _ask(self, name: str, *args: Any) -> Any:
        """As in a bench, but a lost GPU is told. Raises LostError."""
        try:
            return getattr(self._nvml, name)(self._handle, *args)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST:
                raise LostError from None
            return None
        except AttributeError:
            return None

    def describe(self, uuid: str, index: int, parent: str = "") -> dict[str, Any]:
        """What `workers.gpus` promises of one GPU. `parent` is the GPU that a MIG device is part of."""
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        capability = self._ask("nvmlDeviceGetCudaComputeCapability")
        return {
            "uuid": uuid,
            "index": index,
            "parent": parent,
            "model": _text(self._ask("nvmlDeviceGetName")),
            "arch": "" if capability is None else f"sm{capability[0]}{capability[1]}",
            "memory_bytes": None if memory is None else memory.total,
            "cores": as_ranges(self._near_cores()),
            "configuration": self.settings().configuration,
            "readings": self._readings(None if memory is None else memory.used),
            "processes": self.processes(),
        }

    def processes(self) -> list[dict[str, Any]]:
        """Who computes on the device: [{pid, name, memory_bytes}]."""
        return [
            {"pid": each.pid, "name": self._name(each.pid), "memory_bytes": each.usedGpuMemory}
            for each in self._ask("nvmlDeviceGetComputeRunningProcesses") or ()
        ]

    def parts(self) -> list[str]:
        """UUIDs of the GPU's MIG devices, also where MIG is off: then there are none."""
        found = []
        for place in range(self._ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            try:
                part = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, place)
                found.append(_text(self._nvml.nvmlDeviceGetUUID(part)))
            except self._nvml.NVMLError:
                continue  # places without a device
        return found

    def watch_for_xids(self, events: Any) -> None:
        """Have the driver put this GPU's critical errors into the event set, where it can."""
        wanted = self._nvml.nvmlEventTypeXidCriticalError
        if (self._ask("nvmlDeviceGetSupportedEventTypes") or 0) & wanted:
            self._ask("nvmlDeviceRegisterEvents", wanted, events)

    def _near_cores(self) -> list[int]:
        words = self._ask("nvmlDeviceGetCpuAffinity", -(-(os.cpu_count() or 1) // _WORD)) or ()
        return [
            place * _WORD + bit
            for place, word in enumerate(words)
            for bit in range(_WORD)
            if int(word) >> bit & 1
        ]

    def _readings(self, memory_used: int | None) -> dict[str, Any]:
        nvml = self._nvml
        self.poll()
        (now,) = self.take()
        generation = self._ask("nvmlDeviceGetCurrPcieLinkGeneration")
        width = self._ask("nvmlDeviceGetCurrPcieLinkWidth")
        said = {
            "temperature_c": now.temperature_c,
            "power_w": now.power_w,
            "sm_clock_mhz": now.sm_clock_mhz,
            "memory_used_bytes": memory_used,
            "throttle": list(now.throttle_reasons),
            "ecc_corrected": self._ecc(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            "ecc_uncorrected": self._ecc(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            "pages_pending": self._pages_pending(),
            "pcie_link": None if None in (generation, width) else f"gen{generation} x{width}",
        }
        return {name: value for name, value in said.items() if value is not None}

    def _ecc(self, kind: int) -> int | None:
        """Errors since the driver was loaded."""
        count: int | None = self._ask("nvmlDeviceGetTotalEccErrors", kind, self._nvml.NVML_VOLATILE_ECC)
        return count

    def _pages_pending(self) -> bool | None:
        """Does memory wait for a reset to be replaced? Rows since Ampere, pages before."""
        rows = self._ask("nvmlDeviceGetRemappedRows")
        if rows is not None:
            return bool(rows[2])
        pages = self._ask("nvmlDeviceGetRetiredPagesPendingStatus")
        return None if pages is None else bool(pages)

    def _name(self, pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        except OSError:
            return ""  # of another container, or gone meanwhile


class Reader:
    """NVML of this machine, initialised once. Raises UnavailableError."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
            raise UnavailableError(
                "no NVIDIA driver on this machine" if error.value in absent else f"NVML says: {error}"
            ) from None
        self._devices: dict[str, Device] = {}
        self._events: dict[str, Any] = {}

    def look(self) -> dict[str, Any]:
        """{driver, gpus, lost}. A GPU that is lost is named, not described. Raises UnavailableError."""
        gpus: list[dict[str, Any]] = []
        lost: list[dict[str, Any]] = []
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise UnavailableError(f"NVML says: {error}") from None
        for index in range(count):
            uuid = ""
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
                device = self.device(uuid)
                gpus.append(device.describe(uuid, index))
                gpus += [self.device(part).describe(part, index, uuid) for part in device.parts()]
            except (LostError, self._nvml.NVMLError) as error:
                gpus = [gpu for gpu in gpus if gpu["index"] != index]
                lost.append({"index": index, "uuid": uuid, "why": str(error) or "GPU is lost"})
        return {"driver": self.driver, "gpus": gpus, "lost": lost}

    def device(self, uuid: str) -> Device:
        """Raises NVMLError where there is none of this UUID."""
        if uuid not in self._devices:
            self._devices[uuid] = Device(uuid)
        return self._devices[uuid]

    def processes(self, uuid: str) -> list[dict[str, Any]]:
        """Who computes on a GPU. Raises UnavailableError."""
        try:
            return self.device(uuid).processes()
        except (LostError, self._nvml.NVMLError) as error:
            raise UnavailableError(f"GPU {uuid} does not answer: {str(error) or 'it is lost'}") from None

    def watch_for_xids(self) -> None:
        """From now on `xids` tells of critical errors, of the GPUs that `look` has seen."""
        for uuid, device in self._devices.items():
            if uuid.startswith("GPU-"):
                # a GPU that cannot tell is no reason to stop listening to the others
                with contextlib.suppress(LostError, self._nvml.NVMLError):
                    # a set of its own: a GPU that is lost no longer says which one it is
                    events = self._nvml.nvmlEventSetCreate()
                    device.watch_for_xids(events)
                    self._events[uuid] = events

    def xids(self) -> list[dict[str, Any]]:
        """Critical errors since the last call: [{uuid, code, at}]; never waits."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return [
            {"uuid": uuid, "code": code, "at": now}
            for uuid, events in self._events.items()
            for code in self._codes(events)
        ]

    def _codes(self, events: Any) -> Iterator[int]:
        for _ in range(_MOST_XIDS):
            try:
                yield int(self._nvml.nvmlEventSetWait_v2(events, 0).eventData)
            except self._nvml.NVMLError:
                return  # a timeout: there are no more


def _text(said: str | bytes | None) -> str:
    return said.decode() if isinstance(said, bytes) else said or ""
