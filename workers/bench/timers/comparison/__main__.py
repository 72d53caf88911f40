"""`python -m workers.bench.timers.comparison`: every kernel by every timer, in fresh processes; one table."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from workers.bench.timers.comparison import table

ROOT = Path(__file__).resolve().parents[4]
PROCESSES, KERNELS = 10, 100
#: one process takes about 20 s
TIMEOUT_S = 300.0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.bench.timers.comparison", description=__doc__)
    parser.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="default 10")
    parser.add_argument("--kernels", type=int, default=KERNELS, metavar="N", help="only the first N")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="JSON: what each process measured; one that is there is gone on with",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the table")
    args = parser.parse_args(argv)
    told: dict[str, Any] = {"calibrations": [], "processes": []}
    if args.out and args.out.exists():
        told = json.loads(args.out.read_text())
    processes: list[dict[str, Any]] = told["processes"]
    if len(processes) < args.processes:  # as in a document, once for all of its processes
        told["calibrations"].append(child({"calibrate": True}))
    calibrated = told["calibrations"][-1]
    while len(processes) < args.processes:
        processes.append(child({"overheads": calibrated["overheads"], "kernels": args.kernels}))
        told["rows"] = [dataclasses.asdict(row) for row in table.rows(processes)]
        if args.out:  # after each process: what was measured shall not be lost
            args.out.write_text(json.dumps(told, indent=1))
        print(f"{len(processes)} of {args.processes} processes", file=sys.stderr, flush=True)
    text = f"{calibrated['gpu']}\n\n{table.markdown(table.rows(processes), len(processes))}"
    if args.markdown:
        args.markdown.write_text(text)
    print(text)
    return 0


def child(order: dict[str, Any]) -> dict[str, Any]:
    """What one fresh process measured. Raises SystemExit with its last words where it brought nothing."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "workers.bench.timers.comparison.child"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()
        raise SystemExit(f"A measuring process ended with {done.returncode}: {last[-1] if last else ''}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
