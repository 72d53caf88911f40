"""What the driver says of one GPU: settings, versions, readings. NVML where importable, else nvidia-smi.

Nothing here fails for want of either: what cannot be read is left out.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import time
from typing import Any, Protocol

from workers.bench.document import Flag, Readings

POLL_EVERY_S = 0.02

#: bits of NVML's clocks event (throttle) reasons; idle is none
_REASONS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
#: reasons that hold the clock below what the settings allow
THROTTLING = frozenset(
    {
        "sw_power_cap",
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
    }
)


def reasons(mask: int) -> tuple[str, ...]:
    """Names of the bits set in a clocks event reasons mask."""
    return tuple(name for bit, name in _REASONS.items() if mask & bit)


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One look at the device."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What somebody chose (`configuration`), what the device is (`properties`), and versions (`stack`)."""

    configuration: dict[str, str | int | float | bool | None] = dataclasses.field(default_factory=dict)
    properties: dict[str, str | int | float] = dataclasses.field(default_factory=dict)
    stack: dict[str, str] = dataclasses.field(default_factory=dict)


class Source(Protocol):
    """Where readings come from. `poll` never waits, and gives the latest reading since the last `take`, which
    hands over all of them."""

    def settings(self) -> Settings: ...
    def poll(self) -> Reading | None: ...
    def take(self) -> list[Reading]: ...
    def sharers(self) -> int | None: ...


def open_source(uuid: str | None) -> Source:
    """The best source for the GPU of this UUID ("GPU-…", "MIG-…")."""
    if uuid is None:
        return Nothing()
    try:
        return Nvml(uuid)
    except Exception:  # NVML's binding raises its own types, which exist only where it imports
        return Smi(uuid) if _smi(uuid, ["driver_version"]) else Nothing()


class Nothing:
    """No driver interface at hand."""

    def settings(self) -> Settings:
        return Settings()

    def poll(self) -> Reading | None:
        return None

    def take(self) -> list[Reading]:
        return []

    def sharers(self) -> int | None:
        return None


class Nvml:
    """Through nvidia-ml-py, in this process."""

    def __init__(self, uuid: str) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._gathered: list[Reading] = []
        self._due = 0.0

    def _ask(self, name: str, *args: Any) -> Any:
        """The answer of one NVML call on this device; None where the device or the library has none."""
        try:
            return getattr(self._nvml, name)(self._handle, *args)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def settings(self) -> Settings:
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        ecc, mig = self._ask("nvmlDeviceGetEccMode"), self._ask("nvmlDeviceGetMigMode")
        link = self._ask("nvmlDeviceGetMaxPcieLinkGeneration"), self._ask("nvmlDeviceGetCurrPcieLinkWidth")
        clock = self._ask("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM)
        try:
            driver = self._nvml.nvmlSystemGetDriverVersion()
        except self._nvml.NVMLError:
            driver = None
        return _settings(
            power_limit_w=None if limit is None else limit / 1000,
            ecc=None if ecc is None else bool(ecc[0]),
            mig=None if mig is None else bool(mig[0]),
            pcie=None if None in link else f"gen{link[0]} x{link[1]}",
            max_sm_clock_mhz=clock,
            driver=driver.decode() if isinstance(driver, bytes) else driver,
        )

    def poll(self) -> Reading | None:
        if time.monotonic() < self._due:
            return self._gathered[-1] if self._gathered else None
        self._due = time.monotonic() + POLL_EVERY_S
        power = self._ask("nvmlDeviceGetPowerUsage")
        mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if mask is None:  # the name before driver 535
            mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        self._gathered.append(
            Reading(
                sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
                power_w=None if power is None else power / 1000,
                temperature_c=self._ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
                throttle_reasons=reasons(mask or 0),
            )
        )
        return self._gathered[-1]

    def take(self) -> list[Reading]:
        gathered, self._gathered, self._due = self._gathered, [], 0.0
        return gathered

    def sharers(self) -> int | None:
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if processes is None else len(processes)


class Smi:
    """Through `nvidia-smi`: one query at a time, started by `poll` and collected once it has ended."""

    _FIELDS = ("clocks.sm", "power.draw", "temperature.gpu", "clocks_event_reasons.active")

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._child: subprocess.Popen[str] | None = None
        self._gathered: list[Reading] = []

    def settings(self) -> Settings:
        fields = ["power.limit", "ecc.mode.current", "mig.mode.current", "pcie.link.gen.max"]
        fields += ["pcie.link.width.current", "clocks.max.sm", "driver_version"]
        row = _smi(self._uuid, fields) or [""] * len(fields)
        limit, ecc, mig, generation, width, clock, driver = row
        return _settings(
            power_limit_w=_number(limit),
            ecc=_switch(ecc),
            mig=_switch(mig),
            pcie=f"gen{generation} x{width}" if generation.isdigit() and width.isdigit() else None,
            max_sm_clock_mhz=_number(clock),
            driver=driver or None,
        )

    def poll(self) -> Reading | None:
        if self._child is None:
            self._child = subprocess.Popen(
                _smi_command(self._uuid, self._FIELDS),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        elif self._child.poll() is not None:
            self._collect(self._child.communicate()[0])
        return self._gathered[-1] if self._gathered else None

    def take(self) -> list[Reading]:
        if self._child is not None:
            try:
                self._collect(self._child.communicate(timeout=10)[0])
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.communicate()
                self._child = None
        gathered, self._gathered = self._gathered, []
        return gathered

    def sharers(self) -> int | None:
        try:
            done = subprocess.run(
                ["nvidia-smi", "-i", self._uuid, "--query-compute-apps=pid", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return sum(1 for line in done.stdout.splitlines() if line.strip().isdigit())

    def _collect(self, out: str) -> None:
        self._child = None
        row = [field.strip() for field in out.strip().split(",")]
        if len(row) == len(self._FIELDS):
            clock, power, temperature, mask = row
            active = int(mask, 16) if mask.startswith("0x") else 0
            self._gathered.append(
                Reading(_number(clock), _number(power), _number(temperature), reasons(active))
            )


def summarise(gathered: list[Reading]) -> Readings | None:
    """Readings of one window; None where there were none. Power and temperature are medians."""
    if not gathered:
        return None
    clocks = [each.sm_clock_mhz for each in gathered if each.sm_clock_mhz is not None]
    powers = [each.power_w for each in gathered if each.power_w is not None]
    temperatures = [each.temperature_c for each in gathered if each.temperature_c is not None]
    seen = {reason for each in gathered for reason in each.throttle_reasons}
    return Readings(
        sm_clock_mhz_min=min(clocks, default=None),
        sm_clock_mhz_median=statistics.median(clocks) if clocks else None,
        sm_clock_mhz_max=max(clocks, default=None),
        power_w=round(statistics.median(powers), 1) if powers else None,
        temperature_c=statistics.median(temperatures) if temperatures else None,
        throttle_reasons=tuple(name for name in _REASONS.values() if name in seen),
    )


def _settings(
    *,
    power_limit_w: float | None,
    ecc: bool | None,
    mig: bool | None,
    pcie: str | None,
    max_sm_clock_mhz: float | None,
    driver: str | None,
) -> Settings:
    chosen = {"power_limit_w": power_limit_w, "ecc": ecc, "mig": mig, "pcie": pcie}
    return Settings(
        configuration={name: value for name, value in chosen.items() if value is not None},
        properties={} if max_sm_clock_mhz is None else {"max_sm_clock_mhz": max_sm_clock_mhz},
        stack={} if driver is None else {"driver": driver},
    )


def _smi_command(uuid: str, fields: tuple[str, ...] | list[str]) -> list[str]:
    return ["nvidia-smi", "-i", uuid, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]


def _smi(uuid: str, fields: list[str]) -> list[str] | None:
    """One row of nvidia-smi's answer; None where it is missing, fails or answers otherwise."""
    try:
        done = subprocess.run(
            _smi_command(uuid, fields), capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    row = [field.strip() for field in done.stdout.strip().split(",")]
    return row if len(row) == len(fields) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _switch(text: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text)


def flags(readings: Readings | None, sharers: int | None) -> list[Flag]:
    """What readings around a window say against its time; `sharers` use the GPU, this process among them."""
    found: list[Flag] = []
    if readings is not None and THROTTLING & set(readings.throttle_reasons):
        found.append("throttled")
    if (sharers or 0) > 1:
        found.append("contended")
    return found
