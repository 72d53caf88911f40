"""A worker's day: claim a run, do it in a child process, deliver its document."""

from __future__ import annotations

import dataclasses
import errno
import logging
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.db import NotSupportedError, close_old_connections

from benchapp.runs import work
from benchapp.runs.models import Run
from benchapp.runs.work import Claim, Lease
from workers import builds, collect, environments, identity, lease, measure, postgres, presence, spool
from workers.failure import Failure
from workers.identity import Identity
from workers.stopping import stopping
from workers.ticker import CancelledError, GoneError, LostError, StoppingError, Ticker, YieldError

logger = logging.getLogger(__name__)

DELIVERY_PATIENCE_S = 30.0


@dataclasses.dataclass(slots=True)
class _Life:
    """What this process knows since it was started."""

    #: what an earlier life left has been dealt with
    settled: bool = False
    #: Tilewatch speaks another protocol
    refused: bool = False


_life = _Life()


def work_on() -> None:
    """Do runs of this worker's queues until none is left. Waits while Postgres is away.

    One process a worker's name and home works: what another one is doing must not be taken for left behind.
    """
    me = identity.current()
    with lease.only_one(settings.HOME / "run" / f"worker-{me.label}.lock", wait=False) as mine:
        if not mine or _life.refused:
            return
        try:
            postgres.patiently(lambda: _work(me))
        except NotSupportedError as error:
            _life.refused = True
            logger.error("No work is taken until this worker is started anew: %s", error)
        except postgres.TROUBLES:
            if not stopping.is_set():
                raise


def _work(me: Identity) -> None:
    close_old_connections()
    spool.flush(settings.HOME / "spool")
    if not _life.settled:
        work.release(me.name)
        collect.sweep_attempts(settings.HOME, me.name)  # a worker that was killed could not
        _life.settled = True
    while not stopping.is_set():
        if me.gpu and (why := presence.why_not(settings.HOME, me.gpu)):
            logger.warning("GPU %s takes no run: %s", me.gpu, why)
            return  # the next sweep wakes the queue again
        run = work.claim(me.queues, me.name, gpu=me.gpu, ready=environments.ready())
        if run is None:
            return
        execute(run, me)


def execute(run: Claim, me: Identity) -> None:
    """One attempt of a run, from claim to delivery; every end of it is written to the run."""
    folder = settings.HOME / "work" / f"{run.run_id}-{run.attempt}"
    ticker = Ticker(run, me)

    def end(how: Callable[..., bool], *said: str) -> None:
        postgres.patiently(lambda: how(run.run_id, run.attempt, *said, lease=ticker.lease))

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if run.kind == Run.Kind.BUILD:
            if document := builds.build(run, folder, me, ticker):
                _deliver(run, document, None)
            else:
                postgres.patiently(lambda: work.built(run.run_id, run.attempt))
        else:
            _deliver(run, measure.measure(run, folder, me, ticker), ticker.lease)
    except CancelledError:
        end(work.give_up_cancelled)
    except LostError:
        logger.warning("%s, attempt %s: taken over by somebody else", run, run.attempt)
    except StoppingError:
        end(work.put_back)
    except YieldError:
        end(work.put_back, "made way for a better run")
    except GoneError:
        end(work.put_back, "its environment is gone")
    except Failure as failure:
        end(work.fail, failure.code, failure.sentence)
    except OSError as error:
        end(work.fail, *_disk(error, folder))
    except Exception as error:
        if postgres.is_trouble(error):
            raise  # the sweep takes the run up again
        told = traceback.format_exc()
        postgres.patiently(lambda: work.beat(run.run_id, run.attempt, None, told))
        end(work.fail, "worker_error", f"The worker itself failed: {type(error).__name__}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _deliver(run: Claim, document: Path, held: Lease | None) -> None:
    """By way of the spool, where it waits while Postgres is away. Raises OSError, postgres.TROUBLES."""
    try:
        spool.put(settings.HOME / "spool", document, run.run_id, run.attempt, held)
    except OSError:
        # a disk without room for it: it goes at once or not at all
        work.deliver(run.run_id, run.attempt, document.read_bytes(), held)
    else:
        spool.flush(settings.HOME / "spool", DELIVERY_PATIENCE_S)


def _disk(error: OSError, folder: Path) -> tuple[str, str]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "disk_full",
            f"The disk that holds {settings.HOME.name}/ is full; free some space and run it again.",
        )
    if error.errno == errno.EFBIG:
        return "disk_full", "A file reached the size that the worker's user may write (ulimit -f)."
    return "worker_error", f"The worker could not use its folder {folder.name}: {error.strerror}."
