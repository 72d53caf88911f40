"""An A/B through a real worker: two environments, one child after the other, a stored comparison."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchapp.alerts.models import Comparison
from benchapp.runs.actions import request_run
from benchapp.runs.models import Job, Run, State
from benchapp.runs.requests import confirm
from tests.confirm.sides import SMALL, around, side
from tests.workers.conftest import becomes
from workers.environments import location

Launch = Callable[[], "subprocess.Popen[bytes]"]
OLD, NEW = {"torch": "2.12.0"}, {"torch": "2.13.0"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for versions, middle in ((OLD, 1e-3), (NEW, 1.1e-3)):
        folder = location(tmp_path / "envs", versions) / "bin"
        folder.mkdir(parents=True)
        side(folder, "python", *around(middle))
    return tmp_path


def test_an_ab_is_measured_in_both_environments_and_stored(worker: Launch, control: Launch, home: Path):
    worker()
    control()
    homeless = confirm([SMALL], bench="gemm", old={"torch": "2.10.0"}, new=NEW)
    waiting, _ = request_run(homeless, user=None, source=Job.Source.COMMAND)
    request = confirm([SMALL], bench="gemm", old=OLD, new=NEW, backends=["torch.mm"], margin=0.02)
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    becomes(run, State.DONE)
    said = Comparison.objects.get(run=run)
    assert (said.verdict, said.pairs, said.metric, said.backend) == ("SLOW", 5, "time", "torch.mm")
    assert said.low < 1.1 < said.high
    command = run.documents.get().facts["command"]
    assert command[command.index("--old-name") + 1] == "2.12.0"
    assert command[command.index("--margin") + 1] == "0.02"
    assert Run.objects.get(pk=waiting.pk).state == State.QUEUED, "one of its environments is not there"
    for versions in (OLD, NEW):
        assert (location(home / "envs", versions) / "bin" / "turns").read_text().count("\n") == 5
