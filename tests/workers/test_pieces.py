"""One run in this very process as its worker: what it holds, what it waits for, how it ends."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection

from benchapp.fleet.models import Candidate
from benchapp.runs import work
from benchapp.runs.models import Attempt, Document, Run, State
from tests.workers.conftest import ask, claim, good_document, request
from workers import candidates, child, environments, execute, foreign, identity, postgres
from workers.failure import Failure
from workers.identity import Identity
from workers.ticker import LostError, Ticker

CASE = {"document": good_document()}


def do(me: Identity) -> Run:
    """Claim a run and see it end."""
    run = claim(me)
    execute.execute(run, me)
    return Run.objects.get(pk=run.run_id)


@pytest.fixture
def on_gpu(here: Identity) -> Identity:
    return dataclasses.replace(here, role="gpu", queues=("gpu.uuid.GPU-b",), gpu="GPU-b")


def gpu_run(**more: Any) -> Run:
    case = more.pop("case", CASE)
    params = {"device": "cuda", "cases": [case], **more.pop("params", {})}
    return request("gpu.uuid.GPU-b", params, **more)


def test_a_worker_has_one_name_for_all_its_queues(monkeypatch: pytest.MonkeyPatch, settings, tmp_path: Path):
    settings.HOME = tmp_path
    monkeypatch.setattr(identity, "_served", ("build.k3jd82ks", "build"))
    monkeypatch.setenv("TILEWATCH_HOST_NAME", "boxa")
    key = identity.installation_key()
    assert identity.current().name == f"build@boxa/{key}"
    monkeypatch.setenv("TILEWATCH_WORKER", "gpu")
    monkeypatch.setenv("TILEWATCH_GPU", "GPU-1a2b3c4d-0000-0000-0000-000000000000")
    assert identity.current().name == f"gpu-1a2b3c4d@boxa/{key}"
    for variable, value in (
        ("TILEWATCH_GPU", "0"),
        ("TILEWATCH_HOST_NAME", "a/b"),
        ("TILEWATCH_WORKER", "x y"),
    ):
        with monkeypatch.context() as wrong:
            wrong.setenv(variable, value)
            with pytest.raises(ImproperlyConfigured, match=f"^{variable}: expected"):
                identity.current()


def test_what_was_held_is_recorded(here: Identity, on_gpu: Identity):
    ask(**CASE, number=1)
    do(here)
    gpu_run(gpus=("GPU-b", "GPU-a"), case={**CASE, "document": good_document(2)})
    do(on_gpu)
    on_cpu, gang = Attempt.objects.order_by("pk")
    assert (on_cpu.gpus, gang.gpus) == ([], ["GPU-a", "GPU-b"])
    for attempt in (on_cpu, gang):
        assert attempt.started_at <= attempt.lease_from < attempt.lease_to <= attempt.ended_at
    assert "'CUDA_VISIBLE_DEVICES'" in gang.log


def test_a_worker_without_a_gpu_measures_on_none(on_gpu: Identity):
    gpu_run()
    run = do(dataclasses.replace(on_gpu, gpu=""))
    assert (run.state, run.failure_code) == (State.FAILED, "no_gpu")


@pytest.mark.parametrize(("policy", "state"), [("refuse", State.FAILED), ("flag", State.DELIVERED)])
def test_somebody_else_on_the_gpu_is_waited_for_and_named(
    on_gpu: Identity, monkeypatch: pytest.MonkeyPatch, policy: str, state: str
):
    monkeypatch.setattr(foreign, "processes", lambda gpu: [{"pid": 4711, "name": "python3"}])
    gpu_run(params={"foreign": policy, "foreign_wait_s": 0.5})
    run = do(on_gpu)
    assert run.state == state
    if policy == "refuse":
        words = "GPU GPU-b is in use by python3 (pid 4711)"
        assert run.progress_message == f"waiting: {words}"
        assert run.failure == f"{words}. It was waited for 0.5 s, and nothing is measured beside it."


def test_what_is_not_known_of_a_gpu_is_no_reason_to_wait(caplog: pytest.LogCaptureFixture):
    assert foreign.processes("GPU-of-no-host") == []
    assert "GPU GPU-of-no-host: it is not known who else uses it" in caplog.text


def test_an_environment_that_is_gone_puts_its_run_back(here: Identity, home: Path):
    ask(**CASE)
    run = claim(here)
    shutil.rmtree(home / "envs" / run.environment)
    execute.execute(run, here)
    assert Run.objects.get().state == State.QUEUED
    assert Attempt.objects.get().outcome == "its environment is gone"
    assert work.claim(here.queues, here.name, ready=environments.ready()) is None


def test_an_environment_in_use_is_not_removed(here: Identity, home: Path):
    (name,) = environments.ready()
    environment = home / "envs" / name
    with environments.in_use(environment):
        assert not environments.remove(environment)
    assert environments.remove(environment)
    assert environments.ready() == []
    assert not list((home / "envs").iterdir())


def test_at_its_time_limit_what_a_bench_has_measured_is_delivered(here: Identity):
    request("cpu", {"device": "cpu", "cases": [{"partial": good_document(), "seconds": 60}]}, time_limit_s=1)
    assert do(here).state == State.DELIVERED


def test_a_document_finished_in_the_last_second_is_kept_though_the_run_is_lost(
    here: Identity, monkeypatch: pytest.MonkeyPatch
):
    """The child ends with its document written; the beat after it hears that the run is somebody else's."""

    def finished(command: list[str], **options: object) -> None:
        Path(command[command.index("--out") + 1]).write_text(good_document())
        raise LostError

    ask()
    monkeypatch.setattr(child, "run", finished)
    run = do(here)
    assert Document.objects.get().run_id == run.pk


def test_a_run_put_back_leaves_no_document_of_half_its_work(here: Identity, monkeypatch: pytest.MonkeyPatch):
    """It would write one if it were asked to end in good order."""
    ask(partial=good_document(), seconds=60)
    run = claim(here)
    said = Ticker.__call__

    def lost(self: Ticker, progress: object, log: str) -> None:
        said(self, progress, log)  # type: ignore[arg-type]
        if "started" in log:
            raise LostError

    monkeypatch.setattr(Ticker, "__call__", lost)
    execute.execute(run, here)
    assert not Document.objects.exists()


def test_a_full_disk_is_said_in_one_sentence(here: Identity, home: Path):
    run = ask()
    folder = home / "work" / f"{run.pk}-1"
    folder.mkdir(parents=True)
    (folder / "cases.json").symlink_to("/dev/full")
    run = do(here)
    assert (run.state, run.failure_code) == (State.FAILED, "disk_full")
    assert run.failure.endswith("is full; free some space and run it again.")
    assert Attempt.objects.get().outcome == "failed"
    assert not folder.exists()


def test_a_file_size_limit_fails_the_run_and_says_so(here: Identity):
    run = ask(document="x" * 100_000)
    claimed = claim(here)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # its case list is longer
    try:
        execute.execute(claimed, here)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    run.refresh_from_db()
    assert (run.state, run.failure_code) == (State.FAILED, "disk_full")
    assert run.failure == "A file reached the size that the worker's user may write (ulimit -f)."


def test_a_worker_of_another_protocol_says_so_once_and_takes_nothing(
    here: Identity, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    ask(**CASE)
    monkeypatch.setattr(identity, "_served", ("cpu",))
    monkeypatch.setattr(execute, "_life", execute._Life())
    with monkeypatch.context() as older, caplog.at_level(logging.ERROR):
        older.setattr(work, "PROTOCOL", 0)
        execute.work_on()
        execute.work_on()
    (line,) = (record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert line.startswith(
        "No work is taken until this worker is started anew: this worker speaks protocol 0"
    )
    execute.work_on()
    assert Run.objects.get().state == State.QUEUED
    monkeypatch.setattr(execute, "_life", execute._Life())  # started anew
    execute.work_on()
    assert Run.objects.get().state == State.DELIVERED


def test_a_password_that_is_no_longer_taken_is_a_trouble_that_may_pass(
    here: Identity, monkeypatch: pytest.MonkeyPatch
):
    if not connection.settings_dict["PASSWORD"]:
        pytest.skip("this Postgres asks for no password")
    with monkeypatch.context() as expired:
        connection.close()
        expired.setitem(connection.settings_dict, "PASSWORD", "of yesterday")
        with pytest.raises(OperationalError) as refused:
            work.claim(here.queues, here.name)
    connection.close()
    assert postgres.is_trouble(refused.value)
    told = postgres.sentence(refused.value)
    assert told.startswith("Postgres does not let this worker in: ")
    assert "\n" not in told


def test_a_candidate_is_fetched_once_and_is_what_was_registered(here: Identity, home: Path):
    body = b"a wheel under test"
    sha256 = hashlib.sha256(body).hexdigest()
    folder = home / "candidates"
    with pytest.raises(Failure, match="No candidate is registered"):
        candidates.fetch(folder, here.name, sha256)
    row = Candidate.objects.create(package="flashinfer", version="1", sha256=sha256, size=18, body=b"another")
    with pytest.raises(Failure, match="another one: its digest differs"):
        candidates.fetch(folder, here.name, sha256)
    assert not list(folder.glob("*"))
    row.body = body
    row.save()
    path = candidates.fetch(folder, here.name, sha256)
    assert path.read_bytes() == body
    path.write_bytes(b"damaged since")
    assert candidates.fetch(folder, here.name, sha256).read_bytes() == body
    with pytest.raises(Failure, match="64 hexadecimal digits"):
        candidates.fetch(folder, here.name, "../" + sha256[3:])
