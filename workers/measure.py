"""One run's bench, from its leases to its document."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.conf import settings

from benchapp.catalog.digests import environment_name, recipe_words
from benchapp.runs.models import Run
from benchapp.runs.work import Claim, Lease
from workers import candidates, child, environments, foreign, lease
from workers.commands import (
    MEASURING,
    child_environment,
    confirm_arguments,
    endpoint_key,
    measuring_environment,
    survey_arguments,
)
from workers.failure import Failure
from workers.identity import Identity
from workers.ticker import CancelledError, EndedError, GoneError, Ticker

TIMEOUT_S = 3600.0
#: Of a background run, from claim to document: full compiles take minutes a kernel.
BACKGROUND_TIMEOUT_S = 24 * 3600.0
BACKGROUND_NICENESS = 10
#: A bench starts nothing in the last part of its time, so that what it has is written within it.
LAST_PART, LAST_PART_S = 0.1, 30.0


def measure(run: Claim, folder: Path, me: Identity, ticker: Ticker) -> Path:
    """Do what the run asks for; the path of its document. Raises Failure, EndedError."""
    document, progress = folder / "document.json", folder / "progress"
    limit = float(run.time_limit_s or (BACKGROUND_TIMEOUT_S if run.background else TIMEOUT_S))
    static = run.kind == Run.Kind.TILES
    gpus = () if static else gpus_of(run, me)
    with contextlib.ExitStack() as stack:
        python, held = Path(sys.executable), []
        if static:
            arguments = survey_arguments(run, candidates.wheel_of(run, me))
        else:
            python, descriptor = stack.enter_context(_environment(run.environment, run.versions))
            held.append(descriptor)
            budget = limit - min(LAST_PART_S, LAST_PART * limit)
            if run.kind == Run.Kind.CONFIRM:
                old, descriptor = stack.enter_context(
                    _environment(run.environment_beside, run.versions_beside)
                )
                held.append(descriptor)
                arguments = confirm_arguments(run, folder, budget, old, python)
            else:
                arguments = MEASURING[Run.Kind(run.kind)](run, folder, budget)
        compiles = static or run.params.get("bench") == "modules"
        environment = child_environment(folder) if compiles else measuring_environment(folder, gpus)
        if run.kind == Run.Kind.SERVING:
            environment |= endpoint_key(run)
        held += stack.enter_context(_leases(run, me, ticker, gpus, alone=not static))
        foreign.wait_for_quiet(gpus, run.params, ticker.say)
        try:
            child.run(
                [
                    str(python), "-m", "workers.bench", *arguments,
                    "--out", str(document), "--progress", str(progress),
                ],
                folder=folder,
                timeout_s=limit,
                tick=ticker,
                extra_environment=environment,
                leases=held,
                progress=progress,
                niceness=BACKGROUND_NICENESS if run.background else 0,
                last_words_s=child.LAST_WORDS_S,
            )  # fmt: skip
        except EndedError as ended:
            # it ended in the last second: a document is renamed into place, so what is there is whole
            if isinstance(ended, CancelledError) or not document.exists():
                raise
        except Failure as failure:
            # at its time limit a bench writes what it has measured
            if failure.code != "timeout" or not document.exists():
                raise
    if not document.exists():
        raise Failure("stored_nothing", "It ended without an error and without a document.")
    size, most = document.stat().st_size, settings.DOCUMENT_LIMIT_BYTES
    if size > most:
        raise Failure("document_limit", f"Its document has {size:,} bytes; at most {most:,} are taken.")
    return document


def gpus_of(run: Claim, me: Identity) -> tuple[str, ...]:
    """UUIDs of the GPUs that a run is measured on, ascending. Raises Failure."""
    if run.gpus:
        return tuple(sorted(set(run.gpus)))
    if run.params.get("device") != "cuda":
        return ()
    if not me.gpu:
        raise Failure(
            "no_gpu",
            "Its worker is pinned to no GPU: start workers by `python -m workers up`, or set TILEWATCH_GPU.",
        )
    return (me.gpu,)


@contextlib.contextmanager
def _environment(name: str, versions: Mapping[str, str]) -> Iterator[tuple[Path, int]]:
    """The Python of an environment, and the descriptor that keeps it from being removed. Raises GoneError of
    one that the run was claimed for, by its name."""
    environment = environments.root() / (name or environment_name(versions))
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(environments.in_use(environment))
        except FileNotFoundError:
            if name:
                raise GoneError from None
            raise Failure(
                "environment",
                f"The environment of {recipe_words(versions)} is not there; ask for the run again.",
            ) from None
        yield environments.python_of(environment), descriptor


@contextlib.contextmanager
def _leases(
    run: Claim, me: Identity, ticker: Ticker, gpus: tuple[str, ...], *, alone: bool
) -> Iterator[tuple[int, ...]]:
    """GPUs, then cores: everybody takes them in this order, so nobody waits in a ring.

    What a measurement held, and from when to when, is left in `ticker.lease`.
    """

    def waiting_for_gpu(uuid: str, holder: str) -> None:
        ticker.say(f"waiting for GPU {uuid}" + (f", held by {holder}" if holder else ""))

    def waiting_for_cores() -> None:
        ticker.say("waiting for the cores: other work is running on them")

    with (
        lease.gpus(gpus, lease.note(me.name, str(run)), waiting_for_gpu) as of_gpus,
        lease.cores(alone=alone, waiting=waiting_for_cores) as of_cores,
    ):
        if alone:
            ticker.lease = Lease(gpus, dt.datetime.now(dt.UTC))
        try:
            yield (*of_gpus, of_cores)
        finally:
            if ticker.lease is not None:
                ticker.lease = dataclasses.replace(ticker.lease, until=dt.datetime.now(dt.UTC))
