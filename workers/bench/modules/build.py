"""One JIT module: described by the library, compiled by its own build, kept where it is loaded from."""

from __future__ import annotations

import dataclasses
import re
import resource
import shutil
from pathlib import Path
from typing import Any

from workers.bench.cases.modules import JitModule
from workers.bench.document import Measurement, Metric, Outcome, Statistics, now
from workers.bench.modules import table

#: Of a compiler's or the linker's complaint; ninja's own "FAILED:" says nothing.
_COMPLAINT = re.compile(r"(?i)\b(?:fatal )?error\b ?[:#]|\bfatal   ?:|undefined reference|cannot find -l")
LOG_CHARACTERS = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Built:
    """What became of a module. `cpu_seconds` are of all its compilers, `size` the bytes of its library."""

    outcome: Outcome
    cpu_seconds: float
    size: int = 0
    #: what the library calls it
    full_name: str = ""
    error: str | None = None
    log: str = ""


def build(torch: Any, module: table.Module, *, keep: bool = True) -> Built:
    """Build a module and, with `keep`, put it where the library looks. Raises OSError where it cannot be."""
    before = _cpu_seconds()
    try:
        spec = table.describe(torch, module)
        spec.build(False)  # not verbose: what the compilers print is in the error
    except table.AbsentError as absent:
        return Built("unsupported", 0.0, error=str(absent))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Built(
            "build_failed",
            _cpu_seconds() - before,
            error=first_complaint(text),
            log=text[-LOG_CHARACTERS:],
        )
    spent = _cpu_seconds() - before
    made = Path(spec.jit_library_path)
    if keep:
        place = Path(spec.aot_path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, place)
    return Built("unverified", spent, made.stat().st_size, str(spec.name))


def measurements(case: JitModule, built: Built) -> list[Measurement]:
    """CPU time and size of a module that was built; else the one measurement that says why not."""
    if built.outcome != "unverified":
        return [_measurement(case, built, "cpu_time", None)]
    # below a nanosecond nothing is measured: a build that ninja found done already costs that at least
    return [
        _measurement(case, built, "cpu_time", max(built.cpu_seconds, 1e-9)),
        _measurement(case, built, "size", float(built.size)),
    ]


def _measurement(case: JitModule, built: Built, metric: Metric, value: float | None) -> Measurement:
    return Measurement(
        kind=case.kind,
        params=dict(case.params),
        outcome=built.outcome,
        measured_at=now(),
        metric=metric,
        samples=() if value is None else (value,),
        statistics=None if value is None else Statistics(1, value, value, value, value),
        kernel=built.full_name[:300] or None,
        error=built.error,
    )


def first_complaint(text: str) -> str:
    """The first line in which a compiler or the linker says what is wrong, else the first line of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    commands = ("[", "FAILED:", "ninja:")
    said = [line for line in lines if not line.startswith(commands)]
    found = next((line for line in said if _COMPLAINT.search(line)), None)
    return (found or (said or lines or [""])[0])[:400]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
