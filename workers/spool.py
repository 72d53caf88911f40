"""Documents on disk between a child and the inbox, so that a server that is away costs nothing measured.

`12-1.json` is the document of run 12, attempt 1; `12-1.lease` beside it says what that attempt held when.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import re
import time
from pathlib import Path

from django.db import close_old_connections

from benchapp.runs import work
from benchapp.runs.work import Lease
from workers import postgres
from workers.lease import only_one

logger = logging.getLogger(__name__)

RETRY_S = 2.0
NAME = re.compile(r"(\d+)-(\d+)\.json")


def put(spool: Path, document: Path, run_id: int, attempt: int, lease: Lease | None = None) -> None:
    """Take over a finished document; the rename is what makes it ours. Raises OSError."""
    spool.mkdir(parents=True, exist_ok=True)
    path = spool / f"{run_id}-{attempt}.json"
    if lease is not None:
        with contextlib.suppress(OSError):  # a full disk must not cost the document
            path.with_suffix(".lease").write_text(lease.as_json())
    document.replace(path)


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
            except postgres.TROUBLES as error:
                logger.warning("%s stays in the spool. %s", path.name, postgres.sentence(error))
                if not postgres.is_refusal(error):
                    break
    return delivered


def _deliver(path: Path, deadline: float) -> bool:
    """Deliver one file, until `deadline` where Postgres is away. Raises what `postgres.is_trouble` knows."""
    beside = path.with_suffix(".lease")
    while True:
        try:
            name = NAME.fullmatch(path.name)
            if name is None:
                raise ValueError("its name is no run and attempt")
            work.deliver(int(name[1]), int(name[2]), path.read_bytes(), _lease(beside))
            path.unlink()
            beside.unlink(missing_ok=True)
            return True
        except Exception as error:
            if not postgres.is_trouble(error):
                # no other document may wait for this one; a person can still ingest the file
                logger.exception("%s could not be delivered and is kept as it is", path.name)
                path.rename(path.with_suffix(".undelivered"))
                return False
            if postgres.is_refusal(error) or time.monotonic() >= deadline:
                raise
            close_old_connections()
            time.sleep(RETRY_S)


def _lease(path: Path) -> Lease | None:
    """None where there is none, or a disk without room cut it off."""
    try:
        told = json.loads(path.read_text())
        until = dt.datetime.fromisoformat(told["to"]) if "to" in told else None
        return Lease(tuple(told["gpus"]), dt.datetime.fromisoformat(told["from"]), until)
    except (OSError, ValueError, KeyError, TypeError):
        return None
