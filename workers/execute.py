"""A worker's day: claim a run, do it in a child process, deliver its document."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import shutil
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.runs import work
from benchapp.runs.models import Run
from benchapp.runs.work import Beat, Claim, Progress
from benchapp.settings.secret import lasting_secret
from workers import child, environments, lease, spool
from workers.child import Failure
from workers.stopping import stopping

logger = logging.getLogger(__name__)

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD_TIMEOUT_S = 3600.0
TIMEOUT_S = 3600.0
#: Of a background run, from claim to document: full compiles take minutes a kernel.
BACKGROUND_TIMEOUT_S = 24 * 3600.0
BACKGROUND_NICENESS = 10
DELIVERY_PATIENCE_S = 30.0


class CancelledError(Exception):
    """Somebody cancelled the run."""


class LostError(Exception):
    """The run is no longer ours."""


class StoppingError(Exception):
    """This worker was asked to stop."""


class YieldError(Exception):
    """A better run needs this host."""


def worker_name(queue: str) -> str:
    """queue@host/installation: unique even where two hosts bear one name."""
    installation = lasting_secret(settings.HOME / "run" / "installation")
    return f"{queue}@{socket.gethostname()[:60]}/{installation[:8]}"


def work_on(queue: str) -> None:
    """Do runs of a queue until none is left. What an earlier life of this worker left is dealt with first.

    One process a queue and home works: what another one is doing must not be taken for left behind.
    """
    close_old_connections()
    with lease.only_one(settings.HOME / "run" / f"queue-{queue}.lock", wait=False) as mine:
        if not mine:
            return
        spool.flush(settings.HOME / "spool")
        name = worker_name(queue)
        work.release(name)
        _sweep_folders(name)
        while not stopping.is_set() and (run := work.claim([queue], name)) is not None:
            execute(run)


def _sweep_folders(worker: str) -> None:
    """Remove the folders of attempts that are over; a worker that was killed could not."""
    # listed first: what is claimed after the look at Postgres is not among them
    folders = list((settings.HOME / "work").glob("*-*"))
    running = work.under_way(worker)
    for folder in folders:
        if folder.name not in running:
            shutil.rmtree(folder, ignore_errors=True)


def execute(run: Claim) -> None:
    """One attempt of a run, from claim to delivery; every end of it is written to the run."""
    folder = settings.HOME / "work" / f"{run.run_id}-{run.attempt}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        document = _measure(run, folder)
        spool.put(settings.HOME / "spool", document, run.run_id, run.attempt)
        spool.flush(settings.HOME / "spool", DELIVERY_PATIENCE_S)
    except CancelledError:
        work.give_up_cancelled(run.run_id, run.attempt)
    except LostError:
        logger.warning("%s, attempt %s: taken over by somebody else", run, run.attempt)
    except StoppingError:
        work.put_back(run.run_id, run.attempt)
    except YieldError:
        work.put_back(run.run_id, run.attempt, "made way for a better run")
    except Failure as failure:
        work.fail(run.run_id, run.attempt, failure.code, failure.sentence)
    except OSError as error:
        work.fail(run.run_id, run.attempt, *_disk(error, folder))
    except (OperationalError, InterfaceError):
        raise  # the sweep takes the run up again
    except Exception as error:
        work.beat(run.run_id, run.attempt, None, traceback.format_exc())
        work.fail(
            run.run_id, run.attempt, "worker_error", f"The worker itself failed: {type(error).__name__}."
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _disk(error: OSError, folder: Path) -> tuple[str, str]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "disk_full",
            f"The disk that holds {settings.HOME.name}/ is full; free some space and run it again.",
        )
    return "worker_error", f"The worker could not use its folder {folder.name}: {error.strerror}."


def _measure(run: Claim, folder: Path) -> Path:
    tick = _Ticker(run)
    if run.kind == Run.Kind.TILES:
        python, arguments, alone = Path(sys.executable), survey_arguments(run), False
    else:
        python, arguments, alone = _environment(run, folder), _gemm(run, folder), True
    document = folder / "document.json"
    progress = folder / "progress"
    background = run.background
    try:
        with _cores(tick, alone=alone) as descriptor:
            child.run(
                [
                    str(python),
                    "-m",
                    "workers.bench",
                    *arguments,
                    "--out",
                    str(document),
                    "--progress",
                    str(progress),
                ],
                folder=folder,
                timeout_s=BACKGROUND_TIMEOUT_S if background else TIMEOUT_S,
                tick=tick,
                extra_environment=_extra(folder),
                lease=descriptor,
                progress=progress,
                niceness=BACKGROUND_NICENESS if background else 0,
            )
    except (LostError, StoppingError, YieldError):
        # it ended in the last second: a document is renamed into place, so what is there is whole
        if not document.exists():
            raise
    if not document.exists():
        raise Failure("stored_nothing", "It ended without an error and without a document.")
    size, limit = document.stat().st_size, settings.DOCUMENT_LIMIT_BYTES
    if size > limit:
        raise Failure("document_limit", f"Its document has {size:,} bytes; at most {limit:,} are taken.")
    return document


def _extra(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}


@contextlib.contextmanager
def _cores(tick: _Ticker, *, alone: bool) -> Iterator[int]:
    reason = "waiting for the cores: other work is running on them"
    waiting = Progress(0, 0, reason)
    with lease.cores(settings.HOME / "run", alone=alone, waiting=lambda: tick(waiting, "")) as descriptor:
        yield descriptor


def survey_arguments(run: Claim) -> list[str]:
    """What the bench of tiles is told."""
    cache = settings.HOME / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    asked = run.params
    return [
        asked.get("task", "tiles"), "--flashinfer", run.versions["flashinfer"],
        "--arch", asked["arch"], "--cache", str(cache),
        *(("--tier", asked["tier"]) if "tier" in asked else ()),
        *(("--full", str(asked["full"])) if "full" in asked else ()),
        *(("--rescue",) if "rescue" in asked else ()),
    ]  # fmt: skip


def _gemm(run: Claim, folder: Path) -> list[str]:
    cases = folder / "cases.json"
    cases.write_text(json.dumps(run.params["cases"]))
    return ["gemm", "--device", run.params["device"], "--cases", str(cases)]


def _named(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _environment(run: Claim, folder: Path) -> Path:
    """The recipe's Python, built first if it is not there."""
    root = settings.HOME / "envs"
    versions = run.versions
    python = environments.python_of(environments.location(root, versions))
    if python.exists():
        return python
    tick = _Ticker(run)
    tick(Progress(0, 0, f"building the environment of {_named(run.versions)}"), "")
    try:
        command = environments.build_command(root, versions)
    except environments.RecipeError as error:
        raise Failure("bad_recipe", str(error)) from None
    try:
        child.run(
            command,
            folder=folder,
            timeout_s=BUILD_TIMEOUT_S,
            tick=lambda _, log: tick(None, log),
            extra_environment=_extra(folder),
        )
    except Failure as failure:
        raise Failure(
            "environment",
            f"The environment of {_named(run.versions)} could not be built: {failure.sentence}",
        ) from None
    return python


class _Ticker:
    """Beats for a run, and turns Postgres' answer into what ends the child."""

    def __init__(self, run: Claim) -> None:
        self._run = run
        self._unsent = ""

    def __call__(self, progress: Progress | None, log: str) -> None:
        if stopping.is_set():
            raise StoppingError
        self._unsent += log
        try:
            answer = work.beat(
                self._run.run_id, self._run.attempt, progress, self._unsent, queues=[self._run.queue]
            )
        except (OperationalError, InterfaceError) as error:
            # Postgres away for a while is no reason to stop measuring; the log is sent with a later beat
            logger.warning("%s: no heartbeat, %s", self._run, type(error).__name__)
            self._unsent = self._unsent[-child.CHUNK :]
            close_old_connections()
            return
        self._unsent = ""
        if answer is Beat.CANCEL:
            raise CancelledError
        if answer is Beat.LOST:
            raise LostError
        if answer is Beat.YIELD:
            raise YieldError
