"""What an installation reports, checked. A GPU host runs freshly compiled code, so none of it is believed in
length or kind; what a newer worker says beside it is left out."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

MOST_GPUS = 64
MOST_WORKERS = 200


class Fault(ValueError):
    """One sentence: which field is wrong, and how."""


def _cut(length: int) -> Callable[[object], object]:
    def cut(value: object) -> object:
        if not isinstance(value, str):
            return value
        return "".join(letter if letter.isprintable() else " " for letter in value[:length]).strip()

    return cut


def _first(number: int) -> Callable[[object], object]:
    """The first so many of a list or a mapping: what is only shown need not be whole."""

    def first(value: object) -> object:
        if isinstance(value, dict):
            return dict(list(value.items())[:number])
        return value[:number] if isinstance(value, list) else value

    return first


def _named(value: object) -> object:
    """Of a mapping, what is named like an environment: a folder of its own making may stand beside them."""
    if not isinstance(value, dict):
        return value
    return _first(1000)({name: each for name, each in value.items() if re.fullmatch(r"\w{1,16}", str(name))})


def _aware(value: dt.datetime) -> dt.datetime:
    if not 1970 <= value.year <= 9000:
        raise ValueError("expected a time that every zone has")
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


#: Only shown: cut to its length.
Short = Annotated[str, BeforeValidator(_cut(60))]
Words = Annotated[str, BeforeValidator(_cut(300))]
#: Decides what is what: refused when it is none.
Uuid = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,79}$")]
Name = Annotated[str, Field(pattern=r"^[^\s@/\x00-\x1f]{1,60}$")]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,16}$")]
Queue = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,119}$")]
Bytes = Annotated[int, Field(ge=0, le=2**60)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Figure = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Moment = Annotated[dt.datetime, AfterValidator(_aware)]
Setting = bool | int | Figure | Short | None


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Worker(Lenient):
    name: Annotated[str, Field(max_length=120)]
    kind: Short = ""
    queues: Annotated[list[Queue], Field(max_length=32)] = []
    gpu: Annotated[str, Field(max_length=80)] | None = None


class Environment(Lenient):
    bytes: Bytes | None = None
    used_at: Moment | None = None


class Facts(Lenient):
    driver: Short | None = None
    kernel: Words | None = None
    python: Short | None = None
    cpus: Count | None = None
    memory_bytes: Bytes | None = None


class Disk(Lenient):
    total_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    envs_bytes: Bytes | None = None
    cache_bytes: Bytes | None = None
    log_bytes: Bytes | None = None
    spool_files: Count | None = None
    budget_bytes: Bytes | None = None


class Readings(Lenient):
    temperature_c: Figure | None = None
    power_w: Figure | None = None
    sm_clock_mhz: Figure | None = None
    memory_used_bytes: Bytes | None = None
    throttle: Annotated[list[Short], BeforeValidator(_first(16))] = []
    ecc_uncorrected: Count | None = None
    pages_pending: bool | None = None
    pcie_link: Short | None = None


class Process(Lenient):
    pid: Count = 0
    name: Words = ""
    memory_bytes: Bytes | None = None
    ours: bool = False


class GpuReport(Lenient):
    uuid: Uuid
    index: Annotated[int, Field(ge=0, le=1023)]
    model: Annotated[str, BeforeValidator(_cut(120))] = ""
    arch: Annotated[str, Field(pattern=r"^[a-z0-9_.]{0,20}$")] = ""
    memory_bytes: Bytes | None = None
    served: bool = True
    cores: Short | None = None
    configuration: Annotated[
        dict[Annotated[str, Field(max_length=40)], Setting], BeforeValidator(_first(32))
    ] = {}
    readings: Readings = Readings()
    processes: Annotated[list[Process], BeforeValidator(_first(32))] = []
    holder: Words | None = None


class Xid(Lenient):
    uuid: Uuid
    code: Annotated[int, Field(ge=0, le=100_000)]
    at: Moment


class Report(Lenient):
    installation: Key
    host: Name
    machine: Annotated[str, Field(max_length=64)] = ""
    version: Annotated[str, BeforeValidator(_cut(40))] = ""
    protocol: Annotated[int, Field(ge=0, le=32767)] = 0
    labels: Annotated[dict[Annotated[str, Field(max_length=60)], Setting], BeforeValidator(_first(32))] = {}
    started_at: Moment | None = None
    workers: Annotated[list[Worker], Field(max_length=MOST_WORKERS)] = []
    environments: Annotated[dict[str, Environment], BeforeValidator(_named)] = {}
    facts: Facts = Facts()
    disk: Disk = Disk()
    gpus: Annotated[list[GpuReport], Field(max_length=MOST_GPUS)] = []
    missing: Annotated[list[Uuid], BeforeValidator(_first(MOST_GPUS))] = []
    xids: Annotated[list[Xid], BeforeValidator(_first(200))] = []
    nvml: Words = ""

    @property
    def queues(self) -> list[str]:
        """All that its workers serve, each once."""
        return sorted({queue for worker in self.workers for queue in worker.queues})


def parse(content: Any, worker: str) -> Report:
    """The report that `worker` sent. Raises Fault."""
    try:
        report = Report.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "report"
        raise Fault(f"{where[:120]}: {first['msg'][:200]}") from None
    host, _, installation = worker.partition("@")[2].partition("/")
    if (report.host, report.installation) != (host, installation):
        raise Fault(f"host: {report.host}/{report.installation} is not the host and installation of {worker}")
    if len({gpu.uuid for gpu in report.gpus}) < len(report.gpus):
        raise Fault("gpus: the same UUID stands there twice")
    return report
