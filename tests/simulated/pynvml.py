"""NVML's Python binding over a JSON file instead of a driver: the one boundary that tests simulate.

Put this folder first on PYTHONPATH and name the file in SIMULATED_NVML; every process of ours stays real.

    {"driver": "580.95.05",
     "error": 9,                      an NVML error number: nvmlInit fails with it (9: driver not loaded)
     "hangs_s": 30,                   nvmlInit takes so long
     "gpus": [{"uuid": "GPU-…", "model": "NVIDIA H200", "capability": [9, 0], "memory_bytes": …,
               "memory_used_bytes": …, "cpus": [0, 1], "power_limit_w": 700, "ecc": true, "mig": false,
               "pcie": [5, 16], "max_sm_clock_mhz": 1980, "sm_clock_mhz": 345, "power_w": 75.5,
               "temperature_c": 30, "throttle_mask": 0, "ecc_corrected": 0, "ecc_uncorrected": 0,
               "pages_pending": false, "lost": false,
               "processes": [{"pid": 123, "memory_bytes": 1048576}],
               "xids": [79],          each process that listens is told of those added since it began
               "unsupported": ["nvmlDeviceGetEccMode"],
               "parts": [{"uuid": "MIG-…", "model": "NVIDIA H200 MIG 1g.18gb", "memory_bytes": …}]}]}

Only "uuid" is needed; `gpu` fills in the rest. The file is read at every call, so change it while processes
run: `write` replaces it in one step. A GPU taken out of the list is one that has fallen off the bus and is
no longer counted; "lost" is one that is still counted.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_TIMEOUT = 10
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_CLOCK_SM = 1
NVML_TEMPERATURE_GPU = 0
NVML_VOLATILE_ECC = 0
NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
nvmlEventTypeXidCriticalError = 8  # noqa: N816 - NVML's own names, here and below


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


def gpu(index: int = 0, **changes: Any) -> dict[str, Any]:
    """An ordinary GPU as an entry of the file."""
    return {
        "uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000",
        "model": "NVIDIA H200",
        "capability": [9, 0],
        "memory_bytes": 150_754_820_096,
        "memory_used_bytes": 0,
        "cpus": sorted(os.sched_getaffinity(0)),
        "power_limit_w": 700.0,
        "ecc": True,
        "mig": False,
        "pcie": [5, 16],
        "max_sm_clock_mhz": 1980,
        "sm_clock_mhz": 345,
        "power_w": 75.5,
        "temperature_c": 30,
        "throttle_mask": 0,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "pages_pending": False,
        "lost": False,
        "processes": [],
        "xids": [],
        "unsupported": [],
        "parts": [],
        **changes,
    }


def write(path: Path, *gpus: dict[str, Any], **said: Any) -> None:
    """Replace the file: whoever reads it sees the old or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"driver": "580.95.05", "gpus": list(gpus), **said}))
    draft.replace(path)


def _file() -> dict[str, Any]:
    return dict(json.loads(Path(os.environ["SIMULATED_NVML"]).read_text()))


def _gpus() -> list[dict[str, Any]]:
    return [gpu(**entry) for entry in _file().get("gpus", [])]


def _find(uuid: str) -> dict[str, Any]:
    """The GPU of that UUID, or the MIG device: its GPU's entry with its own on top."""
    for entry in _gpus():
        for each in (entry, *({**entry, "parts": [], **part} for part in entry["parts"])):
            if each["uuid"] == uuid:
                if entry["lost"]:
                    raise NVMLError(NVML_ERROR_GPU_IS_LOST)
                return each
    raise NVMLError(NVML_ERROR_NOT_FOUND)


def _known(handle: str, call: str) -> dict[str, Any]:
    try:
        entry = _find(handle)
    except NVMLError as error:
        # a handle to a GPU that is no longer counted is a handle to a lost one
        gone = error.value == NVML_ERROR_NOT_FOUND
        raise NVMLError(NVML_ERROR_GPU_IS_LOST if gone else error.value) from None
    if call in entry["unsupported"]:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return entry


def nvmlInit() -> None:  # noqa: N802
    said = _file()
    time.sleep(said.get("hangs_s", 0))
    if "error" in said:
        raise NVMLError(said["error"])


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return str(_file().get("driver", ""))


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> str:  # noqa: N802
    entry = _gpus()[index]
    if entry["lost"]:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return str(entry["uuid"])


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:  # noqa: N802
    return str(_find(uuid)["uuid"])


def nvmlDeviceGetUUID(handle: str) -> str:  # noqa: N802
    return handle


def nvmlDeviceGetMigDeviceHandleByIndex(handle: str, place: int) -> str:  # noqa: N802
    parts = _known(handle, "nvmlDeviceGetMigDeviceHandleByIndex")["parts"]
    if place >= len(parts):
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return str(parts[place]["uuid"])


def nvmlDeviceGetCpuAffinity(handle: str, words: int) -> list[int]:  # noqa: N802
    mask = sum(1 << cpu for cpu in _known(handle, "nvmlDeviceGetCpuAffinity")["cpus"])
    return [mask >> 64 * word & (1 << 64) - 1 for word in range(words)]


def nvmlDeviceGetTotalEccErrors(handle: str, kind: int, counter: int) -> int:  # noqa: N802
    entry = _known(handle, "nvmlDeviceGetTotalEccErrors")
    return int(entry["ecc_uncorrected" if kind == NVML_MEMORY_ERROR_TYPE_UNCORRECTED else "ecc_corrected"])


def _process(entry: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(pid=entry["pid"], usedGpuMemory=entry.get("memory_bytes"))


_ANSWERS = {
    "nvmlDeviceGetName": lambda gpu: gpu["model"],
    "nvmlDeviceGetCudaComputeCapability": lambda gpu: tuple(gpu["capability"]),
    "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(
        total=gpu["memory_bytes"], used=gpu["memory_used_bytes"]
    ),
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: int(gpu["power_limit_w"] * 1000),
    "nvmlDeviceGetEccMode": lambda gpu: (int(gpu["ecc"]), int(gpu["ecc"])),
    "nvmlDeviceGetMigMode": lambda gpu: (int(gpu["mig"]), int(gpu["mig"])),
    "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7 if gpu["mig"] else 0,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: gpu["pcie"][0],
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: gpu["pcie"][0],
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: gpu["pcie"][1],
    "nvmlDeviceGetMaxClockInfo": lambda gpu: gpu["max_sm_clock_mhz"],
    "nvmlDeviceGetClockInfo": lambda gpu: gpu["sm_clock_mhz"],
    "nvmlDeviceGetPowerUsage": lambda gpu: int(gpu["power_w"] * 1000),
    "nvmlDeviceGetTemperature": lambda gpu: gpu["temperature_c"],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: gpu["throttle_mask"],
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [_process(each) for each in gpu["processes"]],
    "nvmlDeviceGetRemappedRows": lambda gpu: (0, 0, int(gpu["pages_pending"]), 0),
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda gpu: int(gpu["pages_pending"]),
    "nvmlDeviceGetSupportedEventTypes": lambda gpu: nvmlEventTypeXidCriticalError,
}


def __getattr__(name: str) -> Any:
    """The calls that only look something up in a GPU's entry."""
    if name not in _ANSWERS:
        raise AttributeError(name)
    return lambda handle, *_: _ANSWERS[name](_known(handle, name))


def nvmlEventSetCreate() -> dict[str, int]:  # noqa: N802
    return {}


def nvmlDeviceRegisterEvents(handle: str, types: int, events: dict[str, int]) -> None:  # noqa: N802
    events[handle] = len(_known(handle, "nvmlDeviceRegisterEvents")["xids"])


def nvmlEventSetWait_v2(events: dict[str, int], timeout_ms: int) -> SimpleNamespace:  # noqa: N802
    for entry in _gpus():
        told = events.get(entry["uuid"])
        if told is not None and told < len(entry["xids"]):
            events[entry["uuid"]] = told + 1
            return SimpleNamespace(device=entry["uuid"], eventData=entry["xids"][told])
    raise NVMLError(NVML_ERROR_TIMEOUT)
