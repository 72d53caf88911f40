"""Whole models as a worker runs them: a gang of real ranks, on CPUs, ended as one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchapp.people.models import User
from benchapp.runs.actions import cancel
from benchapp.runs.models import Job, Measurement, Run, State
from benchapp.runs.requests import request_cpu_models
from tests.workers.conftest import alive, becomes, until
from workers import lease
from workers.bench.cases.model import Decode

Launch = Callable[[], "subprocess.Popen[bytes]"]
#: Two models, so two gangs one after the other.
FIRST, SECOND = Decode("tiny-gqa", 2, 8, 3, 2, 1, "bf16"), Decode("tiny-mla", 2, 8, 3, 2, 1, "bf16")


@pytest.fixture
def home(tmp_path: Path, torch_python: Path) -> Path:
    (tmp_path / "envs").symlink_to(torch_python.parents[2])
    return tmp_path


def ask() -> Run:
    return request_cpu_models((FIRST, SECOND), user=None, source=Job.Source.COMMAND)[0]


def ranks(home: Path) -> dict[int, int]:
    """Rank → process, of the gang at work in this home."""
    found = {}
    for at in Path("/proc").glob("[0-9]*"):
        try:
            words = (at / "cmdline").read_bytes().decode().split("\0")
            environment = (at / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "workers.bench.moe.rank" in words and str(home) in environment:
            found[int(words[words.index("workers.bench.moe.rank") + 2])] = int(at.name)
    return found


def gang_of(home: Path, before: dict[int, int] | None = None) -> dict[int, int]:
    """Both ranks of the next gang; `before` is the one that it follows."""
    found: dict[int, int] = {}

    def there() -> bool:
        found.update(ranks(home))
        return len(found) == 2 and not set(found.values()) & set((before or {}).values())

    until(there, 300, "a gang")
    return found


def cores_are_free() -> bool:
    def taken() -> None:
        raise BlockingIOError

    try:
        with lease.cores(alone=True, waiting=taken):
            return True
    except BlockingIOError:
        return False


@pytest.mark.slow
def test_a_rank_that_dies_ends_its_gang_and_a_cancelled_gang_leaves_nobody(
    worker: Launch, control: Launch, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TILEWATCH_LEASES", str(home / "leases"))
    worker()
    control()
    run = ask()
    first = gang_of(home)
    second = gang_of(home, first)
    assert not cores_are_free() and not any(alive(pid) for pid in first.values())
    os.kill(second[1], signal.SIGKILL)
    becomes(run, State.DONE, seconds=300)
    measured = {
        row.series.case.params["model"]: row
        for row in Measurement.objects.select_related("series__case").filter(run=run)
    }
    good, lost = measured["tiny-gqa"], measured["tiny-mla"]
    assert (good.outcome, len(good.facts["rank_medians"])) == ("ok", 2)
    assert good.facts["tokens"] == 2 * good.facts["steps"]
    assert (lost.outcome, "rank 1 of 2" in lost.error) == ("crashed", True), lost.error
    assert not any(alive(pid) for pid in second.values())
    until(cores_are_free, 30, "the lease was freed")

    run = ask()
    gang = gang_of(home)
    cancel(run, User.objects.create_user("olga", password="x"))
    becomes(run, State.CANCELLED, seconds=60)
    assert not any(alive(pid) for pid in gang.values())
    until(cores_are_free, 30, "the lease was freed")
    assert not run.documents.exists()
