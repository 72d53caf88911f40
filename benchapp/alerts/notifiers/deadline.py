"""An end that no server can put off: timeouts of sockets start anew with each byte, this does not."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

#: Between two looks at a socket whose time is over: a handshake may be exchanging it just then.
_AGAIN_S = 0.5


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    def left(self) -> float:
        """Seconds. Raises TimeoutError where none are left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @contextlib.contextmanager
    def guard(self, current: Callable[[], socket.socket | None]) -> Iterator[None]:
        """Within the block, the socket that `current` names is shut when time is over, so that whoever waits
        for it goes on. Whatever comes of this, half an answer too, is raised as TimeoutError."""
        done, shut = threading.Event(), threading.Event()

        def watch() -> None:
            wait = max(self._end - time.monotonic(), 0.0)
            while not done.wait(wait):
                wait = _AGAIN_S
                shut.set()
                with contextlib.suppress(OSError):
                    if (sock := current()) is not None:
                        socket.socket.shutdown(sock, socket.SHUT_RDWR)

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        except Exception as error:
            if self.over:
                raise TimeoutError from error
            raise
        finally:
            done.set()
        if shut.is_set():
            raise TimeoutError
