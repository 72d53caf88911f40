"""What the soak's environments hold instead of a bench: a short program that leaves evidence of when it ran.

It is the environment's Python itself, or comes in a wheel that an environment is built of. Standard library
alone. What it does stands in its one case: how long it works, how it fails, which clock it sees.

Evidence is one line a moment, appended whole: CLOCK_MONOTONIC_RAW in seconds (one for the whole host, which
nobody can set), *start*, *on* or *end*, the GPUs that it was given, run-attempt.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

CLOCK_IS_SET = "FAKETIME"
#: how often it notes that it is still at work
NOTE_EVERY_S = 0.01
#: GPU UUID → [model, arch], beside the evidence
GPUS = "gpus.json"


def main(command: list[str]) -> int:
    arguments = command[next(n for n, word in enumerate(command) if word.startswith("--")) :]
    told = dict(zip(arguments[::2], arguments[1::2], strict=False))
    (case,) = json.loads(Path(told["--cases"]).read_text())
    if "clock" in case and CLOCK_IS_SET not in os.environ:
        _shift_clock(case["clock"], arguments)
    evidence = Path(case["evidence"])
    # CLOEXEC: what it starts must not hold it
    notes = os.open(evidence, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    gpus, attempt = os.environ.get("CUDA_VISIBLE_DEVICES", ""), Path.cwd().name

    def note(what: str) -> None:
        moment = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        os.write(notes, f"{moment:.6f} {what} {gpus or '-'} {attempt}\n".encode())

    note("start")
    Path(told["--progress"]).write_text(json.dumps({"done": 0, "total": 1, "message": "at work"}) + "\n")
    began = time.monotonic()
    fault = case.get("fault", "")
    if fault == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while time.monotonic() - began < case["seconds"] or fault in ("hang", "deaf"):
        select.select((), (), (), NOTE_EVERY_S)  # libfaketime breaks time.sleep
        note("on")
    while fault == "chatter":
        sys.stdout.write("x" * 65536 + "\n")
        note("on")
    note("end")
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "error":
        return 3
    if fault != "empty":
        body = f"{{{attempt}" if fault == "broken" else json.dumps(document(case, gpus, attempt, evidence))
        aside = Path(told["--out"] + ".part")
        aside.write_text(body)
        aside.replace(told["--out"])
    return 0


def libfaketime() -> Path | None:
    """Where Debian's libfaketime lies; None where it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def _shift_clock(offset: str, arguments: list[str]) -> None:
    """Become the same program under a clock that is wrong by `offset`; the monotonic clocks stay right."""
    library = libfaketime()
    if library is None:
        raise SystemExit("libfaketime is not installed (apt install libfaketime)")
    wrong = {"LD_PRELOAD": str(library), CLOCK_IS_SET: offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    program = [sys.executable, "-I", "-S", __file__, *arguments]
    os.execve(program[0], program, os.environ | wrong)  # noqa: S606


def document(case: dict[str, Any], gpus: str, attempt: str, evidence: Path) -> dict[str, Any]:
    """A document of one measurement as the GEMM bench writes it; no two attempts write equal bytes."""
    first = gpus.split(",")[0]
    target: dict[str, Any] = {"kind": "cpu", "arch": "x86_64", "model": "CPU of the soak", "host": "soak"}
    if first:
        model, arch = json.loads(evidence.with_name(GPUS).read_text())[first]
        target = {"kind": "gpu", "arch": arch, "model": model, "uuid": first, "host": "soak"}
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    time_s = 1e-3 + int(attempt.partition("-")[0]) * 1e-9
    m, n, k = 1 + case["number"] % 8, 1024, 1024
    return {
        "schema_version": 1,
        "producer": "tilewatch",
        "kind": "gemm",
        "command": ["python", "-m", "workers.bench", "gemm", attempt],
        "started_at": now,
        "finished_at": now,
        "target": target,
        "stack": {"torch": "2.13.0", "python": "3.11.7"},
        "costs": {"number": case["number"]},
        "measurements": [
            {
                "kind": "gemm",
                "params": {"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "nt"},
                "outcome": "unverified",
                "measured_at": now,
                "samples": [time_s, time_s],
                "statistics": {"n": 2, "median": time_s, "q1": time_s, "q3": time_s, "min": time_s},
                "timer": "wall_clock",
                "backend": "torch",
                "flops": 2.0 * m * n * k,
                "bytes": 2.0 * (m * k + n * k + m * n),
            }
        ],
    }


def begin(command: list[str]) -> None:
    """Take the place of the program that a Python of a built environment was started for."""
    code = main(command)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
