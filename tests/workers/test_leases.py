"""Leases of cores and GPUs between processes, as two installations of one host would take them."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workers.conftest import REPOSITORY, alive, until
from workers import lease
from workers.failure import Failure


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWATCH_LEASES", str(tmp_path / "leases"))
    return tmp_path / "leases"


Python = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def python() -> Iterator[Python]:
    """Start a script in a process of its own; all are gone after the test."""
    started = []

    def begin(script: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def says(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == line + b"\n"


HOLD_CORES = """
import os, sys, time
from workers import lease
os.sched_setaffinity(0, set(map(int, sys.argv[2].split(","))))
said = []
def waiting():
    if not said:
        said.append(print("waiting", flush=True))
with lease.cores(alone=sys.argv[1] == "True", waiting=waiting):
    print("held", flush=True)
    time.sleep(600)
"""
ALL = ",".join(map(str, sorted(os.sched_getaffinity(0))))


class WaitedError(Exception):
    pass


def waited(*args: object) -> None:
    raise WaitedError


@pytest.mark.parametrize(
    ("theirs", "ours", "had"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, False)],
)
def test_compiles_share_the_cores_and_a_measurement_has_them_alone(
    python: Python, theirs: bool, ours: bool, had: bool
):
    other = python(HOLD_CORES, theirs, ALL)
    says(other, b"held")
    if had:
        with lease.cores(alone=ours, waiting=waited):
            pass
    else:
        with pytest.raises(WaitedError), lease.cores(alone=ours, waiting=waited):
            pass
    other.kill()
    other.wait()
    with lease.cores(alone=True, waiting=waited):
        pass  # freed by the death of its holder


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
def test_processes_without_a_core_in_common_never_wait(python: Python):
    first, second, *_ = sorted(os.sched_getaffinity(0))
    one, other = python(HOLD_CORES, True, first), python(HOLD_CORES, True, second)
    says(one, b"held")
    says(other, b"held")
    both = python(HOLD_CORES, False, f"{first},{second}")
    says(both, b"waiting")
    one.kill()
    one.wait()
    other.kill()
    says(both, b"held")


def test_a_waiting_measurement_is_passed_by_no_compile(python: Python):
    compile_ = python(HOLD_CORES, False, ALL)
    says(compile_, b"held")
    measurement = python(HOLD_CORES, True, ALL)
    says(measurement, b"waiting")
    with pytest.raises(WaitedError), lease.cores(alone=False, waiting=waited):
        pass
    compile_.kill()
    says(measurement, b"held")


GPUS = """
import sys, time
from workers import lease
uuids, times, note = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
for _ in range(times):
    with lease.gpus(uuids, lease.note("gpu@boxa/k3jd82ks", note), lambda *args: None):
        began = time.monotonic()
        time.sleep(0.02)
        print(f"{sys.argv[1]} {began} {time.monotonic()}", flush=True)
"""


def test_a_gang_beside_runs_of_one_gpu_takes_its_turn_and_no_two_hold_one_gpu(python: Python):
    workers = [python(GPUS, gpus, 8, "run 1") for gpus in ("GPU-b,GPU-a", "GPU-a,GPU-b", "GPU-a", "GPU-b")]
    held = [line.split() for worker in workers for line in worker.communicate()[0].decode().splitlines()]
    assert len(held) == 4 * 8
    for gpu in ("GPU-a", "GPU-b"):
        intervals = sorted((float(began), float(ended)) for gpus, began, ended in held if gpu in gpus)
        assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(intervals))


def test_whoever_waits_for_a_gpu_is_told_who_has_it(python: Python):
    holder = python(GPUS.replace("0.02", "600"), "GPU-a", 1, "run 12")
    until(lambda: lease.holder("GPU-a") != "", what="the note")

    def told(uuid: str, by_whom: str) -> None:
        assert (uuid, by_whom) == ("GPU-a", "run 12 of gpu@boxa/k3jd82ks")
        raise WaitedError

    with pytest.raises(WaitedError), lease.gpus(["GPU-b", "GPU-a"], "", told):
        pass
    holder.kill()
    holder.wait()
    with lease.gpus(["GPU-a"], "", waited):
        pass


WITH_CHILD = """
import subprocess, time
from workers import lease
with lease.gpus(["GPU-a"], "", None) as gpus, lease.cores(alone=True, waiting=None) as cores:
    print(subprocess.Popen(["sleep", "600"], pass_fds=(*gpus, cores)).pid, flush=True)
    time.sleep(600)
"""


def test_a_lease_ends_with_the_child_and_not_with_the_worker(python: Python):
    worker = python(WITH_CHILD)
    assert worker.stdout is not None
    child = int(worker.stdout.readline())
    try:
        worker.kill()
        worker.wait()
        assert alive(child)
        with pytest.raises(WaitedError), lease.gpus(["GPU-a"], "", waited):
            pass
        with pytest.raises(WaitedError), lease.cores(alone=False, waiting=waited):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 30

    def waiting(*args: object) -> None:
        assert time.monotonic() < deadline

    with lease.gpus(["GPU-a"], "", waiting), lease.cores(alone=True, waiting=lambda: waiting()):
        pass


def test_every_user_may_take_a_lease_and_nobody_follows_a_link(folder: Path, tmp_path: Path):
    before = os.umask(0o077)
    try:
        with lease.gpus(["GPU-a"], "", waited), lease.cores(alone=True, waiting=waited):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o666}
    (tmp_path / "precious").write_text("as it was")
    (folder / "gpu-GPU-b").symlink_to(tmp_path / "precious")
    refused = pytest.raises(Failure, match=r"gpu-GPU-b cannot be used: .* \(TILEWATCH_LEASES names it\)")
    with refused, lease.gpus(["GPU-b"], "a note", waited):
        pass
    assert (tmp_path / "precious").read_text() == "as it was"


def test_a_folder_that_is_none_is_said(folder: Path):
    folder.write_text("")
    with pytest.raises(Failure, match="it is no folder"), lease.cores(alone=True, waiting=waited):
        pass
