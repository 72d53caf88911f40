"""Sides of an A/B whose Pythons are the test's own: each writes what a document of the GEMM bench would say,
with the values that a test tells it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.parse import from_text
from workers.bench.confirm.turn import Side

#: It says what turn `n` of its plan says, the last one for all after it. As little as possible is imported.
PROGRAM = """#!{python} -IS
import json, os, sys, time
if "confirm" in sys.argv[3:4]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
here, name = os.path.split(__file__)
args = dict(zip(sys.argv[4::2], sys.argv[5::2]))
with open(args["--cases"]) as cases:
    rows = json.load(cases)
with open(f"{{here}}/turns", "a+") as log:
    log.seek(0)
    done = sum(line.split(" ")[0] == name for line in log)
    log.write(f"{{name}} {{len(rows)}} {{' '.join(sys.argv[4:])}}\\n")
with open(__file__ + ".json") as told:
    plan = json.load(told)
turn = plan[min(done, len(plan) - 1)]
if "sleep" in turn:
    with open(f"{{here}}/pid", "w") as pid:
        pid.write(str(os.getpid()))
    time.sleep(turn["sleep"])
if "descriptor" in turn:
    os.fstat(turn["descriptor"])
if "error" in turn:
    sys.exit("error: " + turn["error"])

measured = []
for row in rows:
    told = turn.get("{{m}}x{{n}}x{{k}}:{{dtype}}".format(**row), turn)
    measured.append({{
        "kind": "gemm", "params": row, "metric": "time", "outcome": told.get("outcome", "unverified"),
        "statistics": {{"median": told["value"]}} if "value" in told else None,
        "host_time": {{"median": told["host"]}} if "host" in told else None,
        "readings": {{"sm_clock_mhz_median": told["clock"]}} if "clock" in told else None,
        "backend": told.get("backend", "torch.mm"), "timer": told.get("timer", "cupti"),
        "l2_policy": "rotated", "error": told.get("why"), "flags": [],
    }})
target = {{"kind": "cpu", "arch": "x86_64", "model": "Test CPU", "host": "here"}}
with open(args["--out"], "w") as out:
    json.dump({{
        "measurements": measured, "target": target, "stack": {{"torch": name, "python": "3.11.7"}},
        "costs": {{"overhead_cuda_graph_seconds": 1.5e-07}},
    }}, out)
"""

SMALL: Case = from_text("16x64x128:bf16")
LARGE: Case = from_text("512x64x128:bf16")


@dataclasses.dataclass(frozen=True, slots=True)
class Turned:
    """A turn as the sides noted it: whose it was, of how many cases, and what it was told."""

    name: str
    cases: int
    told: str


def side(folder: Path, name: str, *turns: dict[str, Any]) -> Side:
    program = folder / name
    Path(f"{program}.json").write_text(json.dumps(turns))
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return Side(name, program)


def turned(folder: Path) -> list[Turned]:
    lines = (folder / "turns").read_text().splitlines()
    return [Turned(name, int(cases), told) for name, cases, told in (line.split(" ", 2) for line in lines)]


def around(middle: float, count: int = 27, spread: float = 0.002, **more: Any) -> list[dict[str, Any]]:
    """Turns whose values lie around `middle`, up and down by turns."""
    return [{"value": middle * (1 + spread * (-1) ** i * (1 + i % 3)), **more} for i in range(count)]
