"""Keep children running: restart with back-off, name those that keep crashing, stop in reverse order."""

import contextlib
import itertools
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchapp.local.child import LocalError, end
from benchapp.local.logs import cap, last_lines

LONGEST_BACKOFF_S = 30.0
#: A child that lived this long has recovered; its next crash counts as the first.
SETTLED_S = 60.0
#: Crashes in a row after which the end of the child's log is shown.
NAMED_AFTER = 3
_STEP_S = 0.1
_LOG_CHECK_S = 60.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Ctrl-C, SIGTERM or a closed terminal."""


def say(line: str) -> None:
    """Print a line now; a reader that has gone away is no reason to stop."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def how_it_ended(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def backoff_s(crashes: int) -> float:
    """Seconds to wait after so many crashes in a row: 0.5, 1, 2, … at most LONGEST_BACKOFF_S."""
    return float(min(LONGEST_BACKOFF_S, 0.5 * 2 ** min(crashes - 1, 10)))


@dataclass
class Kept:
    """One child to keep alive. `stop_steps` are the signals that end it, each with seconds of patience."""

    name: str
    #: None: it writes to the terminal
    log: Path | None
    start: Callable[[], subprocess.Popen[str]]
    stop_steps: tuple[tuple[int, float], ...]
    process: subprocess.Popen[str]
    started: float = field(default_factory=time.monotonic)
    crashes: int = 0
    start_again: float | None = None


class Supervisor:
    """Children in the order of their start. Everything happens in `pause`, on the main thread."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self._stop_asked = 0
        self._logs_checked = time.monotonic()
        for number in _STOP_SIGNALS:
            # `nohup` has asked to outlive the terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, *_: object) -> None:
        self._stop_asked += 1

    def keep(
        self,
        name: str,
        log: Path | None,
        start: Callable[[], subprocess.Popen[str]],
        stop_steps: tuple[tuple[int, float], ...],
        process: subprocess.Popen[str] | None = None,
    ) -> None:
        """Keep a child running from now on: `process` where it runs already, else started here."""
        if log:
            cap(log)
        self.kept.append(Kept(name, log, start, stop_steps, process or start()))

    def pause(self, seconds: float) -> None:
        """Sleep while tending the children. Raises StopRequested."""
        until = time.monotonic() + seconds
        while True:
            if self._stop_asked:
                raise StopRequested
            self._tend()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_STEP_S, left))

    def wait(self, process: subprocess.Popen[str]) -> int:
        """Exit status of a child that ends by itself, tending the others meanwhile. Raises StopRequested."""
        try:
            while (status := process.poll()) is None:
                self.pause(0.05)
            return status
        except StopRequested:
            end([process], [(signal.SIGTERM, 1.0)])
            raise

    def _tend(self) -> None:
        now = time.monotonic()
        for kept in self.kept:
            if kept.start_again is not None:
                if now >= kept.start_again:
                    self._start_again(kept, now)
            elif (status := kept.process.poll()) is not None:
                self._note_crash(kept, now, how_it_ended(status))
        if now - self._logs_checked > _LOG_CHECK_S:
            self._logs_checked = now
            for kept in self.kept:
                if kept.log:
                    cap(kept.log)

    @staticmethod
    def _note_crash(kept: Kept, now: float, how: str) -> None:
        kept.crashes = 1 if now - kept.started > SETTLED_S else kept.crashes + 1
        delay = backoff_s(kept.crashes)
        kept.start_again = now + delay
        say(f"  {kept.name} stopped ({how}), starting it again in {delay:g} s")
        if kept.crashes % NAMED_AFTER == 0:
            end_of_log = f"\n{last_lines(kept.log)}" if kept.log else ""
            say(f"  {kept.name} has stopped {kept.crashes} times in a row.{end_of_log}")

    def _start_again(self, kept: Kept, now: float) -> None:
        kept.start_again, kept.started = None, now
        try:
            kept.process = kept.start()
        except (LocalError, OSError) as error:
            self._note_crash(kept, now, str(error))

    def stop(self) -> None:
        """Stop everything in reverse order, neighbours of the same steps at once. Another Ctrl-C hurries."""
        asked = self._stop_asked
        for steps, group in itertools.groupby(reversed(self.kept), key=lambda kept: kept.stop_steps):
            end([kept.process for kept in group], steps, hurry=lambda: self._stop_asked > asked)
        self.kept.clear()
