"""The processes of one gang, a rank each: their start, questions with time limits, and their end.

The parent imports no torch. Ranks meet through a file in a folder of the gang's own. Whatever goes wrong with
one of them ends them all, since the others would wait for it for ever. Call from the main thread: ranks end
with the thread that started them. They inherit whatever descriptors this process inherited, a device lease
among them.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

from workers.bench.document import Outcome
from workers.bench.gemm.process import LOG_TAIL, LOOK_S, ROOT

MODULE = "workers.bench.moe.rank"
#: for a rank whose neighbour told of a fault to end by itself, so that who died first is found
GRACE_S = 1.0
#: of one line: a measurement with its samples and its routing is far shorter
LINE_BYTES = 16 * 2**20


class LostError(Exception):
    """The gang is gone. `outcome` and `why` are of what it was asked; `everywhere`: any other case of
    the same weights and backend would end so too."""

    def __init__(self, outcome: Outcome, why: str, *, everywhere: bool = False, code: str = "") -> None:
        super().__init__(why)
        #: of a BenchError
        self.code = code
        self.outcome = outcome
        self.why = why
        self.everywhere = everywhere


class Rank:
    """One process of a gang."""

    def __init__(self, number: int, world: int, device: str, store: Path, module: str) -> None:
        self.number = number
        self.at = "its start"
        self._buffer = b""
        self.garbled = b""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "RANK": str(number), "WORLD_SIZE": str(world)}
        if device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        # All ranks are on this host: no interface but the loopback need be there.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        environment.setdefault("NCCL_SOCKET_IFNAME", "lo")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 — closed in end()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(os.getpid()), str(number), str(world), device, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            close_fds=False,
            process_group=0,  # so that what it starts ends with it
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    @property
    def stream(self) -> Any:
        return self.process.stdout

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer that never comes says so
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def lines(self) -> list[dict[str, Any]] | None:
        """What it said since the last look; None once nothing more will come. Sets `garbled`."""
        try:
            piece = os.read(self.stream.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        if not piece:
            return None
        self._buffer += piece
        *whole, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > LINE_BYTES:
            self.garbled = self._buffer[:100]
            return None
        told = []
        for line in whole:
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                said = None
            if not isinstance(said, dict):
                self.garbled = line[:100]
                return None
            told.append(said)
        return told

    def log(self) -> str:
        """The last LOG_TAIL characters of its stderr."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - LOG_TAIL))
        return self._errors.read().decode("utf-8", errors="replace").strip()

    def epitaph(self) -> str:
        """How it ended, as part of a sentence."""
        if self.garbled:
            return f"a library wrote among the lines of its process: {self.garbled!r}"
        code = self.process.poll()
        how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
        last = next((line for line in reversed(self.log().splitlines()) if line.strip()), "")
        return f"its process ended with {how}" + (f", last saying {last.strip()[:300]!r}" if last else "")

    def end(self) -> None:
        """By SIGKILL, with all that it started; waits until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]


class Gang:
    """`world` ranks on `device`. A context: at its end no rank is left."""

    def __init__(self, world: int, device: Literal["cpu", "cuda"], module: str = MODULE) -> None:
        self.world = world
        self._device = device
        self._module = module
        self._ranks: list[Rank] = []

    def __enter__(self) -> Gang:
        self._folder = tempfile.TemporaryDirectory(prefix="gang-")
        self._selector = selectors.DefaultSelector()
        store = Path(self._folder.name) / "store"
        try:
            for number in range(self.world):
                rank = Rank(number, self.world, self._device, store, self._module)
                self._ranks.append(rank)
                self._selector.register(rank.stream, selectors.EVENT_READ, rank)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # All are told before any is waited for: none shall see another's end and begin to say so.
        for rank in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.process.pid, signal.SIGKILL)
        for rank in self._ranks:
            rank.end()
        self._selector.close()
        self._folder.cleanup()

    def ask(self, question: dict[str, Any], limit_s: float) -> list[dict[str, Any]]:
        """Every rank's answer, by rank. Raises LostError, and then the gang is to be left."""
        line = json.dumps(question)
        for rank in self._ranks:
            rank.tell(line)
        return self.hear(limit_s)

    def hear(self, limit_s: float) -> list[dict[str, Any]]:
        """One answer of every rank: {"answer": …}. Between, {"at": …} tells what a rank does just now, and
        {"failed": …} ends it all."""
        ends = time.monotonic() + limit_s
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < self.world:
            ready = self._selector.select(min(LOOK_S, max(0.0, ends - time.monotonic())))
            for key, _ in ready:
                rank: Rank = key.data
                said = rank.lines()
                if said is None:
                    raise self._dead(rank)
                for line in said:
                    match line:
                        case {"at": str(what)}:
                            rank.at = what
                        case {"answer": dict(answer)}:
                            answers[rank.number] = answer
                        case {"failed": dict(told)}:
                            raise self._failed(rank, told)
            if not ready:
                gone = next((rank for rank in self._ranks if rank.process.poll() is not None), None)
                if gone is not None:  # what it started holds its pipe open
                    raise self._dead(gone)
            if time.monotonic() >= ends and len(answers) < self.world:
                raise self._silent(limit_s, answers.keys())
        return [answers[number] for number in range(self.world)]

    def log(self) -> str:
        """What the ranks wrote on stderr last."""
        logs = {rank.number: rank.log() for rank in self._ranks}
        if self.world == 1:
            return logs[0]
        return "\n".join(f"rank {number}:\n{log}" for number, log in logs.items() if log)

    def _name(self, rank: Rank) -> str:
        return f"rank {rank.number} of {self.world}: " if self.world > 1 else ""

    def _dead(self, rank: Rank) -> LostError:
        if not rank.garbled:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.process.wait(10)
        culprit = self._killed() or rank
        return LostError("crashed", f"{self._name(culprit)}{culprit.epitaph()}, at {culprit.at}")

    def _failed(self, rank: Rank, told: dict[str, Any]) -> LostError:
        """A rank failed; or did it see another one die?"""
        if self.world > 1:
            until = time.monotonic() + GRACE_S
            while self._killed() is None and time.monotonic() < until:
                time.sleep(0.05)
            dead = self._killed()
            if dead is not None:
                return self._dead(dead)
        why = str(told.get("why", "")).rstrip(".")
        code, everywhere = str(told.get("code", "")), bool(told.get("everywhere"))
        # What a whole gang is refused, no rank in particular is.
        why = why if code else f"{self._name(rank)}{why}"
        return LostError(cast(Outcome, told["outcome"]), why, everywhere=everywhere, code=code)

    def _killed(self) -> Rank | None:
        """A rank that a signal ended, if there is one."""
        return next((rank for rank in self._ranks if (rank.process.poll() or 0) < 0), None)

    def _silent(self, limit_s: float, answered: Sequence[int] | Any) -> LostError:
        silent = [rank for rank in self._ranks if rank.number not in answered]
        if self.world == 1:
            return LostError("timeout", f"no answer within {limit_s:g} s, at {silent[0].at}")
        where = ", ".join(f"rank {rank.number} at {rank.at}" for rank in silent)
        return LostError(
            "timeout", f"no answer within {limit_s:g} s from {len(silent)} of {self.world} ranks: {where}"
        )
