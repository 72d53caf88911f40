"""One child process: watched, bounded, and ended with all it started."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from benchapp.runs import work
from tests.workers.conftest import alive, until
from workers import child
from workers.failure import Failure


def run(folder: Path, script: str, *, timeout_s: float = 60, tick=lambda progress, log: None) -> None:
    command = [sys.executable, "-c", script]
    child.run(command, folder=folder, timeout_s=timeout_s, tick=tick, extra_environment={})


def test_a_child_past_its_time_is_ended_and_says_so(tmp_path: Path):
    said: list[str] = []
    with pytest.raises(Failure, match="still running after its limit of 1 s"):
        run(
            tmp_path,
            "print('here', flush=True); import time; time.sleep(60)",
            timeout_s=1,
            tick=lambda progress, log: said.append(log),
        )
    assert "here" in "".join(said)


def test_progress_lines_that_are_no_progress_are_passed_over(tmp_path: Path):
    lines = [
        "nonsense",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({"done": -5, "total": 10**30, "message": "half a character: \ud800"}),
        json.dumps({"done": "Infinity", "total": 1e999, "message": "m"}),
    ]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    seen: list[object] = []
    run(
        tmp_path,
        "import os; os.rename('lines', 'progress')",
        tick=lambda progress, log: seen.append(progress),
    )
    assert seen[-1] == work.Progress(0, 2**31 - 1, "half a character: ?")


ESCAPE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # its parent ends, so nobody in the family knows it any more
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            open(f"pid{number}", "w").write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
open("pid", "w").write(str(os.getpid()))
while not all(os.path.exists(f"pid{number}") for number in range(3)):
    time.sleep(0.01)
print("all", flush=True)
if sys.argv[1:] == ["stay"]:
    time.sleep(600)
"""


class EnoughError(Exception):
    pass


@pytest.mark.parametrize("stay", [True, False])
def test_nothing_that_a_child_started_lives_on(tmp_path: Path, stay: bool):
    """Whether it is ended or ends by itself, and whatever its descendants did to get away."""

    def tick(progress: object, log: str) -> None:
        if stay and "all" in log:
            raise EnoughError

    script = ESCAPE.replace('sys.argv[1:] == ["stay"]', str(stay))
    if stay:
        with pytest.raises(EnoughError):
            run(tmp_path, script, tick=tick)
    else:
        run(tmp_path, script, tick=tick)
    pids = [int(path.read_text()) for path in tmp_path.glob("pid*")]
    assert len(pids) == 4
    assert not any(alive(pid) for pid in pids)


def test_a_child_that_prints_without_end_is_ended_while_postgres_keeps_its_worker_waiting(tmp_path: Path):
    def slow(progress: object, log: str) -> None:
        time.sleep(1)

    with pytest.raises(Failure, match="printed more than 67,108,864 bytes") as failed:
        run(
            tmp_path,
            "import os\nfor _ in range(1 << 20): os.write(1, b'x' * (1 << 20))",
            tick=lambda progress, log: slow(progress, log) if not log else None,
        )
    assert failed.value.code == "log_limit"
    assert (tmp_path / "log").stat().st_size < 2**30


def test_a_file_larger_than_the_user_may_write_is_said(tmp_path: Path):
    script = (
        "import os, resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
        "os.execvp('dd', ['dd', 'if=/dev/zero', 'of=large', 'bs=65536', 'count=4'])"
    )
    with pytest.raises(Failure, match=r"killed by SIGXFSZ; a file reached the size .* \(ulimit -f\)"):
        run(tmp_path, script)


def test_a_program_that_is_missing_is_named_in_the_log(tmp_path: Path):
    with pytest.raises(Failure, match="exit code 127"):
        child.run(
            [str(tmp_path / "python")],
            folder=tmp_path,
            timeout_s=10,
            tick=lambda progress, log: None,
            extra_environment={},
        )
    assert "No such file" in (tmp_path / "log").read_text()


def test_a_keeper_that_is_killed_takes_its_child_with_it(tmp_path: Path):
    pids: list[int] = []

    def kill(progress: object, log: str) -> None:
        if "pids" in log:
            pids.extend(int(word) for word in log.split()[1:3])
            os.kill(pids[1], signal.SIGKILL)

    with pytest.raises(Failure, match="killed by SIGKILL"):
        run(
            tmp_path,
            "import os, time; print('pids', os.getpid(), os.getppid(), flush=True); time.sleep(600)",
            tick=kill,
        )
    until(lambda: not alive(pids[0]), what="the end of the child")
