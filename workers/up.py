"""`python -m workers up`: find this host's GPUs, start a worker for each and those without, keep them up."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from benchapp.local.child import spawn
from benchapp.local.home import Home
from benchapp.local.supervisor import StopRequested, Supervisor, say
from benchapp.settings.base import HOME
from benchapp.settings.secret import lasting_secret
from workers import affinity, disk, gpus, identity, plan

REPOSITORY = Path(__file__).resolve().parents[1]
#: What `up` left for the worker of chores: who works here, since when, under which labels.
PLAN_FILE = "workers.json"
STOP_S = 15.0
_LABEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}=[^,=\x00-\x1f]{1,100}")


class UpError(Exception):
    """Why the workers cannot start, in one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns its exit status."""
    options = _parser().parse_args(arguments)
    home = Home(HOME)
    try:
        home.make()
        installation = lasting_secret(home.run / "installation")[:8]
        found = gpus.ask()
        chosen, notes = plan.choose(found, options.gpus)
        workers = plan.workers(chosen, installation, affinity.physical_cores(), cpu=options.cpu)
        if found["nvml"]:
            notes.append(f"No GPU is served: {found['nvml']}.")
        if options.dry_run:
            print("\n".join([plan.table(workers), *notes]))
            return 0
        _check()
        with _alone(home):
            _run(home, workers, notes, options)
    except (UpError, plan.PlanError, ImproperlyConfigured, ValueError, OSError) as error:
        print(f"The workers cannot start: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    up = parser.add_subparsers(dest="command", required=True).add_parser(
        "up", help="start this host's workers"
    )
    up.add_argument(
        "--gpus", default="all", metavar="WHICH", help="all (default), or indices and UUIDs: 0,1,GPU-…"
    )
    up.add_argument(
        "--labels",
        type=_labels,
        default={},
        metavar="K=V,…",
        help="shown with this host: rack=b4,team=inference",
    )
    up.add_argument("--no-cpu", dest="cpu", action="store_false", help="measure nothing on this host's CPUs")
    up.add_argument("--dry-run", action="store_true", help="print the plan and end")
    up.add_argument(
        "--stop-after",
        type=float,
        default=STOP_S,
        metavar="S",
        help=f"seconds that workers have to put their runs back at a stop (default {STOP_S:g})",
    )
    return parser


def _labels(text: str) -> dict[str, str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not _LABEL.fullmatch(word):
            raise argparse.ArgumentTypeError(
                f"{word!r:.60}: expected name=value, the name of a-z, 0-9, dots, dashes and underscores"
            )
    return dict(word.split("=", 1) for word in words)


def _check() -> None:
    """Say here, and not in the log of every worker, what none of them could start with.

    Raises ImproperlyConfigured, ValueError.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings.local")
    settings.DATABASES  # noqa: B018 - reading any setting reads them all
    identity.host_name()
    disk.budget()


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[IO[str]]:
    """Be the only one who starts workers on this data folder. Raises UpError."""
    with (home.run / "workers.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise UpError(f"they run already on {home.root}, under process {lock.read().strip()}") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock


def _run(home: Home, workers: Sequence[plan.Worker], notes: Sequence[str], options: Any) -> None:
    """Start all workers and keep them up until somebody asks to stop."""
    _write_plan(home, workers, options.labels)
    say("\n".join([plan.table(workers), *notes]))
    supervisor = Supervisor()
    stop_steps = ((int(signal.SIGTERM), options.stop_after),)
    try:
        for worker in workers:
            log = home.logs / f"{worker.name}.log"
            supervisor.keep(worker.name, log, partial(_start, worker, log), stop_steps)
        while True:
            supervisor.pause(3600)
    except StopRequested:
        say("Stopping the workers")
    finally:
        supervisor.stop()


def _write_plan(home: Home, workers: Sequence[plan.Worker], labels: dict[str, str]) -> None:
    said = {
        "started_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "labels": labels,
        "workers": [
            {
                "name": worker.name,
                "kind": worker.kind,
                "queues": worker.queues,
                "gpu": worker.uuid,
                "cores": affinity.as_ranges(worker.cpus),
            }
            for worker in workers
        ],
    }
    draft = home.run / f"{PLAN_FILE}.new"
    draft.write_text(json.dumps(said))
    draft.replace(home.run / PLAN_FILE)


def _start(worker: plan.Worker, log: Path) -> subprocess.Popen[str]:
    """Start a worker on its CPUs, so that all its children are there too."""
    with affinity.pinned(worker.cpus):
        return spawn(command(worker), log=log, environment=environment(worker), folder=REPOSITORY)


def command(worker: plan.Worker) -> list[str]:
    """The worker's command line."""
    chores = worker.kind == "chores"
    # chores look after all others, so nothing that they do may wait for a run
    application = ["benchapp.celery", "worker", "--include=workers.chores", "--pool=solo"]
    return [
        sys.executable, "-m", "celery", "-A",
        *(application if chores else ["workers.celery", "worker"]),
        "--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat",
        "-Q", ",".join(worker.queues), "-n", f"{worker.name}@%h", "-c", "1",
    ]  # fmt: skip


def environment(worker: plan.Worker) -> dict[str, str]:
    """What the worker knows of itself. One without a GPU sees none."""
    own = {
        "TILEWATCH_WORKER": worker.kind,
        "TILEWATCH_GPU": worker.uuid,
        "CUDA_VISIBLE_DEVICES": worker.uuid,
    }
    return os.environ | own
