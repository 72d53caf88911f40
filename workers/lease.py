"""Who may use the host's cores: compiles share them, a measurement has them alone.

A lease is a file lock. The measuring child inherits its descriptor, so that the lease lasts as long as
the child does, even when the worker that started it is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.5


@contextlib.contextmanager
def cores(folder: Path, *, alone: bool, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the cores' lease and yield its descriptor; `waiting` is called twice a second until it is had.

    Whatever `waiting` raises ends the wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "cores.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)
