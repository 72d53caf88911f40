"""Beats for a run, about once a second, and what ends its child."""

from __future__ import annotations

import logging
import time

from django.db import close_old_connections

from benchapp.runs import work
from benchapp.runs.work import Beat, Claim, Lease, Progress
from workers import child, environments, postgres
from workers.identity import Identity
from workers.stopping import stopping

logger = logging.getLogger(__name__)


class EndedError(Exception):
    """The child is to end; not because of anything that it did."""


class CancelledError(EndedError):
    """Somebody cancelled the run."""


class LostError(EndedError):
    """The run is no longer ours."""


class StoppingError(EndedError):
    """This worker was asked to stop."""


class YieldError(EndedError):
    """A better run needs this host."""


class GoneError(EndedError):
    """The environment that was there at the claim is gone."""


_ENDS = {Beat.CANCEL: CancelledError, Beat.LOST: LostError, Beat.YIELD: YieldError}


class Ticker:
    """Tells Postgres how far a run is, and turns its answer into what ends the child.

    `lease` is what the run holds while it measures; whoever takes and releases it sets it.
    """

    def __init__(self, run: Claim, me: Identity) -> None:
        self._run = run
        self._me = me
        self._unsent = ""
        self._said = ("", 0.0)
        self._told: Lease | None = None
        self.lease: Lease | None = None

    def __call__(self, progress: Progress | None, log: str) -> None:
        """Raises EndedError. Postgres away for a while is no reason to stop measuring."""
        if stopping.is_set():
            raise StoppingError
        self._unsent += log
        run = self._run
        try:
            answer = work.beat(
                run.run_id,
                run.attempt,
                progress,
                self._unsent,
                lease=None if self.lease == self._told else self.lease,
                queues=self._me.queues if run.background else (),
                ready=environments.ready() if run.background else None,
            )
        except postgres.TROUBLES as error:
            if not postgres.is_trouble(error):
                raise
            logger.warning("%s: no heartbeat. %s", run, postgres.sentence(error))
            self._unsent = self._unsent[-child.CHUNK :]  # sent with a later beat
            close_old_connections()
            return
        self._unsent, self._told = "", self.lease
        if answer in _ENDS:
            raise _ENDS[answer]

    def say(self, sentence: str) -> None:
        """Progress before there is a child to speak for itself; may be called as often as one likes."""
        said, at = self._said
        if sentence != said or time.monotonic() - at >= child.TICK_S:
            self._said = (sentence, time.monotonic())
            self(Progress(0, 0, sentence), "")
