"""Wait for a run at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.runs.models import Run, State
from benchapp.runs.states import FINAL

POLL_S = 0.5
#: A run that nobody claimed for so long makes one ask whether a worker is there at all.
UNCLAIMED_S = 30.0


def wait_for(run: Run, say: Callable[[str], None]) -> Run:
    """Return the run once it has ended, telling each new step on the way. Outlives a restart of Postgres."""
    told = ""
    waited_since = time.monotonic()
    while True:
        try:
            run = Run.objects.select_related("recipe", "target", "waits_for").get(pk=run.pk)
        except (OperationalError, InterfaceError):
            close_old_connections()
            time.sleep(POLL_S)
            continue
        if run.state in FINAL:
            return run
        line = f"run {run.pk} {run.state}"
        if run.progress_message and run.state == State.RUNNING:
            line += f" {run.progress_done}/{run.progress_total} {run.progress_message}"
        if run.state != State.QUEUED or (run.waits_for and run.waits_for.state not in FINAL):
            waited_since = time.monotonic()
        elif time.monotonic() - waited_since > UNCLAIMED_S:
            line += f": no worker of queue {run.queue} has taken it yet; is `make run` running?"
        if line != told:
            say(line)
            told = line
        time.sleep(POLL_S)
