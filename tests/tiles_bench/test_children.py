import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiles_bench.conftest import alive, wait_until_gone
from workers.bench.tiles import children

ENV = {"PATH": "/usr/bin:/bin"}


def test_output_and_status_come_back(tmp_path: Path) -> None:
    ended = children.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], folder=tmp_path, env=ENV)
    assert (ended.returncode, ended.stdout, ended.stderr, ended.timed_out) == (3, "out\n", "err\n", False)


def test_a_signal_is_told(tmp_path: Path) -> None:
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM):
        ended = children.run(["/bin/sh", "-c", f"kill -{int(number)} $$"], folder=tmp_path, env=ENV)
        assert ended.returncode == -number


def test_a_missing_command_is_status_127(tmp_path: Path) -> None:
    ended = children.run(["/nonexistent/nvcc"], folder=tmp_path, env=ENV)
    assert ended.returncode == 127
    assert "No such file" in ended.stderr


def test_time_over_takes_the_whole_group(tmp_path: Path) -> None:
    started = time.monotonic()
    script = "sleep 60 & echo $!; wait"
    ended = children.run(["/bin/sh", "-c", script], folder=tmp_path, env=ENV, timeout=0.5)
    assert ended.timed_out and time.monotonic() - started < 10
    wait_until_gone(int(ended.stdout))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_bench(tmp_path: Path, how: signal.Signals) -> None:
    script = (
        "import sys; from pathlib import Path; from workers.bench.tiles import children; "
        "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); "
        # whoever runs the tests in the background has them inherit that SIGINT is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "children.run(['/bin/sh', '-c', 'sleep 60 & echo $! > grandchild; wait'], "
        f"folder=Path({str(tmp_path)!r}), env={ENV!r})"
    )
    bench = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    grandchild = tmp_path / "grandchild"
    deadline = time.monotonic() + 20
    while not (grandchild.exists() and grandchild.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int(grandchild.read_text())
    assert alive(pid)
    os.kill(bench.pid, how)
    bench.wait(10)
    wait_until_gone(pid)
