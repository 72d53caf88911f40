"""`python -m workers.bench serving …`: from an endpoint and cases to a document, by AIPerf of this Python."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from workers.bench import arguments
from workers.bench.cases import parse
from workers.bench.cases.serving import Serving as Case
from workers.bench.document import BenchError, Document, Measurement, Progress, Target, now
from workers.bench.modules import lock
from workers.bench.serving import endpoint as endpoints
from workers.bench.serving import plan, probe
from workers.bench.serving.endpoint import Endpoint
from workers.bench.serving.measure import Sweep

MOST_CASES = 64
LEAST_TIMEOUT_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the serving bench takes beside the common --out and --progress."""
    parser.add_argument(
        "--endpoint", type=Path, required=True, metavar="FILE", help="JSON with name, url, model, hardware …"
    )
    parser.add_argument("--cases", type=Path, metavar="FILE", help="a JSON list of case parameters")
    parser.add_argument(
        "--case",
        nargs="+",
        action="extend",
        default=[],
        metavar="TEXT",
        help="cases such as serving:model=openai/gpt-oss-20b,concurrency=8,input=512,output=128,requests=64",
    )
    parser.add_argument(
        "--case-timeout-s", type=float, default=600.0, metavar="S", help="one case's whole time (default 600)"
    )
    parser.add_argument("--budget-s", type=float, metavar="S", help="past this, no case is started")


def run(args: argparse.Namespace) -> Document:
    """Measure each case; a case that fails is a measurement too. Raises BenchError for what cannot begin."""
    endpoint = endpoints.from_file(args.endpoint)
    cases = chosen_cases(args, endpoint)
    arguments.check_limits(args)
    if not args.case_timeout_s >= LEAST_TIMEOUT_S:
        raise BenchError("bad_argument", f"--case-timeout-s: expected at least {LEAST_TIMEOUT_S:g}.")
    key = key_of(endpoint)
    version = aiperf_version()
    started_at, began = now(), time.monotonic()
    progress = Progress(args.progress)
    progress.step(0, len(cases), f"asking {endpoint.url} what it serves")
    unfit = None
    try:
        told = probe.ask(endpoint, key)
    except probe.UnfitError as error:
        told, unfit = probe.Told({}), error
    stack, notes = probe.joined(endpoint, told)

    def done(case: Case, measurement: Measurement, settled: int) -> None:
        progress.step(settled, len(cases), f"{case}: {summary(measurement)}")

    with tempfile.TemporaryDirectory(prefix="serving-") as scratch:
        sweep = Sweep(
            endpoint, key, plan.Times.of(args.case_timeout_s), args.budget_s, Path(scratch),
            stack_by="told" if told.stack else "stated",
            backend=engine_of(stack),
            draw=random.SystemRandom().getrandbits,
        )  # fmt: skip
        measurements = sweep.measure(cases, unfit, done)
    progress.step(len(cases), len(cases), "done")
    return Document(
        kind="serving",
        command=repeat_command(args, endpoint, cases),
        started_at=started_at,
        finished_at=now(),
        target=Target(
            kind="endpoint",
            arch="endpoint",
            model=endpoint.hardware,
            host=endpoint.name,
            properties={} if endpoint.gpus is None else {"gpus": endpoint.gpus},
        ),
        stack={**stack, "aiperf": version},
        measurements=tuple(measurements),
        logs=sweep.logs,
        costs={"wall_seconds": round(time.monotonic() - began, 3)},
        notes=(*lock.notes(), *notes, *sweep.notes)[:100],
    )


def chosen_cases(args: argparse.Namespace, endpoint: Endpoint) -> list[Case]:
    """The cases of --cases and --case, once each, all of the endpoint's model. Raises BenchError."""
    listed = parse.from_file(args.cases) if args.cases is not None else []
    listed += [parse.from_text(text) for text in args.case]
    cases = [case for case in dict.fromkeys(listed) if isinstance(case, Case)]
    strange = next((case for case in listed if not isinstance(case, Case)), None)
    if strange is not None:
        raise BenchError("bad_case", f"{strange}: expected cases of kind serving.")
    if not 1 <= len(cases) <= MOST_CASES:
        raise BenchError("no_cases", f"{len(cases)} cases: expected 1 to {MOST_CASES}, by --cases or --case.")
    for case in cases:
        plan.check(case)
        if case.model != endpoint.model:
            raise BenchError("bad_case", f"{case}: the endpoint's model is {endpoint.model}.")
    return cases


def key_of(endpoint: Endpoint) -> str:
    """The API key; "" where the endpoint wants none. Raises BenchError where it is not set."""
    if not endpoint.key_variable:
        return ""
    key = os.environ.get(endpoint.key_variable, "").strip()
    if not key or not key.isprintable():
        raise BenchError(
            "no_api_key",
            f"{endpoint.key_variable} is not set for the workers of this host: it holds the API key.",
        )
    return key


def aiperf_version() -> str:
    try:
        return importlib.metadata.version("aiperf")
    except importlib.metadata.PackageNotFoundError:
        raise BenchError(
            "no_aiperf", "This Python has no AIPerf: run it by the environment of a recipe with aiperf."
        ) from None


def engine_of(stack: Sequence[str] | dict[str, str]) -> str | None:
    """The engine that serves, where the stack names one."""
    return next((name for name in probe.ENGINES.values() if name in stack), None)


def repeat_command(args: argparse.Namespace, endpoint: Endpoint, cases: Sequence[Case]) -> tuple[str, ...]:
    """The command that measures the same again, free of this machine's paths."""
    command = ["python", "-m", "workers.bench", "serving", "--endpoint", f"{endpoint.name}.json"]
    command += ["--case", *map(str, cases)]
    command += arguments.as_words({"--case-timeout-s": args.case_timeout_s, "--budget-s": args.budget_s})
    return tuple(command)


def summary(measurement: Measurement) -> str:
    """One case in a few words: the rate and TPOT, or why there is none."""
    seen = measurement.serving
    if measurement.statistics is None or seen is None:
        return measurement.error or measurement.outcome
    wrong = sum(seen.errors.values())
    return (
        f"{seen.output_tokens / seen.window_s:,.1f} output tok/s over {seen.window_s:,.1f} s, TPOT"
        f" {measurement.statistics.median * 1e3:,.2f} ms"
        + (f", {wrong:,} of {seen.sent:,} failed" if wrong else "")
    )
