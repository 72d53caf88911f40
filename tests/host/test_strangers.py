"""Who is a stranger on a GPU, in a report: neither our children nor another installation under its lease."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers import lease, report

GPU = "GPU-11111111-1111-1111-1111-111111111111"
NOBODY = 2**22 + 1


def processes(*, supervisor: int) -> list[bool]:
    gpu = {"uuid": GPU, "cores": "", "processes": [{"pid": os.getpid(), "name": "python", "memory_bytes": 1}]}
    found = {"nvml": "", "driver": "", "gpus": [gpu], "lost": [], "xids": []}
    told = report.payload(
        {"workers": [], "labels": {}, "started_at": None},
        found,
        supervisor=supervisor,
        xids=[],
        disk={},
        environments=[],
    )
    return [process["ours"] for process in told["gpus"][0]["processes"]]


@pytest.fixture(autouse=True)
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWATCH_LEASES", str(tmp_path))


def test_what_runs_below_our_supervisor_is_ours():
    assert processes(supervisor=os.getppid()) == [True]
    assert processes(supervisor=NOBODY) == [False]


def test_another_installation_that_holds_the_lease_is_no_stranger_while_it_does():
    with lease.gpus([GPU], lease.note("gpu-11111111@boxa/other", "run 7"), lambda uuid, who: None):
        assert processes(supervisor=NOBODY) == [True]
    assert processes(supervisor=NOBODY) == [False]
