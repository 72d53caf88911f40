"""The GEMM benchmark as a worker runs it: real environment, real torch, real document."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Measurement, Run, State
from benchapp.runs.queues import CPU as CPU_QUEUE
from benchapp.runs.requests import CPU_TORCH
from tests.workers.conftest import becomes
from workers.bench.cases.gemm import Gemm as Case

Launch = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def home(tmp_path: Path, torch_python: Path) -> Path:
    (tmp_path / "envs").symlink_to(torch_python.parents[2])
    return tmp_path


@pytest.mark.slow
def test_cases_are_measured_checked_and_stored(worker: Launch, control: Launch):
    worker()
    control()
    cases = [Case(m, 64, 128, dtype).params for dtype in ("bf16", "fp32") for m in (1, 16)]
    request = Request(
        Run.Kind.GEMM,
        "a test",
        CPU_QUEUE,
        {"torch": CPU_TORCH},
        {"device": "cpu", "cases": cases},
        needs_environment=True,
    )
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    becomes(run, State.DONE, seconds=240)
    rows = list(Measurement.objects.filter(run=run).select_related("series__case", "stack"))
    assert [row.outcome for row in rows] == ["ok"] * 4
    for row in rows:
        assert row.series.case.params in cases
        assert row.median > 0
        assert row.cosine > 0.999
        assert row.nan_count == 0
        assert row.stack.components["torch"].startswith(CPU_TORCH)
    assert "4 cases, 4 ok" in run.documents.get().facts["summary"]
