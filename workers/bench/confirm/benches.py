"""The benches that an A/B runs, each for one turn: what they are told, and how long they may take."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm
from workers.bench.cases.model import Decode
from workers.bench.cases.modules import JitModule
from workers.bench.cases.parse import as_row
from workers.bench.confirm.judge import BUILD_LOOKS, LOOKS
from workers.bench.document import BenchError

#: step of a GPU's clock, of every timer: an H200's CUPTI tells multiples of 32 ns
GPU_STEP_S = 32e-9
#: sampling of a case in one turn, by bench
CASE_SECONDS = {"gemm": 0.3, "moe": 3.0}
#: importing torch and the libraries from a cold disk, and calibrating timers
_START_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Kernels:
    """The benches `gemm` and `moe`: cases from a file, on a device."""

    name: str
    device: str
    backends: tuple[str, ...]
    case_seconds: float

    looks = LOOKS

    @property
    def case_timeout_s(self) -> float:
        """Seconds that a case may take by one backend; models load their weights in each turn."""
        return 600.0 if self.name == "moe" else 120.0

    @property
    def resolution(self) -> float:
        return GPU_STEP_S if self.device == "cuda" else 0.0

    def command(self, cases: Sequence[Case], folder: Path, costs: dict[str, float]) -> list[str]:
        """Its arguments for these cases; `costs` are those of the side's first document."""
        file = folder / "cases.json"
        file.write_text(json.dumps([as_row(case) for case in cases]), encoding="utf-8")
        words = ["--device", self.device, "--cases", str(file), "--case-seconds", f"{self.case_seconds:g}"]
        words += ["--case-timeout-s", f"{self.case_timeout_s:g}"]
        for backend in self.backends:
            words += ["--backend", backend]
        if self.name == "gemm":  # calibrated once a side
            for cost, seconds in costs.items():
                if cost.startswith("overhead_"):
                    timer = cost.removeprefix("overhead_").removesuffix("_seconds")
                    words += ["--overhead", f"{timer}={seconds!r}"]
        return words

    def limit_s(self, cases: Sequence[Case]) -> float:
        """Seconds after which a turn of so many cases hangs."""
        most = max(1, len(self.backends)) if self.backends else 8
        return _START_S + len(cases) * most * self.case_timeout_s


@dataclasses.dataclass(frozen=True, slots=True)
class Modules:
    """The bench `modules`: real builds of JIT modules, of which nothing stays."""

    arch: str
    cache: Path

    name = "modules"
    looks = BUILD_LOOKS
    resolution = 0.0

    def command(self, cases: Sequence[Case], folder: Path, costs: dict[str, float]) -> list[str]:
        words = ["--no-keep", "--cache", str(self.cache)]
        for arch in self.arch.split("_"):
            words += ["--arch", arch]
        for case in cases:
            words += ["--only", str(case.params["module"])]
        return words

    def limit_s(self, cases: Sequence[Case]) -> float:
        return _START_S + len(cases) * 2 * 3600.0


AnyBench = Kernels | Modules


def of_cases(name: str, cases: Sequence[Case]) -> None:
    """Raises BenchError where a bench does not take a case."""
    of_models = (Decode.kind, "prefill", "all_reduce", "all_to_all")
    for case in cases:
        bench = "modules" if case.kind == JitModule.kind else "moe" if case.kind in of_models else Gemm.kind
        if bench != name:
            raise BenchError("bad_case", f"{case}: the bench {name} does not measure it; {bench} does.")
