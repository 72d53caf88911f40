"""`python -m workers.bench confirm`: an A/B of two environments."""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workers.bench import arguments
from workers.bench.cases import parse
from workers.bench.cases.base import Case
from workers.bench.cases.modules import JitModule
from workers.bench.confirm.alternate import Limits, Result, alternate
from workers.bench.confirm.benches import CASE_SECONDS, AnyBench, Kernels, Modules, of_cases
from workers.bench.confirm.judge import LOOKS
from workers.bench.confirm.turn import Side
from workers.bench.document import BenchError, Comparison, Document, Progress, Target, now
from workers.bench.stopping import stopped_by_sigterm

MAX_CASES = 100
BENCHES = ("gemm", "moe", "modules")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for side in ("old", "new"):
        parser.add_argument(
            f"--{side}", required=True, metavar="PYTHON", help=f"the {side} environment's Python"
        )
        parser.add_argument(f"--{side}-name", default=side, metavar="NAME", help="what to call it, 0.6.3 …")
    add_case_arguments(parser)


def add_case_arguments(parser: argparse.ArgumentParser) -> None:
    """What is compared and how, for an A/B and for a bisect."""
    parser.add_argument("--bench", choices=BENCHES, default="gemm", help="what measures it (default gemm)")
    parser.add_argument("--case", nargs="+", action="extend", default=[], metavar="TEXT", help="cases")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="a JSON list of case parameters")
    parser.add_argument("--backend", action="append", default=[], metavar="NAME,…", help="by these alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure")
    parser.add_argument(
        "--only", action="append", default=[], metavar="MODULE", help="of the bench modules: build this one"
    )
    parser.add_argument("--arch", action="append", default=[], help="that modules are built for, e.g. sm90")
    parser.add_argument(
        "--cache", type=Path, default=Path("tilewatch-cache"), metavar="DIR", help="where nvcc is put"
    )
    parser.add_argument(
        "--margin", type=float, default=0.01, metavar="X", help="that is no change (default 0.01)"
    )
    parser.add_argument("--budget-s", type=float, metavar="S", help="past this, no turn is started")
    parser.add_argument(
        "--pairs-max", type=int, default=LOOKS[-1], metavar="N", help=f"of processes (default {LOOKS[-1]})"
    )
    parser.add_argument(
        "--case-seconds",
        type=float,
        metavar="S",
        help="sampling of a case in one process (default 0.3, of moe 3)",
    )
    parser.add_argument("--host", metavar="LABEL", help="name of this machine in the document")


def run(args: argparse.Namespace) -> Document:
    """One A/B. Raises BenchError where a side cannot be measured at all."""
    started_at, began = now(), time.monotonic()
    old, new = side(args.old_name, args.old), side(args.new_name, args.new)
    bench, cases = what(args)
    progress = Progress(args.progress)
    total = 2 * args.pairs_max
    with stopped_by_sigterm():
        found = alternate(
            old, new, bench, cases, limits(args), lambda done, said: progress.step(done, total, said)
        )
    progress.step(total, total, "; ".join(told(each) for each in found.comparisons)[:300] or "nothing to say")
    command = (
        "--old",
        python_word(old),
        "--old-name",
        old.name,
        "--new",
        python_word(new),
        "--new-name",
        new.name,
    )
    return document(
        args, "confirm", command, found.comparisons, (found,), started_at=started_at, began=began,
        notes=found.notes,
    )  # fmt: skip


def side(name: str, python: str) -> Side:
    """Raises BenchError where there is no such program."""
    path = Path(os.path.abspath(python))  # noqa: PTH100 - resolve() would leave the environment
    if not os.access(path, os.X_OK) or path.is_dir():
        raise BenchError("bad_argument", f"{name}: {python} is no program; expected a Python.")
    if not name.strip() or len(name) > 60:
        raise BenchError("bad_argument", f"{name[:60]!r}: expected a name of at most 60 characters.")
    return Side(name, path)


def what(args: argparse.Namespace) -> tuple[AnyBench, list[Case]]:
    """The bench and its cases. Raises BenchError."""
    arguments.check_limits(args)
    if not 0 < args.margin < 1:
        raise BenchError("bad_argument", f"--margin {args.margin:g}: expected more than 0 and less than 1.")
    if not 1 <= args.pairs_max <= 100:
        raise BenchError("bad_argument", f"--pairs-max {args.pairs_max}: expected 1 to 100.")
    cases: list[Case] = [] if args.cases is None else parse.from_file(args.cases)
    cases += (parse.from_text(text) for text in args.case)
    arch = "_".join(sorted(set(args.arch)))
    if args.bench == "modules":
        cases += (
            parse.from_params("jit_module", {"module": name, "arch": arch}, "--only") for name in args.only
        )
    cases = arguments.at_most(list(dict.fromkeys(cases)), MAX_CASES)
    if not cases:
        raise BenchError("no_cases", "Nothing to compare: name a --case, --cases or, of modules, --only.")
    of_cases(args.bench, cases)
    if args.bench == "modules":
        arches = {str(case.params["arch"]) for case in cases if isinstance(case, JitModule)}
        if len(arches) > 1:
            raise BenchError("bad_case", "Modules of one --arch at a time are compared.")
        return Modules(arches.pop(), Path(os.path.abspath(args.cache))), cases  # noqa: PTH100
    backends = arguments.backends_of(args) or ()
    seconds = CASE_SECONDS[args.bench] if args.case_seconds is None else args.case_seconds
    return Kernels(args.bench, args.device, backends, seconds), cases


def limits(args: argparse.Namespace) -> Limits:
    ends = None if args.budget_s is None else time.monotonic() + args.budget_s
    return Limits(args.margin, args.pairs_max, ends)


def document(
    args: argparse.Namespace,
    name: str,
    command: Sequence[str],
    comparisons: Sequence[Comparison],
    results: Sequence[Result],
    *,
    started_at: str,
    began: float,
    notes: Sequence[str],
) -> Document:
    """Of one A/B, or of all those of a bisect: the newest environment's stack is the document's."""
    target: dict[str, Any] = {**results[-1].target, "host": args.host or socket.gethostname()}
    return Document(
        kind="confirm",
        command=("python", "-m", "workers.bench", name, *command, *_options(args)),
        started_at=started_at,
        finished_at=now(),
        target=Target(**target),
        stack=results[0].new_stack,
        comparisons=tuple(comparisons),
        costs={
            "turns": sum(each.turns for each in results),
            "wall_seconds": round(time.monotonic() - began, 3),
        },
        notes=tuple(notes),
    )


def _options(args: argparse.Namespace) -> list[str]:
    """That repeat it, free of this machine's paths."""
    _, cases = what(args)
    words = ["--bench", args.bench]
    if args.bench == "modules":
        for arch in str(cases[0].params["arch"]).split("_"):
            words += ["--arch", arch]
        for case in cases:
            words += ["--only", str(case.params["module"])]
    else:
        words += ["--device", args.device, "--case", *map(str, cases)]
        words += arguments.as_words({"--case-seconds": args.case_seconds})
    if args.backend:
        words += ["--backend", ",".join(arguments.backends_of(args) or ())]
    if args.pairs_max != LOOKS[-1]:
        words += ["--pairs-max", str(args.pairs_max)]
    return words + arguments.as_words({"--margin": args.margin, "--budget-s": args.budget_s})


def python_word(side: Side) -> str:
    """An environment's Python in a command that somebody repeats elsewhere."""
    return f"envs/{side.name}/bin/python"


def told(found: Comparison) -> str:
    """One comparison in a few words: "16x4096x7168:bf16 torch.mm time SLOW 1.031 (1.028 to 1.034)"."""
    case = parse.from_params(found.kind, found.params, "case")
    words = " ".join(filter(None, (str(case), found.backend, found.metric, found.verdict)))
    if found.ratio is None or found.low is None or found.high is None:
        return f"{words} ({found.why or 'no ratio'})"
    return f"{words} {found.ratio:.4f} ({found.low:.4f} to {found.high:.4f}, {found.pairs} pairs)"
