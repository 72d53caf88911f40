"""Documents on disk between a child and the inbox, so that a server that is away costs nothing measured."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.runs import actions
from benchapp.runs.models import Run

logger = logging.getLogger(__name__)

RETRY_S = 2.0


def put(spool: Path, document: Path, run_id: int, attempt: int) -> None:
    """Take over a finished document; the rename is what makes it ours."""
    spool.mkdir(parents=True, exist_ok=True)
    document.replace(spool / f"{run_id}-{attempt}.json")


def flush(spool: Path, patience_s: float = 0.0) -> int:
    """Deliver what lies in the spool, oldest first; returns how many were delivered.

    Where Postgres is away it is tried again for `patience_s`; what is left stays for the next call.
    """
    delivered = 0
    deadline = time.monotonic() + patience_s
    for path in sorted(spool.glob("*.json"), key=lambda path: path.stat().st_mtime):
        run_id, attempt = (int(part) for part in path.stem.split("-"))
        while True:
            try:
                actions.deliver(run_id, attempt, path.read_bytes())
            except Run.DoesNotExist:
                # another database than the one that asked for it; a person may still ingest the file
                logger.error("run %s is not known here, its document stays as %s", run_id, path.name)
                path.rename(path.with_suffix(".unknown-run"))
                break
            except (OperationalError, InterfaceError) as error:
                close_old_connections()
                if time.monotonic() >= deadline:
                    logger.warning(
                        "Postgres is away, %s waits in the spool: %s", path.name, type(error).__name__
                    )
                    return delivered
                time.sleep(RETRY_S)
                continue
            path.unlink()
            delivered += 1
            break
    return delivered
