"""Documents on disk between a child and the inbox, so that a server that is away costs nothing measured."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.runs import work
from workers.lease import only_one

logger = logging.getLogger(__name__)

RETRY_S = 2.0
NAME = re.compile(r"(\d+)-(\d+)\.json")


def put(spool: Path, document: Path, run_id: int, attempt: int) -> None:
    """Take over a finished document; the rename is what makes it ours."""
    spool.mkdir(parents=True, exist_ok=True)
    document.replace(spool / f"{run_id}-{attempt}.json")


def flush(spool: Path, patience_s: float = 0.0) -> int:
    """Deliver what lies in the spool, oldest first; returns how many were delivered.

    Where Postgres is away it is tried again for `patience_s`; what is left stays for the next call. The
    workers of a host share the spool and take turns.
    """
    deadline = time.monotonic() + patience_s
    delivered = 0
    with only_one(spool / "lock", wait=True):
        for path in sorted(spool.glob("*.json"), key=lambda path: path.stat().st_mtime):
            try:
                delivered += _deliver(path, deadline)
            except (OperationalError, InterfaceError) as error:
                logger.warning("Postgres is away, %s stays in the spool: %s", path.name, type(error).__name__)
                break
    return delivered


def _deliver(path: Path, deadline: float) -> bool:
    """Deliver one file, until `deadline` where Postgres is away. Raises Django's errors of an outage."""
    while True:
        try:
            name = NAME.fullmatch(path.name)
            if name is None:
                raise ValueError("its name is no run and attempt")
            work.deliver(int(name[1]), int(name[2]), path.read_bytes())
            path.unlink()
            return True
        except (OperationalError, InterfaceError):
            close_old_connections()
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)
        except Exception:
            # no other document may wait for this one; a person can still ingest the file
            logger.exception("%s could not be delivered and is kept as it is", path.name)
            path.rename(path.with_suffix(".undelivered"))
            return False
