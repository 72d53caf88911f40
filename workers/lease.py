"""File locks of a worker host: who may use its cores, and what only one process may do at a time.

The kernel frees a lock when the last process that inherited its descriptor ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.5


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def cores(folder: Path, *, alone: bool, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the lease of the host's cores: compiles share them, a measurement has them alone.

    Yields the descriptor for the child that does the work, so that the lease lasts as long as the child
    does, even when the worker that started it is gone. `waiting` is called twice a second until the lease
    is had; whatever it raises ends the wait.
    """
    descriptor = _open(folder / "cores.lock")
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


@contextlib.contextmanager
def only_one(path: Path, *, wait: bool) -> Iterator[bool]:
    """Be the only process inside; without `wait`, yields False at once where another one is."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
