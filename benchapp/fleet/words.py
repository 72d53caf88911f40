"""What happened on a host, in sentences that a person can act on."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from benchapp.web.templatetags.units import byte_size


@dataclasses.dataclass(frozen=True, slots=True)
class Xid:
    """What NVIDIA's driver means by a code, what to do, and whether the hardware may be at fault."""

    meaning: str
    advice: str
    hardware: bool


_BENCH = "most often the program's own fault; look at the run that had the GPU then"
_RESET = "drain it, let it run empty and reset it"
XIDS = {
    13: Xid("graphics engine exception", _BENCH, False),
    31: Xid("GPU memory page fault", _BENCH, False),
    43: Xid("GPU stopped processing", _BENCH, False),
    45: Xid("preemptive cleanup, after an earlier error or the end of a program", _BENCH, False),
    48: Xid("double bit ECC error", f"{_RESET}; replace it if this comes again", True),
    61: Xid("internal micro-controller breakpoint", f"{_RESET}; update the driver", True),
    62: Xid("internal micro-controller halt", f"{_RESET}; update the driver", True),
    63: Xid("row remapping or page retirement recorded", _RESET, True),
    64: Xid("row remapping or page retirement failed", f"{_RESET}; replace it if this comes again", True),
    74: Xid("NVLink error", "look at the link's state and its connectors", True),
    79: Xid("GPU has fallen off the bus", "restart the host; check power, heat and its seat", True),
    94: Xid("contained ECC error", f"{_RESET}; the run that had it failed", True),
    95: Xid("uncontained ECC error", f"{_RESET}; do not trust what it measured since", True),
    119: Xid("GSP firmware does not answer", f"{_RESET}, or restart the host", True),
}
UNKNOWN_XID = Xid("see NVIDIA's list of Xid errors", "look at the kernel's log there", True)

CONFIGURATION = {
    "power_limit_w": "power limit",
    "ecc": "ECC",
    "mig": "MIG",
    "pcie": "PCIe link",
    "locked_clocks_mhz": "locked clocks",
    "locked_sm_clock_mhz": "locked SM clock",
    "locked_memory_clock_mhz": "locked memory clock",
}
UNITS = {"_w": "W", "_mhz": "MHz", "_bytes": "B", "_c": "°C"}


def setting_name(key: str) -> str:
    """ "power_limit_w" → "power limit"."""
    if key in CONFIGURATION:
        return CONFIGURATION[key]
    for ending in UNITS:
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def setting_value(key: str, value: object) -> str:
    """Of a configuration: "600 W", "on", "gen5 x16"; "not set" where there is none."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
    return f"{text} {unit}".strip()


def short(uuid: str) -> str:
    """ "GPU-1a2b3c4d-5e6f-…" → "GPU-1a2b3c4d"."""
    return "-".join(uuid.split("-")[:2])[:20]


def gpu_name(index: int, host: str) -> str:
    return f"GPU {index} of {host}"


def listed(things: Sequence[object]) -> str:
    """ "0, 1 and 4"."""
    *first, last = [str(thing) for thing in things]
    return f"{', '.join(first)} and {last}" if first else last


def count(number: int, noun: str) -> str:
    """ "1 run", "1,200 runs"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def moment(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def ago(seconds: float) -> str:
    """ "12 min", "3 h", "2 d"."""
    for unit, size, limit in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86400)):
        if seconds < limit:
            return f"{int(max(seconds, 0) // size)} {unit}"
    return f"{int(seconds // 86400)} d"


def xid(code: int, at: dt.datetime) -> str:
    known = XIDS.get(code, UNKNOWN_XID)
    return f"Xid {code} at {moment(at)}: {known.meaning}; {known.advice}."


def fell_off(gpu: str, model: str, uuid: str) -> str:
    return (
        f"{gpu} ({model}, {short(uuid)}) no longer answers and takes no runs. Look into the kernel's log "
        "there; if it does not come back, restart the host."
    )


def ecc_grew(gpu: str, count: int, before: int) -> str:
    return (
        f"{gpu} counts {count} uncorrected memory errors, {count - before} more than before: drain it, reset "
        "it, and do not trust what it measured since."
    )


def remap_pending(gpu: str) -> str:
    return f"{gpu} has faulty memory rows to remap: drain it and reset it when it is empty."


def narrower(gpu: str, width: int, before: int) -> str:
    return (
        f"{gpu} has a narrower PCIe link than before, x{width} instead of x{before}: check its seat or riser."
    )


def setting_changed(key: str, gpus: Sequence[int], host: str, old: object, new: object) -> str:
    which = gpu_name(gpus[0], host) if len(gpus) == 1 else f"GPUs {listed(gpus)} of {host}"
    return (
        f"The {setting_name(key)} of {which} went from {setting_value(key, old)} to {setting_value(key, new)}"
        ": what is measured from now on makes series of its own."
    )


def driver_changed(host: str, old: str, new: str) -> str:
    return (
        f"The NVIDIA driver of {host} went from {old} to {new}: compare what was measured before and since."
    )


def foreign(gpu: str, processes: Sequence[tuple[str, int | None]]) -> str:
    named = [
        f"{name or 'a process'}" + (f" ({byte_size(size)})" if size else "") for name, size in processes[:3]
    ]
    more = f" and {len(processes) - 3} more" if len(processes) > 3 else ""
    return (
        f"Somebody else works on {gpu}: {', '.join(named)}{more}. Measurements there wait, or are flagged as "
        "contended."
    )


def nvml_silent(host: str, why: str) -> str:
    return f"NVML does not answer on {host} ({why}): nobody watches its GPUs. Is its driver loaded?"


def low_disk(host: str, free: int, total: int) -> str:
    return (
        f"{byte_size(free)} of {byte_size(total)} are free on {host}: free disk on the fleet page, or give "
        "its data folder more room."
    )


def other_protocol(host: str, protocol: int, version: str, expected: int) -> str:
    return (
        f"The workers of {host} (version {version or 'unknown'}) speak protocol {protocol}, and Tilewatch "
        f"expects {expected}: it gets no work until both are of one version."
    )


def two_machines(host: str) -> str:
    return (
        f"Two machines call themselves {host}, so their runs cannot be told apart: give one of them a name "
        "of its own."
    )


def silent(host: str, seen: dt.datetime, seconds: int) -> str:
    return (
        f"Nothing was heard of {host} for more than {seconds} s, last at {moment(seen)}: look whether it "
        "runs and reaches both servers."
    )


def refused(worker: str, fault: str) -> str:
    return f"A report of {worker} was refused, and what is known of its host stays as it was: {fault}."


def noisy(host: str, most: int) -> str:
    return (
        f"{host} reported more than {most} changes within an hour, and no more of them are told: look at "
        "what its workers report, or revoke its role."
    )
