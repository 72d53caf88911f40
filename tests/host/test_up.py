"""`python -m workers up` as a GPU host runs it: real workers, real servers; NVML alone is simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchapp.celery import app
from benchapp.fleet.models import Report
from tests.host.conftest import REPOSITORY
from tests.local.processes import alive, children, command_lines, descendants, wait_until
from tests.simulated.pynvml import gpu

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
FIRST = gpu(0)["uuid"]


@pytest.fixture
def running(host: Path, nvml, child_environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    nvml(gpu(0, cpus=[min(os.sched_getaffinity(0))]))
    host.mkdir()
    own = ("PYTHONPATH", "SIMULATED_NVML", "TILEWATCH_HOME", "TILEWATCH_LEASES")
    with (host / "out").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers", "up", "--labels", "rack=b4"],
            cwd=REPOSITORY,
            env=child_environment | {name: os.environ[name] for name in own},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    yield process
    process.kill()
    process.wait()


def pid_of(process: subprocess.Popen[bytes], name: str) -> int:
    (found,) = (child for child in children(process.pid) if f"{name}@" in command_lines({child}))
    return found


def test_a_host_works_reports_keeps_its_workers_up_and_stops(running, host):
    def ready(name: str) -> bool:
        log = host / "log" / f"{name}.log"
        return log.exists() and "ready." in log.read_text()

    assert wait_until(lambda: all(map(ready, ("gpu0", "build", "cpu", "chores"))), 90), (
        host / "out"
    ).read_text()
    assert wait_until(Report.objects.exists, 60)
    said = Report.objects.get().payload
    assert [worker["name"] for worker in said["workers"]] == ["gpu0", "build", "cpu", "chores"]
    assert (said["labels"], [each["served"] for each in said["gpus"]]) == ({"rack": "b4"}, [True])

    app.send_task("workers.collect", queue=f"chores.{said['installation']}")
    log = host / "log" / "chores.log"
    assert wait_until(lambda: "Task workers.collect[" in log.read_text(), 20)
    assert wait_until(lambda: " succeeded in " in log.read_text(), 20), log.read_text()

    worker = pid_of(running, "gpu0")
    environment = Path(f"/proc/{worker}/environ").read_text().split("\0")
    assert {f"CUDA_VISIBLE_DEVICES={FIRST}", f"TILEWATCH_GPU={FIRST}", "TILEWATCH_WORKER=gpu"} <= {
        *environment
    }
    for process in {worker, *descendants(worker)}:
        assert os.sched_getaffinity(process) == {min(os.sched_getaffinity(0))}
    assert "CUDA_VISIBLE_DEVICES=" in Path(f"/proc/{pid_of(running, 'build')}/environ").read_text().split(
        "\0"
    )

    second = subprocess.run(
        [sys.executable, "-m", "workers", "up"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"they run already on {host}, under process {running.pid}" in second.stderr

    os.kill(worker, signal.SIGKILL)
    assert wait_until(lambda: "gpu0 stopped (signal SIGKILL)" in (host / "out").read_text(), 20)
    assert wait_until(lambda: {pid for pid in children(running.pid) if "gpu0@" in command_lines({pid})}, 20)

    below = descendants(running.pid)
    running.terminate()
    assert running.wait(30) == 0
    assert wait_until(lambda: not alive(below), 5), command_lines(alive(below))
