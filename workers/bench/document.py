"""The document: the JSON that a bench writes, and the only way a measurement enters the database.

Plain dataclasses of the standard library, so that `python -m workers.bench` runs in any Python.
`benchapp.ingest.schema` holds the pydantic model that checks the same shape on the way in; a test
keeps the two equal. Times are seconds, sizes bytes, clocks MHz, power W, temperatures Celsius;
timestamps are ISO 8601 in UTC with a trailing Z.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

SCHEMA_VERSION = 1

Stage = Literal["candidate", "dispatched", "compiled", "fits", "initialised", "ran", "correct"]
Reason = Literal[
    "no_candidate",
    "no_dispatch",
    "compile_error",
    "smem_overflow",
    "init_failed",
    "launch_failed",
    "crashed",
    "timeout",
    "incorrect",
    "not_supported",
]
Tier = Literal["types", "body", "full"]
#: Where a finding comes from: the version's tactic list, its generator and dispatch table, nvcc, a GPU,
#: or somebody else's file.
Source = Literal["heuristic", "generator", "compiler", "device", "imported"]
Outcome = Literal[
    "ok",
    "unverified",
    "incorrect",
    "unsupported",
    "build_failed",
    "init_failed",
    "launch_failed",
    "crashed",
    "timeout",
    "oom",
]
Timer = Literal["cupti", "cuda_graph", "cuda_events", "wall_clock"]
#: Of GPU time, in the order in which they are tried: what each adds to a kernel grows.
GPU_TIMERS: tuple[Timer, ...] = ("cupti", "cuda_graph", "cuda_events")
L2Policy = Literal["flushed", "rotated", "warm", "unknown"]
#: borrowed: measured on another version, by its source's own word; imported: from another tool's file
Flag = Literal["throttled", "contended", "few_samples", "fallback_timer", "borrowed", "imported"]
#: Where the time of a model's step goes; gaps are the GPU's waiting between kernels.
Part = Literal[
    "embedding",
    "norms",
    "attention",
    "router",
    "dispatch",
    "fc1",
    "activation",
    "fc2",
    "combine",
    "shared",
    "dense",
    "collectives",
    "head",
    "other",
    "gaps",
]
#: Seconds of a call; CPU seconds of a build; bytes of what was built.
Metric = Literal["time", "cpu_time", "size"]
#: What an A/B compares: those, and the host's time of a call.
ComparedMetric = Literal["time", "host_time", "cpu_time", "size"]
#: Of an A/B: no change, faster (or less), slower (or more), or not decided.
Word = Literal["SAME", "FAST", "SLOW", "AMBG"]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What was measured on. `arch` is e.g. sm120, sm90 or x86_64; a static survey has nothing else.

    Of a gang it is the first GPU, with `gpus` among the properties. An endpoint is a server reached over the
    network, `host` its name in the allow-list and `model` the hardware that a person states; its arch is
    "endpoint".
    """

    kind: Literal["arch", "cpu", "gpu", "endpoint"]
    arch: str
    model: str | None = None
    uuid: str | None = None
    host: str | None = None
    #: settings somebody chose, never readings: power_limit_w, locked_sm_clock_mhz, ecc, mig, threads …
    configuration: dict[str, str | int | float | bool | None] = dataclasses.field(default_factory=dict)
    #: what the device says of itself: sm_count, l2_bytes, smem_optin_bytes, max_sm_clock_mhz, cores …
    properties: dict[str, str | int | float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One append-only finding about one tile variant.

    `tile` is (M, N, K) in elements. `limit_bytes` is the opt-in shared memory of one block on
    `Target.arch`, `need_bytes` what the kernel asks for. `parts` splits need_bytes; where it is
    given its values sum to need_bytes. `predicted_stages` and `predicted_bytes` are what CUTLASS's own
    stage arithmetic promises, beside what the compiler found. `registers`, spills and `stack_bytes`
    (local memory) are ptxas' figures a thread, known from tier full on. `chosen_for` names the shapes an
    autotuner chose the variant for. `log` names an entry of `Document.logs`.
    """

    family: str
    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str
    stage: Stage
    passed: bool
    source: Source
    reason: Reason | None = None
    tier: Tier | None = None
    stages: int | None = None
    need_bytes: int | None = None
    limit_bytes: int | None = None
    parts: dict[str, int] = dataclasses.field(default_factory=dict)
    predicted_stages: int | None = None
    predicted_bytes: int | None = None
    threads: int | None = None
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    object_bytes: int | None = None
    chosen_for: str | None = None
    unit: str | None = None
    detail: str | None = None
    log: str | None = None
    cpu_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Where a version's own sources name a variant, whatever its output type.

    `candidate`: in the tactic list of its heuristic; `dispatched`: in its dispatch table; `instantiated`:
    among what its generator writes. In a sound version the three agree. `tactics` are (gemm, id) pairs: the
    ids that an autotuner knows the variant by, absolute in GEMM1 ++ GEMM2; a dense GEMM is gemm 1.
    """

    family: str
    inputs: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str
    candidate: bool
    dispatched: bool
    instantiated: bool
    tactics: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Correctness:
    """Agreement with a reference in higher precision on fresh random inputs."""

    reference: str
    cosine: float
    max_relative_error: float
    nan_count: int
    zero_count: int
    elements: int
    tolerance: float


@dataclasses.dataclass(frozen=True, slots=True)
class Readings:
    """Momentary values around the timed window; never part of what is comparable."""

    sm_clock_mhz_min: float | None = None
    sm_clock_mhz_median: float | None = None
    sm_clock_mhz_max: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """Order statistics of the samples, in the unit of the metric (seconds for time)."""

    n: int
    median: float
    q1: float
    q3: float
    min: float


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What was seen of a model's steps beside their time. Sizes are bytes of the fullest GPU.

    tok/s = tokens / window_s: `tokens` are those produced in the timed window (prefill: taken in), of all
    GPUs together, and start-up lies outside of it. `parts` are seconds of one step on the critical path of
    rank 0, gaps among them, from a traced run; they sum to `traced_s`. `overlap_s` ran hidden behind them.
    `libraries` splits the same kernels by whose they are ("flashinfer", "cublas", "torch", "nccl", "triton").
    `experts_hit` is the mean number of distinct experts that a layer touched in one step, of all ranks;
    `routing` holds the rows that each expert got in the window, over all layers.
    `projected_s` is one step of the whole model where only `layers` of `layers_total` were measured;
    `left_out` says in sentences what the figure is without.
    """

    tokens: int
    steps: int
    window_s: float
    gpus: int
    layers: int
    layers_total: int
    weight_bytes: int
    kv_bytes: int
    peak_memory_bytes: int
    parts: dict[Part, float] = dataclasses.field(default_factory=dict)
    libraries: dict[str, float] = dataclasses.field(default_factory=dict)
    traced_s: float | None = None
    overlap_s: float | None = None
    #: kernels of one step on rank 0
    kernels: int | None = None
    #: median step of each rank, by rank
    rank_medians: tuple[float, ...] = ()
    experts_hit: float | None = None
    routing: tuple[int, ...] = ()
    #: mean over the window, of all GPUs together
    power_w: float | None = None
    projected_s: float | None = None
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a latency, in seconds, over `n` requests or tokens."""

    n: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


@dataclasses.dataclass(frozen=True, slots=True)
class Serving:
    """What a load generator saw of an endpoint under one concurrency. Only requests that ended well are in
    tokens and latencies; `errors` counts the others by what became of them.

    `counted_by` says who counted tokens, "server" or the name of a tokenizer; `stack_by` whether the stack is
    what the server told or what a person stated.
    """

    sent: int
    completed: int
    window_s: float
    input_tokens: int
    output_tokens: int
    counted_by: str
    stack_by: Literal["told", "stated"]
    errors: dict[str, int] = dataclasses.field(default_factory=dict)
    #: to the first token
    ttft: Percentiles | None = None
    #: per output token after the first, of each request
    tpot: Percentiles | None = None
    #: between tokens
    itl: Percentiles | None = None
    latency: Percentiles | None = None
    #: of the endpoint, as stated
    gpus: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One case's outcome. `params` are canonical: the same case always writes the same mapping.

    `samples` are seconds per call (capped at SAMPLE_CAP, in the order taken), of other metrics what these
    count. `discarded` samples were thrown away because the clock was not up. `flops` and `bytes` are the
    compulsory work of one call. Where a case was measured in several fresh processes, `process_medians` and
    `process_host_medians` hold the median GPU and host seconds of each, and `samples` are of all of them.
    """

    kind: str
    params: dict[str, str | int | bool]
    outcome: Outcome
    measured_at: str
    metric: Metric = "time"
    samples: tuple[float, ...] = ()
    discarded: int = 0
    process_medians: tuple[float, ...] = ()
    process_host_medians: tuple[float, ...] = ()
    statistics: Statistics | None = None
    host_time: Statistics | None = None
    timer: Timer | None = None
    l2_policy: L2Policy = "unknown"
    pdl: bool | None = None
    inputs: str | None = None
    backend: str | None = None
    kernel: str | None = None
    flops: float | None = None
    bytes: float | None = None
    #: of kinds moe and moe_layer: rows that each expert of the layer got, of all ranks
    routing: tuple[int, ...] = ()
    correctness: Correctness | None = None
    readings: Readings | None = None
    #: of kinds decode and prefill
    step: Step | None = None
    #: of kind serving
    serving: Serving | None = None
    flags: tuple[Flag, ...] = ()
    error: str | None = None


SAMPLE_CAP = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What an A/B of two environments said of one case, backend and metric.

    `ratio` is new / old with its 99 % interval `low` to `high`, of `pairs` of fresh processes; None where
    they are not known. `old` and `new` are the median of each process in the metric's unit, in the order of
    the pairs, None of one that brought no value; `old_clock_mhz` and `new_clock_mhz` their SM clocks.
    `in_cycles`: the clock moved, and `ratio` is of times × clock; then `time_ratio` is that of times, and
    `cycles_ratio` that of cycles. `old_outcome` and `new_outcome` say in words what a side's processes came
    to, "ok" where all was well. `why` says why it is AMBG.
    """

    kind: str
    params: dict[str, str | int | bool]
    metric: ComparedMetric
    verdict: Word
    old_stack: dict[str, str]
    new_stack: dict[str, str]
    backend: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    in_cycles: bool = False
    time_ratio: float | None = None
    cycles_ratio: float | None = None
    old: tuple[float | None, ...] = ()
    new: tuple[float | None, ...] = ()
    old_clock_mhz: tuple[float | None, ...] = ()
    new_clock_mhz: tuple[float | None, ...] = ()
    old_outcome: str = "ok"
    new_outcome: str = "ok"
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    #: modules: the JIT modules of an environment, built ahead; moe: whole models and collectives; confirm:
    #: A/Bs of environments
    kind: Literal["tiles", "gemm", "modules", "moe", "serving", "confirm"]
    command: tuple[str, ...]
    started_at: str
    finished_at: str
    target: Target
    #: versions observed, e.g. {"flashinfer": "0.6.3", "cutlass": "4.2.1", "nvcc": "13.0.88"}; evidence speaks
    #: of the FlashInfer release named here, or where none is, of the CUTLASS release
    stack: dict[str, str]
    measurements: tuple[Measurement, ...] = ()
    #: of kind confirm, whose `stack` is that of the newest environment
    comparisons: tuple[Comparison, ...] = ()
    evidence: tuple[Finding, ...] = ()
    listings: tuple[Listing, ...] = ()
    #: log texts by name; findings refer to them
    logs: dict[str, str] = dataclasses.field(default_factory=dict)
    #: figures about the work itself: cpu_seconds, wall_seconds, wheel_bytes, cached_units …
    costs: dict[str, int | float] = dataclasses.field(default_factory=dict)
    #: sentences on what a reader must know of it: a recipe that mixes old and new, rows left out …
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION
    producer: str = "tilewatch"

    def dumps(self) -> str:
        """JSON with sorted keys; NaN and infinities are refused."""
        # asdict() would copy every value first, which takes three times as long
        return json.dumps(self, default=_fields, sort_keys=True, allow_nan=False, separators=(",", ":"))

    def write(self, path: Path) -> None:
        """Write beside `path` and rename, so that a reader never sees half a document."""
        aside = path.with_name(path.name + ".part")
        with aside.open("w", encoding="utf-8") as out:
            out.write(self.dumps())
            out.flush()
            os.fsync(out.fileno())
        aside.replace(path)


def _fields(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class BenchError(Exception):
    """A failure a person can act on: `code` for programs, one clear sentence for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Progress:
    """Lines of JSON for whoever watches: {"done", "total", "message"} or {"error": {"code", "message"}}.

    Each step is a line on standard error too, for the log.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def _line(self, payload: dict[str, Any]) -> None:
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(payload) + "\n")

    def step(self, done: int, total: int, message: str) -> None:
        print(f"{now()} {done}/{total} {message}", file=sys.stderr, flush=True)
        self._line({"done": done, "total": total, "message": message})

    def error(self, error: BenchError) -> None:
        self._line({"error": {"code": error.code, "message": error.sentence}})
