"""The rows of one aiconfigurator table as measurements, read from the bundle that the inbox keeps."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from benchapp.ingest import schema
from benchapp.ingest.importers import bundle, parquet
from benchapp.ingest.importers.base import Claims, ImportFault, agreed_arch, named, plural, printable
from workers.bench import hardware
from workers.bench.cases.base import Case, Params
from workers.bench.cases.gemm import FORMATS as GEMM_FORMATS
from workers.bench.cases.moe import FORMATS as MOE_FORMATS
from workers.bench.cases.parse import from_params
from workers.bench.document import SAMPLE_CAP, BenchError, Document, Flag, Target
from workers.bench.timing import summarise

FORMAT = "aiconfigurator"
HOST = "aiconfigurator"
#: aiconfigurator's words for formats, where ours differ
_DTYPES = {"bfloat16": "bf16"}
#: Seconds that a call may take.
_SHORTEST, _LONGEST = 1e-9, 1e5
#: Characters of a series' backend.
BACKEND = 120
_CONSTANT = ("framework", "version", "device", "op_name")


def _gemm(row: dict[str, Any]) -> tuple[str, Params]:
    return "gemm", {name: row[name] for name in "mnk"} | {"dtype": row["gemm_dtype"]}


def _moe(row: dict[str, Any]) -> tuple[str, Params]:
    return "moe", {
        "tokens": row["num_tokens"], "hidden": row["hidden_size"], "inter": row["inter_size"],
        "topk": row["topk"], "experts": row["num_experts"], "tp": row["moe_tp_size"],
        "ep": row["moe_ep_size"], "dtype": row["moe_dtype"], "distribution": row["distribution"],
        "activation": "plain" if row["kernel_source"].endswith("_nongated") else "gated",
    }  # fmt: skip


def _wideep(row: dict[str, Any]) -> tuple[str, Params]:
    """Tokens of each rank follow from the draw of the routing: they are no part of the case."""
    if row["simulation_mode"] != "accurate":
        raise BenchError("bad_case", "simulation_mode is not accurate.")
    if row["num_slots"] != row["num_experts"]:
        raise BenchError("bad_case", "num_slots differs from num_experts: experts are held twice.")
    return _moe(row)


_MOE = {
    "kernel_source": "text", "moe_dtype": "text", "num_tokens": "whole", "hidden_size": "whole",
    "inter_size": "whole", "topk": "whole", "num_experts": "whole", "moe_tp_size": "whole",
    "moe_ep_size": "whole", "distribution": "text",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """A table's name for what it holds, the columns that make a case, and how."""

    op: str
    keys: dict[str, Any]
    case: Callable[[dict[str, Any]], tuple[str, Params]]


TABLES: dict[str, _Layout] = {
    "gemm_perf": _Layout(
        "gemm",
        {"kernel_source": "text", "gemm_dtype": "text", "m": "whole", "n": "whole", "k": "whole"},
        _gemm,
    ),
    "moe_perf": _Layout("moe", _MOE, _moe),
    "wideep_moe_perf": _Layout(
        "wideep_moe", {**_MOE, "num_slots": "whole", "simulation_mode": "text"}, _wideep
    ),
}


@dataclasses.dataclass(slots=True)
class Tally:
    """Every row of a table, accounted for: rows = stored + repeated + left out."""

    rows: int
    stored: int = 0
    #: rows beyond the first of their case: further samples of one measurement
    repeated: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "stored": self.stored,
            "repeated": self.repeated,
            "left_out": dict(self.left_out),
        }

    def notes(self) -> list[str]:
        said = [
            f"{plural(self.rows, 'row')} read = {self.stored:,} stored + {self.repeated:,} repeated"
            f" + {self.left_out.total():,} left out."
        ]
        if self.repeated:
            said.append("Rows of one case and kernel are samples of one measurement, whose n counts them.")
        said += [f"{plural(count, 'row')} left out: {why}" for why, count in self.left_out.most_common(20)]
        return said


def _statistics(samples: tuple[float, ...]) -> schema.Statistics:
    of = summarise(samples)
    return schema.Statistics(n=of.n, median=of.median, q1=of.q1, q3=of.q3, min=of.min)


class Rows:
    """A bundle, opened. `document` is all but its measurements; `batches` go through the rows once."""

    def __init__(self, body: bytes) -> None:
        """Raises ImportFault where the bundle is none of ours, or its table none of aiconfigurator's."""
        self._about, files = bundle.unpack(body)
        name = self._about.get("table")
        if self._about.get("format") != FORMAT or name not in TABLES or f"{name}.parquet" not in files:
            raise ImportFault(f"is no bundle of {FORMAT}'s")
        self._layout = TABLES[name]
        columns = {**dict.fromkeys(_CONSTANT, "text"), **self._layout.keys, "latency": "number"}
        self._table, others = parquet.read(files[f"{name}.parquet"], columns)
        self.tally = Tally(self._table.num_rows)
        framework, version, device, op = (parquet.only(self._table, column) for column in _CONSTANT)
        if op != self._layout.op:
            raise ImportFault(f"column op_name: expected {self._layout.op}, found {printable(op, 40)!r}")
        self._framework = framework.lower()
        if not re.fullmatch(r"[a-z0-9_.-]{1,40}", self._framework):
            raise ImportFault(f"column framework: {printable(framework, 40)!r} is no name of one")
        lender = self._about.get("lender")
        if lender is not None and lender != version:
            raise ImportFault(
                f"reuse.yaml names version {lender}, but the table says {printable(version, 40)}"
            )
        self._flags: tuple[Flag, ...] = ("borrowed", "imported") if lender else ("imported",)
        self.document = self._header(device, self._about["version"] if lender else version, others)

    def _header(self, device: str, version: str, others: list[str]) -> schema.Document:
        about = self._about
        gpu = about.get("gpu")
        model = hardware.lookup(gpu)
        arch = agreed_arch(Claims(gpu=gpu, arch=model.arch if model else gpu), None, "the table", gpu=device)
        known = hardware.lookup(device)
        slug = re.sub(r"[^a-z0-9]+", "-", (known.name if known else device).lower()).strip("-")
        notes = [str(note) for note in about.get("notes", ())]
        if about.get("lender"):
            notes.insert(0, f"Borrowed: these are the numbers of {self._framework} {about['lender']}.")
        if others:
            notes.append(f"Columns not read: {named([printable(name, 40) for name in others])}.")
        path, moment = str(about.get("path")), str(about.get("moment"))
        made = Document(
            kind="gemm",
            command=("manage.py", "import", FORMAT, path, *(("--gpu", gpu) if gpu else ())),
            started_at=moment,
            finished_at=moment,
            target=Target(
                kind="gpu", arch=arch, model=device, uuid=f"GPU-imported-{FORMAT}-{slug}"[:80], host=HOST
            ),
            stack={self._framework: version},
            notes=tuple(note[:500] for note in notes),
            producer=FORMAT,
        )
        try:
            return schema.parse(made.dumps().encode())
        except (schema.Fault, TypeError, ValueError) as fault:
            raise ImportFault(f"cannot be made a document: {fault}") from None

    def batches(self) -> Iterator[list[schema.Measurement]]:
        """The measurements; the tally is whole once they are through. Nobody checked what these kernels
        computed, so each is unverified."""
        names = list(self._layout.keys)
        for batch in parquet.grouped(self._table, names, "latency"):
            made = (self._measurement(dict(zip(names, key, strict=True)), times) for key, times in batch)
            yield [item for item in made if item is not None]

    def _measurement(self, row: dict[str, Any], latencies: list[float | None]) -> schema.Measurement | None:
        """One case and kernel, of all its rows' latencies in ms; None where none of them can be stored."""
        left_out = self.tally.left_out
        missing = [name for name, value in row.items() if value is None]
        if missing:
            left_out[f"{missing[0]} is missing."] += len(latencies)
            return None
        try:
            case = self._case(row)
        except BenchError as error:
            left_out[error.sentence] += len(latencies)
            return None
        samples = tuple(ms / 1e3 for ms in latencies if ms is not None and _SHORTEST <= ms / 1e3 <= _LONGEST)
        if len(samples) < len(latencies):
            left_out[f"latency is no time from {_SHORTEST:g} to {_LONGEST:g} s."] += len(latencies) - len(
                samples
            )
        if not samples:
            return None
        self.tally.stored += 1
        self.tally.repeated += len(samples) - 1
        work = case.work
        return schema.Measurement(
            kind=case.kind,
            params=case.params,
            outcome="unverified",
            measured_at=self.document.finished_at,
            samples=samples[:SAMPLE_CAP] if len(samples) > 1 else (),
            statistics=_statistics(samples),
            backend=f"{self._framework}.{row['kernel_source']}"[:BACKEND],
            flops=work.flops,
            bytes=work.bytes,
            flags=self._flags,
        )

    def _case(self, row: dict[str, Any]) -> Case:
        kind, params = self._layout.case(row)
        dtype = str(params["dtype"])
        known = _DTYPES.get(dtype, dtype)
        if known not in (GEMM_FORMATS if kind == "gemm" else MOE_FORMATS):
            raise BenchError("bad_case", f"{printable(dtype, 40)} is no format that is known here.")
        return from_params(kind, params | {"dtype": known}, "row")
