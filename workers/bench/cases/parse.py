"""Cases from words ("16x4096x6144:nvfp4", "rmsnorm:tokens=64,hidden=7168"), from JSON, and in groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.bench.cases.base import Case, Params, Value, Work
from workers.bench.cases.ceiling import Copy, EmptyKernel
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.gemm import Gemm, GroupedGemm
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.modules import JitModule
from workers.bench.cases.moe import Moe, MoeLayer
from workers.bench.cases.serving import Serving
from workers.bench.cases.step import (
    DecodeAttention,
    PrefillAttention,
    Quantize,
    RmsNorm,
    Rope,
    Sampling,
    SiluAndMul,
)
from workers.bench.document import BenchError

KINDS: dict[str, Any] = {
    kind.kind: kind
    for kind in (
        Gemm, GroupedGemm, DecodeAttention, PrefillAttention, RmsNorm, SiluAndMul, Quantize, Rope, Sampling,
        Copy, EmptyKernel, Moe, MoeLayer, JitModule, Decode, Prefill, AllReduce, AllToAll, Serving,
    )
}  # fmt: skip
MAX_CASES = 10_000
#: cases of several sweeps that one child takes
SHARED = 24

_SHAPE = re.compile(r"(\d{1,8})x(\d{1,8})x(\d{1,8})(?::([a-z0-9_]+))?")
_PAIR = r"[a-z0-9_]{1,20}=[A-Za-z0-9_.\-/]{1,120}"
_NAMED = re.compile(rf"([a-z0-9_]{{1,20}}):({_PAIR}(?:,{_PAIR})*)")


def from_params(kind: str, params: Any, where: str) -> Case:
    """A case from its kind and parameters; `where` names them in the BenchError that a wrong one raises."""
    if kind not in KINDS:
        raise BenchError("bad_case", f"{where}.kind: {str(kind)[:40]!r} is none of {', '.join(KINDS)}.")
    if not isinstance(params, Mapping):
        raise BenchError("bad_case", f"{where}: expected an object with the parameters of a {kind}.")
    case: Case = KINDS[kind].read(params, where)
    return case


def work_of(kind: str, params: Mapping[str, Any]) -> Work | None:
    """The compulsory work of a case by its parameters; None of one that no bench here knows."""
    try:
        return from_params(kind, params, kind).work
    except BenchError:
        return None


def as_row(case: Case) -> Params:
    """A case as one JSON object: its parameters, and its kind where it is no dense GEMM."""
    return case.params if case.kind == Gemm.kind else {"kind": case.kind, **case.params}


def from_row(row: Any, where: str) -> Case:
    """The case of `as_row`. Raises BenchError."""
    if not isinstance(row, Mapping):
        raise BenchError("bad_case", f"{where}: expected an object with the parameters of a case.")
    rest = dict(row)
    return from_params(rest.pop("kind", Gemm.kind), rest, where)


def from_text(text: str) -> Case:
    """The case of "MxNxK:format" or "kind:name=value,name=value", as `str(case)` writes it. BenchError."""
    text = text.strip()
    if _SHAPE.fullmatch(text) and ":" in text:
        return from_shape(text, ())[0]
    match = _NAMED.fullmatch(text)
    if match is None:
        raise BenchError(
            "bad_case",
            f"Case {text[:60]!r}: expected MxNxK:format such as 16x4096x6144:bf16, or kind:name=value,… such"
            " as rmsnorm:tokens=64,hidden=7168,dtype=bf16.",
        )
    params: dict[str, Value] = {}
    for pair in match[2].split(","):
        name, _, value = pair.partition("=")
        params[name] = int(value) if value.isdecimal() else value
    return from_params(match[1], params, f"Case {text[:60]}")


def from_shape(text: str, dtypes: Sequence[str]) -> list[Case]:
    """GEMMs of "MxNxK" in each of `dtypes`, or of "MxNxK:dtype" in that one. Raises BenchError."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise BenchError(
            "bad_case", f"Shape {text[:60]!r}: expected MxNxK or MxNxK:dtype, such as 16x4096x6144:bf16."
        )
    *extents, dtype = match.groups()
    m, n, k = (int(extent) for extent in extents)
    return [
        from_params("gemm", {"m": m, "n": n, "k": k, "dtype": name}, f"Shape {text.strip()}")
        for name in ([dtype] if dtype else dtypes)
    ]


def from_file(path: Path) -> list[Case]:
    """The cases of a JSON file: a list of rows as `as_row` writes them. Raises BenchError."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError("bad_case", f"Cases file {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise BenchError("bad_case", f"Cases file {path} is not JSON: {error}.") from error
    if not isinstance(rows, list):
        raise BenchError("bad_case", f"Cases file {path}: expected a list of cases.")
    if len(rows) > MAX_CASES:
        raise BenchError(
            "bad_case", f"Cases file {path}: {len(rows):,} cases, at most {MAX_CASES:,} are taken."
        )
    return [from_row(row, f"{path.name}[{index}]") for index, row in enumerate(rows)]


def in_groups(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases without repeats, gathered by kind and weight in order of first appearance.

    One group is measured in one child process, whose start-up (torch, the libraries, the device) takes longer
    than a case: sweeps share one up to SHARED cases.
    """
    sweeps: dict[tuple[Value, ...], list[Case]] = {}
    for case in dict.fromkeys(cases):
        sweeps.setdefault((case.kind, *case.weight), []).append(case)
    groups: list[list[Case]] = []
    for sweep in sweeps.values():
        if groups and len(groups[-1]) + len(sweep) <= SHARED:
            groups[-1] += sweep
        else:
            groups.append(list(sweep))
    return groups
