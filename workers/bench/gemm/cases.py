"""What a GEMM case is, how a command line or a run names one, and what is said of one without a time."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workers.bench import roofline
from workers.bench.document import BenchError, Measurement, Outcome, now

#: tf32 holds fp32 in memory and multiplies on the tensor cores with a 10-bit mantissa
DTYPES = ("bf16", "fp16", "fp32", "tf32")
#: D[M,N] = A[M,K] · B[N,K]ᵀ, all row-major: B lies as a linear layer's weight does
LAYOUT = "nt"
#: what multiplies: part of what makes a series, so every measurement names it
BACKEND = "torch.mm"
MAX_EXTENT = 2**20
MAX_CASES = 10_000

_SHAPE = re.compile(r"(\d{1,8})x(\d{1,8})x(\d{1,8})(?::([a-z0-9]+))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One GEMM: extents in elements, and the dtype of A, B and D alike."""

    m: int
    n: int
    k: int
    dtype: str

    @property
    def params(self) -> dict[str, str | int | bool]:
        """The canonical parameters: the same case always writes the same mapping."""
        return {"m": self.m, "n": self.n, "k": self.k, "dtype": self.dtype, "layout": LAYOUT}

    @property
    def flops(self) -> float:
        return roofline.gemm_flops(self.m, self.n, self.k)

    @property
    def bytes(self) -> float:
        """Compulsory traffic: A and B read once, D written once."""
        return roofline.gemm_bytes(self.m, self.n, self.k, self.dtype, self.dtype, self.dtype)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}:{self.dtype}"


def without_time(case: Case, outcome: Outcome, why: str) -> Measurement:
    """The measurement of a case that brought no time; `why` is its error, a sentence."""
    return Measurement(
        kind="gemm",
        params=case.params,
        outcome=outcome,
        measured_at=now(),
        backend=BACKEND,
        flops=case.flops,
        bytes=case.bytes,
        error=why,
    )


def from_params(params: Any, where: str) -> Case:
    """A case from canonical parameters; `where` names them in the BenchError that a wrong one raises."""
    if not isinstance(params, dict):
        raise BenchError("bad_case", f"{where}: expected an object with m, n, k and dtype.")
    unknown = sorted(set(params) - {"m", "n", "k", "dtype", "layout"})
    if unknown:
        raise BenchError("bad_case", f"{where}: unknown field {str(unknown[0])[:40]!r}.")
    extents = []
    for name in ("m", "n", "k"):
        value = params.get(name)
        if type(value) is not int or not 1 <= value <= MAX_EXTENT:
            raise BenchError("bad_case", f"{where}.{name}: expected a whole number from 1 to {MAX_EXTENT:,}.")
        extents.append(value)
    if params.get("dtype") not in DTYPES:
        raise BenchError("bad_case", f"{where}.dtype: expected one of {', '.join(DTYPES)}.")
    if params.get("layout", LAYOUT) != LAYOUT:
        raise BenchError("bad_case", f"{where}.layout: expected {LAYOUT!r}, the only one measured.")
    m, n, k = extents
    return Case(m, n, k, params["dtype"])


def from_shape(text: str, dtypes: Sequence[str]) -> list[Case]:
    """Cases of "MxNxK" in each of `dtypes`, or of "MxNxK:dtype" in that one."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise BenchError(
            "bad_case", f"Shape {text[:60]!r}: expected MxNxK or MxNxK:dtype, such as 16x4096x6144:bf16."
        )
    *extents, dtype = match.groups()
    m, n, k = (int(extent) for extent in extents)
    return [
        from_params({"m": m, "n": n, "k": k, "dtype": name}, f"Shape {text.strip()}")
        for name in ([dtype] if dtype else dtypes)
    ]


def from_file(path: Path) -> list[Case]:
    """The cases of a JSON file: a list of canonical parameters."""
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
    return [from_params(row, f"{path.name}[{index}]") for index, row in enumerate(rows)]


def in_groups(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases without repeats, gathered by weight (dtype, N, K) in order of first appearance.

    One group is measured in one child process: an M sweep over one weight shares its start-up.
    """
    groups: dict[tuple[str, int, int], list[Case]] = {}
    for case in dict.fromkeys(cases):
        groups.setdefault((case.dtype, case.n, case.k), []).append(case)
    return list(groups.values())
