"""What a host tells of itself, and what it does where it cannot."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import tomllib
from pathlib import Path

import pytest
from django.db import OperationalError

from benchapp.fleet import payload
from benchapp.fleet.models import Report
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from tests.host.conftest import REPOSITORY
from tests.simulated.pynvml import gpu
from workers import execute, identity, lease, presence, report
from workers.chores import Chores, Patience
from workers.version import VERSION

FIRST, SECOND, THIRD = (gpu(index)["uuid"] for index in range(3))
ENVIRONMENT = "0123456789abcdef"


@pytest.fixture
def chores(host: Path, settings) -> Chores:
    """Of a host whose plan serves the first two GPUs."""
    settings.HOME = host
    (host / "run").mkdir(parents=True)
    served = [
        {"name": "gpu0", "kind": "gpu", "queues": [f"gpu.uuid.{FIRST}"], "gpu": FIRST, "cores": "0-3"},
        {"name": "gpu1", "kind": "gpu", "queues": [f"gpu.uuid.{SECOND}"], "gpu": SECOND, "cores": "4-7"},
    ]
    plan = {"started_at": "2026-11-29T10:00:00+00:00", "labels": {"rack": "b4"}, "workers": served}
    (host / "run" / "workers.json").write_text(json.dumps(plan))
    return Chores(host)


def sent() -> payload.Report:
    """The newest report, as the fleet reads it."""
    row = Report.objects.get()
    return payload.parse(row.payload, row.worker)


@pytest.mark.django_db
def test_a_report_says_how_the_host_is(chores, nvml):
    (chores.home / "envs" / ENVIRONMENT / "bin").mkdir(parents=True)
    mine = {"pid": os.getpid(), "memory_bytes": 5}
    nvml(gpu(0, processes=[mine, {"pid": 1, "memory_bytes": 6}]), gpu(1), gpu(2))
    chores.look()
    chores.report()
    said = sent()
    assert (said.host, said.installation) == (identity.host_name(), identity.installation_key())
    assert (said.version, said.labels, said.nvml, said.missing) == (VERSION, {"rack": "b4"}, "", [])
    assert said.queues == [f"gpu.uuid.{FIRST}", f"gpu.uuid.{SECOND}"]
    assert [(each.uuid, each.served, each.cores) for each in said.gpus][:2] == [
        (FIRST, True, "0-3"),
        (SECOND, True, "4-7"),
    ]
    assert not said.gpus[2].served
    assert [(each.pid, each.ours) for each in said.gpus[0].processes] == [(os.getpid(), True), (1, False)]
    assert said.facts.driver == "580.95.05"
    assert said.facts.cpus and said.facts.memory_bytes
    assert list(said.environments) == [ENVIRONMENT]
    assert said.disk.free_bytes and said.disk.budget_bytes is None


@pytest.mark.django_db
def test_a_gpu_that_fell_off_is_missing_and_its_xid_stays_told(chores, nvml):
    nvml(gpu(0), gpu(1))
    chores.report()
    nvml(gpu(0, xids=[79]))
    chores.report()
    chores.report()
    said = sent()
    assert said.missing == [SECOND]
    assert presence.why_not(chores.home, SECOND) == "the driver no longer shows this GPU"
    assert presence.why_not(chores.home, FIRST) == ""
    assert [(each.uuid, each.code) for each in said.xids] == [(FIRST, 79)]


@pytest.mark.django_db
def test_a_driver_that_does_not_answer_is_told_and_no_gpu_called_missing(chores, nvml):
    nvml(error=18)
    chores.report()
    assert sent().nvml.startswith("NVML says: ")
    assert sent().missing == []
    assert presence.why_not(chores.home, FIRST) == sent().nvml


@pytest.mark.django_db
def test_who_holds_a_gpu_is_told_only_while_it_is_held(chores, nvml):
    nvml(gpu(0))
    with lease.gpus([FIRST], lease.note("gpu-1a2b@boxa/k3jd82ks", "run 12"), lambda *_: None):
        chores.report()
        assert sent().gpus[0].holder == "run 12 of gpu-1a2b@boxa/k3jd82ks"
    chores.report()
    assert sent().gpus[0].holder == ""


@pytest.mark.django_db
def test_folders_of_attempts_that_are_over_are_removed(chores):
    over = chores.home / "work" / "12-1"
    over.mkdir(parents=True)
    chores.look()
    assert not over.exists()


@pytest.mark.django_db(transaction=True)
def test_the_worker_of_a_gpu_that_fell_off_takes_no_run(chores, monkeypatch, caplog):
    monkeypatch.setenv("TILEWATCH_WORKER", "gpu")
    monkeypatch.setenv("TILEWATCH_GPU", SECOND)
    request = Request(Run.Kind.GEMM, "a test", f"gpu.uuid.{SECOND}", {"torch": "2.13.0"}, {"cases": [{}]})
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    identity.serve([run.queue])
    try:
        presence.tell(chores.home, {SECOND: "the driver no longer shows this GPU"})
        execute.work_on()
    finally:
        identity.serve([])
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)
    assert f"GPU {SECOND} takes no run: the driver no longer shows this GPU" in caplog.text


def test_what_nobody_has_told_for_long_is_not_believed(tmp_path):
    (tmp_path / "run").mkdir()
    assert presence.why_not(tmp_path, FIRST) == ""
    presence.tell(tmp_path, {FIRST: "gone"})
    assert presence.why_not(tmp_path, FIRST) == "gone"
    then = time.time() - presence.STALE_S - 1
    os.utime(tmp_path / "run" / "unusable.json", (then, then))
    assert presence.why_not(tmp_path, FIRST) == ""


def test_a_report_names_the_version_of_this_checkout():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_a_host_without_a_plan_reports_all_the_same(tmp_path):
    assert report.read_plan(tmp_path) == {"started_at": None, "labels": {}, "workers": []}


def test_a_process_knows_its_ancestors():
    assert list(report.ancestry(os.getpid()))[:2] == [os.getpid(), os.getppid()]
    assert list(report.ancestry(2**22 - 1)) == []


def test_an_outage_is_said_once_and_its_end_too(caplog):
    weather = iter([OperationalError("gone"), OperationalError("gone"), None, OperationalError("gone")])

    def chore() -> None:
        if error := next(weather):
            raise error

    patient = Patience("the report", chore)
    with caplog.at_level(logging.INFO, "workers.chores"):
        for _ in range(4):
            patient()
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in said] == ["the report"] * 3
    assert "Postgres is away" in said[0]
    assert said[1] == "the report: it works again"
    assert "Postgres is away" in said[2]


def test_no_chore_ends_of_an_error(tmp_path, caplog):
    Patience("the look at the disk", lambda: shutil.disk_usage(tmp_path / "gone"))()
    assert "the look at the disk: FileNotFoundError" in caplog.text
