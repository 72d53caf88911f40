"""SIGTERM as a request: the measuring ends, and the bench writes what it has."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StoppedError(Exception):
    """The bench was asked to stop. Raised wherever it is at by whoever handles the signal."""


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM raises StoppedError in the block, once; one more is ignored, while the document is written."""

    def stop(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise StoppedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is stop:
            signal.signal(signal.SIGTERM, before)
