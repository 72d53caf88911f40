"""`python -m workers.bench moe …`: from arguments to a document. Imports torch in ranks only."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from workers.bench import arguments
from workers.bench.cases import parse
from workers.bench.cases.base import Case
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode, Prefill
from workers.bench.document import BenchError, Document, Measurement, Progress, now
from workers.bench.gemm.cli import floor_costs
from workers.bench.modules import lock
from workers.bench.moe import groups
from workers.bench.stopping import stopped_by_sigterm
from workers.bench.suites.models import MODEL_SUITES

KINDS = (Decode, Prefill, AllReduce, AllToAll)
MAX_STEPS = 10_000
#: each takes some seconds at least
MAX_CASES = 1_000
#: cases in one argument of the repeat command, so that a long list is no long command
_NAMED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the bench of models takes beside the common --out and --progress."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure")
    parser.add_argument("--suite", metavar="NAME", help=f"a named case list: {', '.join(MODEL_SUITES)}")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="a JSON list of case parameters")
    parser.add_argument(
        "--case",
        nargs="+",
        action="extend",
        default=[],
        metavar="TEXT",
        help="cases, also between semicolons, such as"
        " decode:model=Qwen3-30B-A3B,batch=64,context=1024,layers=48,tp=1,ep=1,dtype=bf16",
    )
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME,…",
        help="attention library and experts' backend, such as flashinfer+triton.fused_experts, and of"
        " collectives nccl, gloo, flashinfer.vllm_all_reduce (default: what this Python offers)",
    )
    parser.add_argument(
        "--steps", type=int, default=300, metavar="N", help="timed steps a case (default 300)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="CPU threads of a rank (default: its share of the cores)"
    )
    parser.add_argument(
        "--case-seconds", type=float, default=10.0, metavar="S", help="cap on one case's window (default 10)"
    )
    parser.add_argument(
        "--case-timeout-s", type=float, default=180.0, metavar="S", help="one case's whole time (default 180)"
    )
    parser.add_argument("--budget-s", type=float, metavar="S", help="past this, no case is started")
    parser.add_argument("--host", metavar="LABEL", help="name of this machine in the document")


def run(args: argparse.Namespace) -> Document:
    """Measure what `args` ask for. BenchError where nothing can be measured; a failed case is an outcome."""
    cases = chosen_cases(args)
    _check_limits(args)
    arguments.need_torch("bench of models")
    backends = arguments.backends_of(args) or default_backends(args.device)
    how = groups.How(args.device, backends, args.steps, args.case_seconds, args.threads)
    started_at, began = now(), time.monotonic()
    progress = Progress(getattr(args, "progress", None))
    total = sum(max(1, len(how.of(case))) for case in cases)
    progress.step(0, total, f"moe on {args.device}: {len(cases)} cases by {', '.join(backends)}")

    def done(case: Case, measured: Measurement, settled: int) -> None:
        progress.step(settled, total, f"{case} by {measured.backend}: {summary(measured)}")

    with stopped_by_sigterm():
        results, notes = groups.measure(
            cases, how, groups.Limits(args.case_timeout_s, args.budget_s), done=done
        )
    assert results.target is not None, "a gang was ready, or groups.measure had raised"
    progress.step(total, total, "done")
    return Document(
        kind="moe",
        command=repeat_command(args, cases),
        started_at=started_at,
        finished_at=now(),
        target=dataclasses.replace(results.target, host=args.host or socket.gethostname()),
        stack=results.stack,
        measurements=tuple(each for case in cases for each in results.of(case)),
        logs=results.logs,
        costs={**floor_costs(results), "wall_seconds": round(time.monotonic() - began, 3)},
        notes=(*lock.notes(), *notes),
    )


def default_backends(device: str) -> tuple[str, ...]:
    """One for models, of the best that this Python has: each loads all weights anew."""
    if device == "cpu":
        return ("torch+torch.loop",)
    attention = "flashinfer" if importlib.util.find_spec("flashinfer") else "torch"
    experts = "triton.fused_experts" if importlib.util.find_spec("triton") else "torch.grouped_mm"
    return (f"{attention}+{experts}",)


def chosen_cases(args: argparse.Namespace) -> list[Case]:
    """The cases of --suite, --cases and --case together, in that order, once each. Raises BenchError."""
    cases = arguments.suite(args.suite, MODEL_SUITES)
    if args.cases is not None:
        cases += parse.from_file(args.cases)
    cases += (parse.from_text(text) for listed in args.case for text in listed.split(";"))
    cases = list(dict.fromkeys(cases))
    stray = next((case for case in cases if not isinstance(case, KINDS)), None)
    if stray is not None:
        kinds = ", ".join(kind.kind for kind in KINDS)
        raise BenchError("bad_case", f"{stray}: this bench measures {kinds}; `gemm` takes single kernels.")
    if not cases:
        raise BenchError("no_cases", "Nothing to measure: name a --suite, --cases or --case.")
    return arguments.at_most(cases, MAX_CASES)


def repeat_command(args: argparse.Namespace, cases: Sequence[Case]) -> tuple[str, ...]:
    """The command that measures the same again, free of this machine's paths."""
    command = ["python", "-m", "workers.bench", "moe", "--device", args.device]
    if args.suite is not None and list(cases) == list(MODEL_SUITES[args.suite]):
        command += ["--suite", args.suite]
    else:
        texts = [str(case) for case in cases]
        command += ["--case", *(";".join(texts[i : i + _NAMED]) for i in range(0, len(texts), _NAMED))]
    if args.backend:
        command += ["--backend", ",".join(arguments.backends_of(args) or ())]
    command += arguments.as_words(
        {
            "--steps": args.steps,
            "--threads": args.threads,
            "--case-seconds": args.case_seconds,
            "--case-timeout-s": args.case_timeout_s,
            "--budget-s": args.budget_s,
        }
    )
    return tuple(command)


def summary(measured: Measurement) -> str:
    """One case in a few words: tok/s with its numerator and window, or the time of a call, or why there is
    none."""
    if measured.statistics is None:
        return measured.error or measured.outcome
    notes = [measured.outcome] * (measured.outcome != "ok") + list(measured.flags)
    said = f" ({', '.join(notes)})" if notes else ""
    median, step = measured.statistics.median, measured.step
    if step is None:
        return f"{median * 1e6:,.1f} µs{said}"
    way = "in" if measured.kind == Prefill.kind else "out"
    return (
        f"{step.tokens / step.window_s:,.0f} tok/s {way} ({step.tokens:,} tokens in {step.window_s:.2f} s),"
        f" {median * 1e3:,.3f} ms a step{said}"
    )


def _check_limits(args: argparse.Namespace) -> None:
    arguments.check_limits(args)
    if not 1 <= args.steps <= MAX_STEPS:
        raise BenchError(
            "bad_argument", f"--steps {args.steps}: expected a whole number from 1 to {MAX_STEPS:,}."
        )
