"""`python -m workers.bench gemm …`: from arguments to a document. Imports torch in children only."""

from __future__ import annotations

import argparse
import dataclasses
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from workers.bench import arguments
from workers.bench.cases import parse
from workers.bench.cases.base import Case
from workers.bench.cases.gemm import FORMATS, Gemm
from workers.bench.document import GPU_TIMERS, BenchError, Document, Measurement, Progress, now
from workers.bench.gemm.children import Limits, measure_groups
from workers.bench.gemm.how import How
from workers.bench.gemm.results import Results
from workers.bench.gemm.sets import L2_CHOICES
from workers.bench.modules import lock
from workers.bench.stopping import stopped_by_sigterm
from workers.bench.suites import SUITES

#: shapes in one argument of the repeat command, so that a long list is no long command
_NAMED = 50
MAX_PROCESSES = 100
TIMERS = ("auto", *GPU_TIMERS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the gemm bench takes beside the common --out and --progress."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure")
    parser.add_argument("--suite", metavar="NAME", help=f"a named case list: {', '.join(SUITES)}")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="a JSON list of case parameters")
    parser.add_argument(
        "--shape",
        nargs="+",
        default=[],
        metavar="MxNxK[:dtype],…",
        help="cases, in every --dtype or the one named",
    )
    parser.add_argument(
        "--case",
        nargs="+",
        action="extend",
        default=[],
        metavar="TEXT",
        help="cases of any kind, such as rmsnorm:tokens=64,hidden=7168,dtype=bf16",
    )
    parser.add_argument("--m", metavar="M,M,…", help="an M sweep over --n and --k")
    parser.add_argument("--n", type=int, help="N of the M sweep")
    parser.add_argument("--k", type=int, help="K of the M sweep")
    parser.add_argument("--dtype", default="bf16", metavar="D,D,…", help=f"of {', '.join(FORMATS)}")
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME,…",
        help="measure by these backends only, such as torch.mm (default: by all that there are)",
    )
    parser.add_argument(
        "--timer",
        choices=TIMERS,
        default="auto",
        help="of GPU time (default: CUPTI, else graph, else events)",
    )
    parser.add_argument(
        "--l2",
        choices=L2_CHOICES,
        default="auto",
        help="state of the L2 before a call (default: rotated, else flushed)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="fresh processes a case is measured in (default 1)",
    )
    parser.add_argument(
        "--overhead",
        action="append",
        default=[],
        metavar="TIMER=S",
        help="seconds that a timer adds to a kernel, as another document tells; then nothing is calibrated",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: every core allowed)")
    parser.add_argument("--host", metavar="LABEL", help="name of this machine in the document")
    parser.add_argument(
        "--case-seconds", type=float, default=2.0, metavar="S", help="cap on one case's sampling (default 2)"
    )
    parser.add_argument(
        "--case-timeout-s", type=float, default=120.0, metavar="S", help="one case's whole time (default 120)"
    )
    parser.add_argument("--budget-s", type=float, metavar="S", help="past this, no case is started")


def run(args: argparse.Namespace) -> Document:
    """Measure what `args` ask for. BenchError where nothing can be measured; a failed case is an outcome.

    Reads the arguments of `add_arguments`, and `args.progress` (a path or None) where it is there.
    """
    cases, backends, overheads = chosen_cases(args), arguments.backends_of(args), told_overheads(args)
    _check_limits(args)
    arguments.need_torch("gemm bench")
    started_at, began = now(), time.monotonic()
    progress = Progress(getattr(args, "progress", None))
    total = len(cases) * args.processes
    processes = f" in {args.processes} processes each" if args.processes > 1 else ""
    progress.step(0, total, f"gemm on {args.device}: {len(cases)} cases{processes}")

    def done(case: Case, measurement: Measurement, settled: int) -> None:
        by = f" by {measurement.backend}" if measurement.backend else ""
        progress.step(settled, total, f"{case}{by}: {summary(measurement)}")

    with stopped_by_sigterm():
        results = measure_groups(
            parse.in_groups(cases),
            How(
                device=args.device,
                seconds=args.case_seconds,
                threads=args.threads,
                backends=backends,
                timer=None if args.timer == "auto" else args.timer,
                l2=args.l2,
                overheads=overheads,
            ),
            Limits(args.case_timeout_s, args.budget_s),
            processes=args.processes,
            done=done,
            calibrate=not overheads,
        )
    assert results.target is not None, "a child was ready, or measure_groups had raised"
    progress.step(total, total, "done")
    return Document(
        kind="gemm",
        command=repeat_command(args, cases),
        started_at=started_at,
        finished_at=now(),
        target=dataclasses.replace(results.target, host=args.host or socket.gethostname()),
        stack=results.stack,
        measurements=tuple(each for case in cases for each in results.of(case)),
        logs=results.logs,
        costs={**floor_costs(results), "wall_seconds": round(time.monotonic() - began, 3)},
        notes=(*lock.notes(), *notes(results)),
    )


def floor_costs(results: Results) -> dict[str, float]:
    """launch_floor_<timer>_seconds, of an empty kernel as each timer shows it, and launch_floor_seconds;
    overhead_<timer>_seconds, which was subtracted.

    That is an empty kernel's own time where CUPTI tells it: then no time of the document holds what its timer
    adds.
    """
    floors = results.calibration.floors
    costs = {f"launch_floor_{name}_seconds": seconds for name, seconds in floors.items()}
    costs |= {f"overhead_{name}_seconds": added for name, added in results.calibration.overheads.items()}
    least = next((floors[name] for name in GPU_TIMERS if name in floors), None)
    return costs if least is None else {"launch_floor_seconds": least, **costs}


def notes(results: Results) -> tuple[str, ...]:
    """What a reader must know of how it was timed."""
    floors = results.calibration.floors
    if floors and "cupti" not in floors:
        return (
            "CUPTI told of no kernels here, so that the gap between two kernels, about a microsecond, is in"
            " every time by graph or by events.",
        )
    return ()


def told_overheads(args: argparse.Namespace) -> dict[str, float]:
    """Seconds by timer of --overhead. Raises BenchError."""
    found = {}
    for told in args.overhead:
        name, _, seconds = told.partition("=")
        try:
            found[name] = float(seconds)
        except ValueError:
            found[name] = 1.0
        if name not in GPU_TIMERS or not abs(found[name]) < 1:  # NaN too
            raise BenchError(
                "bad_argument", f"--overhead {told[:40]}: expected {', '.join(GPU_TIMERS)} and seconds."
            )
    return found


def chosen_cases(args: argparse.Namespace) -> list[Case]:
    """The cases of --suite, --cases, --shape, --case and the M sweep together, in that order, once each."""
    dtypes = [name.strip() for name in args.dtype.split(",") if name.strip()]
    wrong = next((name for name in dtypes if name not in FORMATS), None)
    if wrong is not None or not dtypes:
        raise BenchError("bad_case", f"--dtype {args.dtype!r}: expected of {', '.join(FORMATS)}.")
    cases = arguments.suite(args.suite, SUITES)
    if args.cases is not None:
        cases += parse.from_file(args.cases)
    for shape in (shape for listed in args.shape for shape in listed.split(",")):
        cases += parse.from_shape(shape, dtypes)
    cases += (parse.from_text(text) for text in args.case)
    sweep = (args.m, args.n, args.k)
    if any(part is not None for part in sweep):
        if None in sweep:
            raise BenchError("bad_case", "An M sweep takes --m, --n and --k together.")
        for m in args.m.split(","):
            cases += parse.from_shape(f"{m.strip()}x{args.n}x{args.k}", dtypes)
    cases = list(dict.fromkeys(cases))
    if not cases:
        raise BenchError(
            "no_cases", "Nothing to measure: name a --suite, --cases, --shape, --case, or --m, --n and --k."
        )
    return arguments.at_most(cases, parse.MAX_CASES)


def repeat_command(args: argparse.Namespace, cases: Sequence[Case]) -> tuple[str, ...]:
    """The command that measures the same again, free of this machine's paths."""
    command = ["python", "-m", "workers.bench", "gemm", "--device", args.device]
    if args.suite is not None and list(cases) == list(dict.fromkeys(SUITES[args.suite])):
        command += ["--suite", args.suite]
    else:
        shapes = [str(case) for case in cases if case.kind == Gemm.kind]
        others = [str(case) for case in cases if case.kind != Gemm.kind]
        if shapes:
            command += ["--shape", *(",".join(shapes[i : i + _NAMED]) for i in range(0, len(shapes), _NAMED))]
        if others:
            command += ["--case", *others]
    if args.backend:
        command += ["--backend", ",".join(arguments.backends_of(args) or ())]
    for option, chosen in (("--timer", args.timer), ("--l2", args.l2)):
        if chosen != "auto":
            command += [option, chosen]
    if args.processes != 1:
        command += ["--processes", str(args.processes)]
    for told in args.overhead:
        command += ["--overhead", told]
    command += arguments.as_words(
        {
            "--threads": args.threads,
            "--case-seconds": args.case_seconds,
            "--case-timeout-s": args.case_timeout_s,
            "--budget-s": args.budget_s,
        }
    )
    return tuple(command)


def summary(measurement: Measurement) -> str:
    """One case in a few words: time and rate, or why there is none."""
    if measurement.statistics is None or measurement.flops is None:
        return measurement.error or measurement.outcome
    median = measurement.statistics.median
    rate = measurement.flops / median / 1e12
    notes = [measurement.outcome] * (measurement.outcome != "ok") + list(measurement.flags)
    return f"{median * 1e6:,.1f} µs, {rate:.3g} TFLOP/s" + (f" ({', '.join(notes)})" if notes else "")


def _check_limits(args: argparse.Namespace) -> None:
    arguments.check_limits(args)
    if not 1 <= args.processes <= MAX_PROCESSES:
        raise BenchError(
            "bad_argument", f"--processes {args.processes}: expected a number from 1 to {MAX_PROCESSES}."
        )
