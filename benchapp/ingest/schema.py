"""What a document must look like: `workers.bench.document` with its bounds; faults name their path."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from benchapp.catalog.versions import PATTERN
from benchapp.runs.steps import COLLECTIVES, SERVING, STEPS
from benchapp.tiles import families
from workers.bench import document as doc
from workers.bench.cases.parse import from_params
from workers.bench.document import BenchError

#: Earliest and latest (relative to now) moment a measurement may claim.
EPOCH = dt.datetime(2015, 1, 1, tzinfo=dt.UTC)
CLOCK_SKEW = dt.timedelta(days=1)
FAULTS_SHOWN = 5

Short = Annotated[str, StringConstraints(min_length=1, max_length=120)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:+\-]{1,40}$")]
Text = Annotated[str, StringConstraints(max_length=20_000)]
LogText = Annotated[str, StringConstraints(max_length=1_000_000)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Size = Annotated[int, Field(ge=0, le=2**31 - 1)]
Extent = Annotated[int, Field(ge=1, le=2**31 - 1)]
Blocks = Annotated[int, Field(ge=1, le=64)]
Arch = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,12}$")]
Seconds = Annotated[float, Field(ge=0, le=1e7)]
#: A sample of any metric, bytes of metric size among them.
Sample = Annotated[float, Field(ge=0, le=1e12)]
#: One call takes at least a picosecond: a rate computed from it stays a number.
CallTime = Annotated[float, Field(ge=1e-12, le=1e12)]
#: MHz; an idle part of a GPU may read 0.
Clock = Annotated[float, Field(ge=0, le=100_000)]
#: In UTC, wherever its clock stood: moments are kept as text too, and compared as such.
Moment = Annotated[
    AwareDatetime,
    Field(ge=EPOCH, le=dt.datetime(2100, 1, 1, tzinfo=dt.UTC)),
    AfterValidator(lambda moment: moment.astimezone(dt.UTC)),
]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Value = Annotated[str, StringConstraints(max_length=200)]
Number = Annotated[float, Field(ge=0, le=1e18)]
Versions = Annotated[dict[Word, Short], Field(min_length=1, max_length=60)]
Ratio = Annotated[float, Field(ge=1e-12, le=1e12)]
#: Of a side of an A/B; a ratio is new over old.
MOST_PROCESSES = 100
Processes = Annotated[tuple[CallTime | None, ...], Field(max_length=MOST_PROCESSES)]
Clocks = Annotated[tuple[Clock | None, ...], Field(max_length=MOST_PROCESSES)]
#: What physics reads of a device must be a number.
NUMBERS = frozenset(
    {"sm_count", "l2_bytes", "smem_optin_bytes", "memory_bytes", "max_sm_clock_mhz", "cores", "cache_bytes"}
)


#: Bodies up to this size are faulted with the value that was found; a larger one would be held in memory
#: once more for each of its faults.
VALUES_SHOWN_BYTES = 1024 * 1024
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


class Target(Strict):
    kind: Literal["arch", "cpu", "gpu", "endpoint"]
    arch: Arch
    model: Short | None = None
    uuid: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9\-]{1,80}$")] | None = None
    host: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    configuration: Annotated[dict[Word, Value | bool | Whole | float | None], Field(max_length=40)] = {}
    properties: Annotated[dict[Word, Value | Whole | float], Field(max_length=40)] = {}

    @model_validator(mode="after")
    def _identified(self) -> Target:
        if self.kind == "gpu" and not self.uuid:
            raise ValueError("a gpu target needs its uuid")
        if self.kind in ("cpu", "endpoint") and not (self.host and self.model):
            raise ValueError(f"a target of kind {self.kind} needs host and model")
        for name in sorted(NUMBERS & self.properties.keys()):
            value = self.properties[name]
            if isinstance(value, str) or value < 0:
                raise ValueError(f"properties.{name} must be a number from 0")
        return self


class Finding(Strict):
    family: Word
    inputs: Word
    output: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,12}$")]
    tile: tuple[Extent, Extent, Extent]
    cluster: tuple[Blocks, Blocks, Blocks]
    fusion: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,20}$")]
    swap_ab: bool
    schedule: Word
    stage: doc.Stage
    passed: bool
    source: doc.Source
    reason: doc.Reason | None = None
    tier: doc.Tier | None = None
    stages: Annotated[int, Field(ge=0, le=1000)] | None = None
    need_bytes: Size | None = None
    limit_bytes: Size | None = None
    parts: dict[Word, Size] = {}
    predicted_stages: Annotated[int, Field(ge=0, le=1000)] | None = None
    predicted_bytes: Size | None = None
    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    registers: Annotated[int, Field(ge=0, le=1024)] | None = None
    spill_store_bytes: Size | None = None
    spill_load_bytes: Size | None = None
    stack_bytes: Size | None = None
    object_bytes: Size | None = None
    chosen_for: Annotated[str, StringConstraints(max_length=300)] | None = None
    unit: Annotated[str, StringConstraints(max_length=200)] | None = None
    detail: Text | None = None
    log: Annotated[str, StringConstraints(max_length=200)] | None = None
    cpu_seconds: Seconds | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Finding:
        if self.passed == (self.reason is not None):
            raise ValueError("a finding has a reason exactly when it did not pass")
        if self.stage == "fits":
            if self.need_bytes is None or self.limit_bytes is None:
                raise ValueError("a finding of stage fits needs need_bytes and limit_bytes")
            if self.passed != (self.need_bytes <= self.limit_bytes):
                raise ValueError("passed contradicts need_bytes and limit_bytes")
        if self.parts and sum(self.parts.values()) != self.need_bytes:
            raise ValueError("parts must sum to need_bytes")
        return self


class Listing(Strict):
    family: Word
    inputs: Word
    tile: tuple[Extent, Extent, Extent]
    cluster: tuple[Blocks, Blocks, Blocks]
    fusion: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,20}$")]
    swap_ab: bool
    schedule: Word
    candidate: bool
    dispatched: bool
    instantiated: bool
    tactics: Annotated[
        tuple[tuple[Annotated[int, Field(ge=1, le=2)], Annotated[int, Field(ge=0, le=100_000)]], ...],
        Field(max_length=1_000),
    ] = ()

    @property
    def variant(self) -> tuple[object, ...]:
        """What makes it the same variant; a document lists each once."""
        return (
            self.family, self.inputs, self.tile, self.cluster, self.fusion, self.swap_ab, self.schedule
        )  # fmt: skip

    @model_validator(mode="after")
    def _offered(self) -> Listing:
        if self.tactics and not self.candidate:
            raise ValueError("only a candidate has tactic ids")
        return self


class Correctness(Strict):
    reference: Annotated[str, StringConstraints(max_length=300)]
    cosine: Annotated[float, Field(ge=-1.0001, le=1.0001)]
    max_relative_error: Annotated[float, Field(ge=0)]
    nan_count: Count
    zero_count: Count
    elements: Count
    tolerance: Annotated[float, Field(ge=0)]


class Readings(Strict):
    sm_clock_mhz_min: Clock | None = None
    sm_clock_mhz_median: Clock | None = None
    sm_clock_mhz_max: Clock | None = None
    power_w: Annotated[float, Field(ge=0)] | None = None
    temperature_c: Annotated[float, Field(ge=-100, le=300)] | None = None
    throttle_reasons: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=60)], ...], Field(max_length=20)
    ] = ()


class Statistics(Strict):
    n: Annotated[int, Field(ge=1, le=2**31 - 1)]
    median: CallTime
    q1: CallTime
    q3: CallTime
    min: CallTime

    @model_validator(mode="after")
    def _ordered(self) -> Statistics:
        if not self.min <= self.q1 <= self.median <= self.q3:
            raise ValueError("min ≤ q1 ≤ median ≤ q3 does not hold")
        return self


#: of a step, of its window, or of its share: a rate computed from it stays a number
StepTime = Annotated[float, Field(ge=1e-9, le=1e7)]
Tokens = Annotated[int, Field(ge=0, le=2**53)]
Library = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.\-]{1,40}$")]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=500)]
#: parts are sums of single kernels' times, and rounded in writing
PARTS_TOLERANCE = 1e-6


class Step(Strict):
    tokens: Annotated[int, Field(ge=1, le=2**53)]
    steps: Annotated[int, Field(ge=1, le=2**31 - 1)]
    window_s: StepTime
    gpus: Annotated[int, Field(ge=0, le=1024)]
    layers: Annotated[int, Field(ge=1, le=10_000)]
    layers_total: Annotated[int, Field(ge=1, le=10_000)]
    weight_bytes: Count
    kv_bytes: Count
    peak_memory_bytes: Count
    parts: dict[doc.Part, Seconds] = {}
    libraries: Annotated[dict[Library, Seconds], Field(max_length=40)] = {}
    traced_s: StepTime | None = None
    overlap_s: Seconds | None = None
    kernels: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    rank_medians: Annotated[tuple[StepTime, ...], Field(max_length=1024)] = ()
    experts_hit: Annotated[float, Field(ge=0, le=65_536)] | None = None
    routing: Annotated[tuple[Count, ...], Field(max_length=65_536)] = ()
    power_w: Annotated[float, Field(ge=0, le=1e7)] | None = None
    projected_s: StepTime | None = None
    left_out: Annotated[tuple[Sentence, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Step:
        if self.layers > self.layers_total:
            raise ValueError("layers must be at most layers_total")
        if (self.projected_s is None) != (self.layers == self.layers_total):
            raise ValueError("projected_s is there exactly where layers are fewer than layers_total")
        if bool(self.parts) != (self.traced_s is not None):
            raise ValueError("parts and traced_s belong together")
        if self.traced_s is not None:
            rest = abs(sum(self.parts.values()) - self.traced_s)
            if rest > max(1e-9, PARTS_TOLERANCE * self.traced_s):
                raise ValueError("parts must sum to traced_s")
        return self


class Percentiles(Strict):
    n: Annotated[int, Field(ge=1, le=2**31 - 1)]
    mean: Seconds
    p50: Seconds
    p90: Seconds
    p95: Seconds
    p99: Seconds

    @model_validator(mode="after")
    def _ordered(self) -> Percentiles:
        if not self.p50 <= self.p90 <= self.p95 <= self.p99:
            raise ValueError("p50 ≤ p90 ≤ p95 ≤ p99 does not hold")
        return self


class Serving(Strict):
    sent: Annotated[int, Field(ge=1, le=2**31 - 1)]
    completed: Annotated[int, Field(ge=0, le=2**31 - 1)]
    window_s: StepTime
    input_tokens: Tokens
    output_tokens: Tokens
    counted_by: Short
    stack_by: Literal["told", "stated"]
    errors: Annotated[dict[Word, Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(max_length=40)] = {}
    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    itl: Percentiles | None = None
    latency: Percentiles | None = None
    gpus: Annotated[int, Field(ge=1, le=65_536)] | None = None

    @model_validator(mode="after")
    def _accounted(self) -> Serving:
        if self.completed + sum(self.errors.values()) != self.sent:
            raise ValueError("sent must be completed and errors together")
        return self


def _known_case(kind: str, params: dict[str, Any]) -> None:
    try:
        from_params(kind, params, "params")
    except BenchError as error:
        raise ValueError(error.sentence) from None


class Measurement(Strict):
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,20}$")]
    params: Annotated[dict[Word, Value | bool | Whole], Field(min_length=1, max_length=40)]
    outcome: doc.Outcome
    measured_at: Moment
    metric: doc.Metric = "time"
    samples: Annotated[tuple[Sample, ...], Field(max_length=doc.SAMPLE_CAP), FailFast()] = ()
    discarded: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    process_medians: Annotated[tuple[CallTime, ...], Field(max_length=100)] = ()
    process_host_medians: Annotated[tuple[CallTime, ...], Field(max_length=100)] = ()
    statistics: Statistics | None = None
    host_time: Statistics | None = None
    timer: doc.Timer | None = None
    l2_policy: doc.L2Policy = "unknown"
    pdl: bool | None = None
    inputs: Annotated[str, StringConstraints(max_length=80)] | None = None
    backend: Annotated[str, StringConstraints(max_length=120)] | None = None
    kernel: Annotated[str, StringConstraints(max_length=300)] | None = None
    flops: Number | None = None
    bytes: Number | None = None
    routing: Annotated[tuple[Count, ...], Field(max_length=65_536)] = ()
    correctness: Correctness | None = None
    readings: Readings | None = None
    step: Step | None = None
    serving: Serving | None = None
    flags: Annotated[tuple[doc.Flag, ...], Field(max_length=10)] = ()
    error: Text | None = None

    @property
    def _timer_unsaid(self) -> bool:
        """What other tools measured may not say how; builds are no calls."""
        return "imported" in self.flags or self.metric != "time"

    @model_validator(mode="after")
    def _consistent(self) -> Measurement:
        if self.outcome in ("ok", "unverified") and (
            self.statistics is None or (self.timer is None and not self._timer_unsaid)
        ):
            raise ValueError(f"outcome {self.outcome} needs statistics and timer")
        if self.statistics is not None and (self.kind in STEPS) != (self.step is not None):
            raise ValueError(f"step belongs to the kinds {' and '.join(STEPS)}, wherever they have a time")
        if self.kind in (*COLLECTIVES, SERVING):
            _known_case(self.kind, self.params)  # their pages read single parameters
        if self.serving is not None and self.kind != SERVING:
            raise ValueError("serving belongs to the kind of that name")
        if self.outcome == "ok" and self.correctness is None:
            raise ValueError("outcome ok needs correctness; without a check it is unverified")
        if self.measured_at > dt.datetime.now(dt.UTC) + CLOCK_SKEW:
            raise ValueError("measured_at lies more than a day ahead of this server's clock")
        return self


class Comparison(Strict):
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,20}$")]
    params: Annotated[dict[Word, Value | bool | Whole], Field(min_length=1, max_length=40)]
    metric: doc.ComparedMetric
    verdict: doc.Word
    old_stack: Versions
    new_stack: Versions
    backend: Annotated[str, StringConstraints(max_length=120)] | None = None
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    pairs: Annotated[int, Field(ge=0, le=MOST_PROCESSES)] = 0
    in_cycles: bool = False
    time_ratio: Ratio | None = None
    cycles_ratio: Ratio | None = None
    old: Processes = ()
    new: Processes = ()
    old_clock_mhz: Clocks = ()
    new_clock_mhz: Clocks = ()
    old_outcome: Text = "ok"
    new_outcome: Text = "ok"
    why: Text = ""

    @model_validator(mode="after")
    def _consistent(self) -> Comparison:
        _known_case(self.kind, self.params)
        known = [value is not None for value in (self.ratio, self.low, self.high)]
        if known[1] != known[2] or (known[1] and not known[0]):
            raise ValueError("low and high are there together, and with a ratio")
        if self.verdict != "AMBG" and not known[1]:
            raise ValueError(f"verdict {self.verdict} needs ratio, low and high")
        low, high = self.low or 0.0, self.high or 0.0
        if known[1] and not low <= (self.ratio or 0.0) <= high:
            raise ValueError("low ≤ ratio ≤ high does not hold")
        if (self.verdict == "SLOW" and low <= 1) or (self.verdict == "FAST" and high >= 1):
            raise ValueError(f"verdict {self.verdict} does not fit its interval")
        there = sum(a is not None and b is not None for a, b in zip(self.old, self.new, strict=False))
        if self.pairs > there:
            raise ValueError(f"{self.pairs} pairs, and {there} processes of either side have a value")
        sides = ((self.old, self.old_clock_mhz), (self.new, self.new_clock_mhz))
        if any(clocks and len(clocks) != len(side) for side, clocks in sides):
            raise ValueError("a side has a clock for each of its processes, or none")
        if self.in_cycles and self.cycles_ratio is None:
            raise ValueError("in_cycles needs cycles_ratio")
        return self


class Document(Strict):
    schema_version: Literal[1]
    kind: Literal["tiles", "gemm", "modules", "moe", "serving", "confirm"]
    producer: Short
    command: Annotated[tuple[Annotated[str, StringConstraints(max_length=2000)], ...], Field(max_length=200)]
    started_at: Moment
    finished_at: Moment
    target: Target
    stack: Versions
    measurements: Annotated[tuple[Measurement, ...], Field(max_length=500_000), FailFast()] = ()
    comparisons: Annotated[tuple[Comparison, ...], Field(max_length=5_000), FailFast()] = ()
    evidence: Annotated[tuple[Finding, ...], Field(max_length=200_000), FailFast()] = ()
    listings: Annotated[tuple[Listing, ...], Field(max_length=50_000), FailFast()] = ()
    logs: Annotated[
        dict[Annotated[str, StringConstraints(max_length=200)], LogText], Field(max_length=5_000)
    ] = {}
    costs: Annotated[dict[Word, Whole | float], Field(max_length=100)] = {}
    notes: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=500)], ...], Field(max_length=100)
    ] = ()

    @model_validator(mode="after")
    def _whole(self) -> Document:
        if self.finished_at < self.started_at:
            raise ValueError("finished_at lies before started_at")
        if (self.kind == "confirm") != bool(self.comparisons) or (self.comparisons and self.measurements):
            raise ValueError("a document of kind confirm holds comparisons alone, and no other holds any")
        if self.measurements if self.kind == "tiles" else self.evidence:
            raise ValueError("a document of kind tiles holds evidence, any other measurements")
        if self.evidence and not _is_release(self.stack.get("flashinfer", self.stack.get("cutlass", ""))):
            raise ValueError(
                "evidence needs stack.flashinfer (or stack.cutlass), the version it speaks of, such as 0.6.3"
            )
        if self.evidence and not _is_release(self.stack.get("cutlass", "0")):
            raise ValueError("stack.cutlass is no version, expected one such as 4.2.1")
        if self.listings and (self.kind != "tiles" or "flashinfer" not in self.stack):
            raise ValueError("listings belong to a document of kind tiles with stack.flashinfer")
        package = families.spoken_of(self.stack)
        stray = {item.family for item in self.evidence if families.package(item.family) != package}
        if stray:
            raise ValueError(
                f"evidence of {min(stray)} belongs to a release of "
                f"{families.package_label(families.package(min(stray)))}, and the stack names one of "
                f"{families.package_label(package)}"
            )
        variants = [item.variant for item in self.listings]
        if len(variants) != len(set(variants)):
            raise ValueError("listings name one variant twice")
        ids = [(item.family, item.inputs, *tactic) for item in self.listings for tactic in item.tactics]
        if len(ids) != len(set(ids)):
            raise ValueError("listings give one tactic id to two variants")
        missing = {finding.log for finding in self.evidence if finding.log} - self.logs.keys()
        if missing:
            raise ValueError(f"evidence names a log that is not in logs: {min(missing)}")
        return self


class Fault(Exception):
    """Why a document was refused, in one sentence that names the place."""


def _place(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or "document"


def _is_release(text: str) -> bool:
    """Whether a version has a place in the order of versions (PEP 440) and in an address."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return re.fullmatch(PATTERN, text) is not None


def _said(error: ValidationError, *, with_values: bool) -> str:
    faults = []
    for item in error.errors(include_url=False, include_context=False, include_input=with_values)[
        :FAULTS_SHOWN
    ]:
        value = item.get("input")
        found = f", found {value!r:.60}" if isinstance(value, str | int | float | bool) else ""
        faults.append(f"{_place(item['loc'])}: {item['msg'].removeprefix('Value error, ')}{found}")
    rest = error.error_count() - len(faults)
    return "; ".join(faults) + (f"; and {rest:,} more" if rest > 0 else "")


def parse(body: bytes) -> Document:
    """Check a document's bytes against the schema; a list is checked up to its first fault. Raises Fault."""
    if b"u0000" in body and NUL.search(body):
        raise Fault("document: holds a NUL character, which no text here may contain")
    try:
        return Document.model_validate_json(body)
    except ValidationError as error:
        raise Fault(_said(error, with_values=len(body) <= VALUES_SHOWN_BYTES)) from None
