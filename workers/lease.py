"""File locks of a host: who may use its cores and its GPUs, and what one process alone may do at a time.

Leases lie in one folder of the host, so that installations, users and containers which share it take turns.
The kernel frees a lock when the last process that inherited its descriptor ends, however it ends. Whoever
waits is next in line, which a second lock says, so that nobody is passed over for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workers.failure import Failure

POLL_S = 0.2
FOLDER, FALLBACK = Path("/run/lock/tilewatch"), Path("/tmp/tilewatch-locks")  # noqa: S108 - checked below
NOTE_BYTES = 400
#: In the file `cores`, byte n is core n, and byte n + NEXT whoever is next to have it.
NEXT = 1 << 20

Spans = Sequence[tuple[int, int]]


def folder() -> Path:
    """Of all leases of this host: TILEWATCH_LEASES, else one that every user finds. Raises Failure."""
    asked = os.environ.get("TILEWATCH_LEASES")
    candidates = [Path(asked)] if asked else [FOLDER, FALLBACK]
    for path in candidates:
        try:
            with _open_to_all():
                path.mkdir(mode=0o1777, parents=bool(asked))
        except FileExistsError:
            pass
        except OSError:
            continue
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise _unusable(path, "it is no folder")
        if not os.access(path, os.W_OK | os.X_OK):
            raise _unusable(path, "its mode must be 1777, so that each user's workers see the others' leases")
        return path
    raise _unusable(candidates[-1], "it cannot be made")


def _unusable(path: Path, why: str) -> Failure:
    return Failure(
        "leases", f"The folder of leases {path} cannot be used: {why} (TILEWATCH_LEASES names it)."
    )


@contextlib.contextmanager
def _open_to_all() -> Iterator[None]:
    """Modes as asked for. Set at once by the kernel: a mode changed later would be seen too narrow before."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def _open_shared(path: Path) -> int:
    """A file of all users. Never through a link, which in a folder of all users may lead anywhere."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            # without O_CREAT: fs.protected_regular refuses that for another user's file in such a folder
            return _regular(path, os.open(path, flags))
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError), _open_to_all():
                return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from None


def _regular(path: Path, descriptor: int) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "it is no regular file")
    return descriptor


def _until(taken: Callable[[], bool], waiting: Callable[[], None]) -> None:
    while not taken():
        waiting()
        time.sleep(POLL_S)


def _spans(numbers: Iterable[int]) -> Spans:
    """Whole numbers as (first, length) of each gapless stretch, ascending."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and sum(spans[-1]) == number:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number, 1))
    return spans


def _lock(descriptor: int, kind: int, span: tuple[int, int]) -> bool:
    """An open file description lock, which whoever inherits the descriptor shares. False: others hold it."""
    order = struct.pack("hhqqi4x", kind, os.SEEK_SET, *span, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, order)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock_all(descriptor: int, kind: int, spans: Spans) -> bool:
    """All or none, ascending, so that of two who want the same one always gets on."""
    for number, span in enumerate(spans):
        if not _lock(descriptor, kind, span):
            for held in spans[:number]:
                _lock(descriptor, fcntl.F_UNLCK, held)
            return False
    return True


@contextlib.contextmanager
def cores(*, alone: bool, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the cores that this process may run on: compiles share them, a measurement has them alone.

    Processes with no core in common never wait for one another. Yields the descriptor for the child that does
    the work, so that the lease lasts as long as the child does, even when the worker that started it is gone.
    `waiting` is called several times a second until the lease is had; whatever it raises ends the wait.
    Raises Failure where leases cannot be had here.
    """
    mine = _spans(os.sched_getaffinity(0))
    turn = [(first + NEXT, length) for first, length in mine]
    descriptor = _open_shared(folder() / "cores")
    try:
        _until(lambda: _lock_all(descriptor, fcntl.F_WRLCK, turn), waiting)
        kind = fcntl.F_WRLCK if alone else fcntl.F_RDLCK
        _until(lambda: _lock_all(descriptor, kind, mine), waiting)
        _lock_all(descriptor, fcntl.F_UNLCK, turn)
        yield descriptor
    finally:
        os.close(descriptor)


def file_of(uuid: str) -> Path:
    """Whose lock is the lease of a GPU. Raises Failure."""
    return folder() / f"gpu-{uuid.replace('/', '_')}"


@contextlib.contextmanager
def gpus(uuids: Iterable[str], note: str, waiting: Callable[[str, str], None]) -> Iterator[tuple[int, ...]]:
    """Hold GPUs by UUID, each alone. All take them in the order of their names, so no two wait in a ring.

    `note` says to others who holds them. `waiting` is called several times a second with the UUID that is
    waited for and its holder's note ("" where unknown); whatever it raises ends the wait. Yields descriptors
    for the child, as `cores` does. Raises Failure where leases cannot be had here.
    """
    with contextlib.ExitStack() as stack:
        held = []
        for uuid in sorted(uuids):
            path = file_of(uuid)
            with _flock(path.with_name(path.name + ".next"), lambda uuid=uuid: waiting(uuid, holder(uuid))):  # type: ignore[misc]
                held.append(stack.enter_context(_flock(path, lambda uuid=uuid: waiting(uuid, holder(uuid)))))  # type: ignore[misc]
            with contextlib.suppress(OSError):  # a full disk: the lease holds without a note
                os.ftruncate(held[-1], 0)
                os.pwrite(held[-1], note.encode()[:NOTE_BYTES], 0)
        yield tuple(held)


@contextlib.contextmanager
def _flock(path: Path, waiting: Callable[[], None]) -> Iterator[int]:
    descriptor = _open_shared(path)
    try:
        _until(lambda: _try(descriptor), waiting)
        yield descriptor
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def note(worker: str, run: str) -> str:
    """What a holder leaves for others to read."""
    return json.dumps({"worker": worker, "pid": os.getpid(), "run": run})


def holder(uuid: str) -> str:
    """Who holds a GPU, or last held it, by its own word: "run 12 of gpu-1a2b3c4d@boxa/k3jd82ks"."""
    told = _noted(uuid)
    return f"{told['run']} of {told['worker']}"[:200] if {"run", "worker"} <= told.keys() else ""


def holding_pid(uuid: str) -> int:
    """The process that took a GPU's lease last; 0 where that is not known."""
    pid = _noted(uuid).get("pid")
    return pid if isinstance(pid, int) else 0


def _noted(uuid: str) -> dict[str, Any]:
    try:
        descriptor = _open_shared(file_of(uuid))
        try:
            told = json.loads(os.pread(descriptor, NOTE_BYTES, 0))
        finally:
            os.close(descriptor)
    except (Failure, OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


@contextlib.contextmanager
def only_one(path: Path, *, wait: bool) -> Iterator[bool]:
    """Be the only process inside; without `wait`, yields False at once where another one is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
