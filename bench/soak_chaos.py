"""What a soak does to the machines while they work: the disturbances that `soak_plan` names."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, close_old_connections

from bench.soak_place import Place, strike
from bench.soak_plan import Size, disturbances
from bench.stand import Stand
from benchapp.runs import broker, work
from benchapp.runs.models import Document, Run, State
from benchapp.runs.states import FINAL

TROUBLES = (DatabaseError, InterfaceError)
DOUBLED = 20


@dataclasses.dataclass
class _Later:
    at: float
    do: Callable[[], None]


class Chaos:
    """Call `tend` often. A disturbance that finds nothing to disturb is tried again until it does."""

    def __init__(self, stand: Stand, place: Place, size: Size) -> None:
        self.counts: Counter[str] = Counter()
        self.postgres_away_s = 0.0
        #: documents that came after another one of their run
        self.late: list[int] = []
        #: runs of which a child was killed
        self.struck: set[int] = set()
        self._stand, self._place, self._size = stand, place, size
        self._random = random.Random(stand.seed + 2)
        self._plan = disturbances(size, stand.seed)
        self._began = time.monotonic()
        self._later: list[_Later] = []
        self._away_since: float | None = None
        self._next: tuple[float, str] | None = None
        self._draw(time.monotonic())

    def tend(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for due in [later for later in self._later if later.at <= now]:
            self._later.remove(due)
            due.do()
        if self._next is None or now < self._next[0]:
            return
        what = self._next[1]
        if self._do(what):
            self.counts[what] += 1
            self._say(what)
            self._draw(now)

    def finish(self) -> None:
        """No more disturbances; what is away comes back and what is frozen goes on."""
        self._next = None
        for later in self._later:
            later.do()
        self._later.clear()

    @property
    def over(self) -> bool:
        """All that was planned has been done."""
        return self._next is None and not self._later

    def _draw(self, now: float) -> None:
        pause, what = next(self._plan, (0.0, ""))
        self._next = (now + pause, what) if what else None

    def _say(self, what: str) -> None:
        print(f"  {time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def _do(self, what: str) -> bool:
        """Whether there was anything to do it to."""
        place = self._place
        kill: dict[str, Callable[[], list[int]]] = {
            "GPU worker killed": lambda: place.workers("gpu"),
            "its pool process killed": lambda: place.pools("gpu"),
            "build worker killed": lambda: place.workers("build"),
            "all workers of a host killed": lambda: [place.process(home.name).pid for home in place.homes],
            "control worker killed": lambda: [place.process("control").pid],
            "beat killed": lambda: [place.process("beat").pid],
        }
        if what in kill:
            return strike(kill[what](), self._random.choice, signal.SIGKILL) is not None
        if what == "measuring child killed":
            return self._kill_child()
        other: dict[str, Callable[[], bool]] = {
            "worker frozen": self._freeze,
            "Valkey killed, its data gone": self._restart_valkey,
            "Postgres killed": self._kill_postgres,
            "Postgres away": self._take_postgres_away,
            "hints doubled": self._double_hints,
            "ingest messages doubled": self._double_ingests,
            "document delivered late": self._deliver_late,
        }
        if self._away_since is not None and what not in ("worker frozen", "Valkey killed, its data gone"):
            return False
        try:
            return other[what]()
        except TROUBLES:
            close_old_connections()
            return False

    def _kill_child(self) -> bool:
        at_work = self._place.measuring()
        pid = strike(list(at_work), self._random.choice, signal.SIGKILL)
        if pid is not None:
            self.struck.add(at_work[pid])
        return pid is not None

    def _freeze(self) -> bool:
        """As a host that sleeps: longer than its heart may be silent, so its run is given to another."""
        pools = self._place.pools("gpu")
        pid = strike(pools, self._random.choice, signal.SIGSTOP)
        if pid is None:
            return False
        until = time.monotonic() + self._size.heartbeat_timeout_s * 1.7
        self._later.append(_Later(until, lambda: _thaw(pid)))
        return True

    def _restart_valkey(self) -> bool:
        """It keeps nothing on disk, so a kill deletes every message and binding."""
        self._stand.valkey.kill()
        self._later.append(_Later(time.monotonic() + self._random.uniform(0.2, 3), self._start_valkey))
        return True

    def _start_valkey(self) -> None:
        self._stand.valkey.launch()
        self._stand.valkey.wait_ready(pause=self._place.supervisor.pause)

    def _kill_postgres(self) -> bool:
        self._stand.postgres.kill()
        self._away_since = time.monotonic()
        self._start_postgres()
        return True

    def _take_postgres_away(self) -> bool:
        away_s = self._size.away_s[self.counts["Postgres away"] % len(self._size.away_s)]
        self._stand.postgres.stop()
        self._away_since = time.monotonic()
        self._later.append(_Later(time.monotonic() + away_s, self._start_postgres))
        return True

    def _start_postgres(self) -> None:
        assert self._away_since is not None
        self._stand.postgres.launch()
        self._stand.postgres.wait_ready(pause=self._place.supervisor.pause)
        self.postgres_away_s += time.monotonic() - self._away_since
        self._away_since = None
        close_old_connections()

    def _double_hints(self) -> bool:
        queues = set(Run.objects.exclude(state__in=FINAL).values_list("queue", flat=True))
        for _ in range(DOUBLED):
            broker.wake(queues)
        return bool(queues)

    def _double_ingests(self) -> bool:
        newest = list(Document.objects.order_by("-pk").values_list("pk", flat=True)[:DOUBLED])
        for pk in newest * 2:
            broker.ask_ingest(pk)
        return bool(newest)

    def _deliver_late(self) -> bool:
        """A second document of a run that is done, from an attempt of it; and the first one's bytes again."""
        done = Document.objects.filter(state=Document.State.ACCEPTED, run__state=State.DONE)
        first = done.order_by("?").first()
        if first is None:
            return False
        assert first.run_id is not None and first.attempt is not None
        body = bytes(first.body)
        work.deliver(first.run_id, first.attempt, body)
        late = json.loads(body)
        late["costs"]["late"] = len(self.late)
        self.late.append(work.deliver(first.run_id, first.attempt, json.dumps(late).encode()))
        return True


def _thaw(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
