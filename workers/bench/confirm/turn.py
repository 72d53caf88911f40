"""One turn of one side: a fresh process of another bench in its Python, and what its document says."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.parse import from_params
from workers.bench.confirm.benches import AnyBench
from workers.bench.document import BenchError, ComparedMetric
from workers.bench.tiles import children

ROOT = Path(__file__).resolve().parents[3]
#: characters of what a process says of its end
_LONG = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """An environment: its Python, or a script that becomes one, and what people call it."""

    name: str
    python: Path


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """What is compared."""

    case: Case
    backend: str | None
    metric: ComparedMetric


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What one process says of one key: a value in the metric's unit, or None and why in `outcome`."""

    value: float | None
    outcome: str
    clock_mhz: float | None = None
    #: timer and L2 policy: those of both sides must be the same
    how: tuple[str | None, str | None] = (None, None)
    flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """What a process brought; `failure` says why it brought no document."""

    values: dict[Key, Value]
    target: dict[str, Any] | None = None
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    costs: dict[str, float] = dataclasses.field(default_factory=dict)
    failure: str = ""


def take(
    side: Side,
    bench: AnyBench,
    cases: Sequence[Case],
    folder: Path,
    costs: dict[str, float],
    limit_s: float,
) -> Turn:
    """Run one turn in `folder`. Every end of the process is an outcome of its cases."""
    out = folder / "document.json"
    arguments = ["-m", "workers.bench", bench.name, *bench.command(cases, folder, costs), "--out", str(out)]
    limit = min(limit_s, bench.limit_s(cases))
    ended = children.run(
        [str(side.python), *arguments],
        folder=folder,
        cwd=ROOT,  # a wrapper may set PYTHONPATH as it needs it: -m finds this package here
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths())},
        timeout=limit,
        inherit=True,
    )
    try:
        told = json.loads(out.read_bytes())
    except (OSError, ValueError):
        if ended.timed_out:
            return Turn({}, failure=f"its process was ended after {limit:.0f} s")
        return Turn({}, failure=_last_words(ended))
    return Turn(dict(_values(told)), told["target"], told["stack"], told["costs"])


def _paths() -> Iterator[str]:
    yield str(ROOT)
    if given := os.environ.get("PYTHONPATH"):
        yield given


def _last_words(ended: children.Ended) -> str:
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
    said = said.removeprefix("error: ")[:_LONG]
    return said or f"its process ended with exit code {ended.returncode} and without a word"


def _values(told: dict[str, Any]) -> Iterator[tuple[Key, Value]]:
    """Of the measurements in a document that a bench of ours wrote."""
    for each in told["measurements"]:
        try:
            case = from_params(each["kind"], each["params"], "case")
        except BenchError:  # of another version of the bench: nothing that was asked for
            continue
        known = each["statistics"] is not None and each["outcome"] in ("ok", "unverified")
        clock = (each["readings"] or {}).get("sm_clock_mhz_median")
        outcome = "ok" if known else each["outcome"] + (f": {each['error']}" if each["error"] else "")
        how, flags = (each["timer"], each["l2_policy"]), tuple(each["flags"])
        median = each["statistics"]["median"] if known else None
        yield Key(case, each["backend"], each["metric"]), Value(median, outcome[:_LONG], clock, how, flags)
        if each["metric"] == "time" and known and each["host_time"] is not None:
            host = each["host_time"]["median"]
            yield Key(case, each["backend"], "host_time"), Value(host, "ok", None, (None, None), flags)
