"""The worker's pieces by themselves: spool, leases, recipes, time limits."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from benchapp.runs import work
from benchapp.runs.models import Attempt, Document, State
from benchapp.runs.work import Claim
from tests.workers.conftest import REPOSITORY, ask, good_document
from workers import child, environments, execute, lease, spool


@pytest.fixture
def claimed(transactional_db: None) -> Claim:
    ask()
    run = work.claim(["cpu"], "w")
    assert run is not None
    return run


def spooled(folder: Path, run: Claim) -> Path:
    document = folder / "document.json"
    document.write_text(good_document())
    spool.put(folder / "spool", document, run.run_id, run.attempt)
    return folder / "spool"


def test_a_document_waits_in_the_spool_while_postgres_is_away(
    claimed: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = spooled(tmp_path, claimed)
    with monkeypatch.context() as away:
        connection.close()
        away.setitem(connection.settings_dict, "PORT", "1")
        assert spool.flush(folder) == 0
    assert [path.name for path in folder.glob("*.json")] == [f"{claimed.run_id}-1.json"]
    assert spool.flush(folder) == 1
    claimed.refresh_from_db()
    assert claimed.state == State.DELIVERED
    assert not list(folder.glob("*.json"))
    assert Document.objects.get().run_id == claimed.run_id


def test_a_file_that_cannot_be_delivered_does_not_hold_up_the_others(claimed: Claim, tmp_path: Path):
    folder = spooled(tmp_path, claimed)
    (folder / "notes.json").write_text("not ours")
    (folder / "999999-1.json").write_text(good_document(7))
    assert spool.flush(folder) == 1
    kept = {path.name for path in folder.iterdir()} - {"lock"}
    assert kept == {"notes.undelivered", "999999-1.undelivered"}


HOLD = """
import pathlib, sys, time
from workers import lease
with lease.cores(pathlib.Path(sys.argv[1]), alone=sys.argv[2] == "True", waiting=lambda: None):
    print("held", flush=True)
    time.sleep(600)
"""


class WaitedError(Exception):
    pass


def waited() -> None:
    raise WaitedError


@pytest.mark.parametrize(
    ("theirs", "ours", "had"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, False)],
)
def test_compiles_share_the_cores_and_a_measurement_has_them_alone(
    tmp_path: Path, theirs: bool, ours: bool, had: bool
):
    command = [sys.executable, "-c", HOLD, str(tmp_path), str(theirs)]
    other = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        if had:
            with lease.cores(tmp_path, alone=ours, waiting=waited):
                pass
        else:
            with pytest.raises(WaitedError), lease.cores(tmp_path, alone=ours, waiting=waited):
                pass
    finally:
        other.kill()
        other.communicate()
    with lease.cores(tmp_path, alone=True, waiting=waited):
        pass  # freed by the death of its holder


def test_a_child_past_its_time_is_ended_and_says_so(tmp_path: Path):
    said: list[str] = []
    with pytest.raises(child.Failure, match="still running after its limit of 1 s"):
        child.run(
            [sys.executable, "-c", "print('here', flush=True); import time; time.sleep(60)"],
            folder=tmp_path,
            timeout_s=1,
            tick=lambda progress, log: said.append(log),
            extra_environment={},
        )
    assert "here" in "".join(said)


def test_a_document_finished_in_the_last_second_is_kept_though_the_run_is_lost(
    claimed: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings
):
    """The child ends with its document written; the beat after it hears that the run is somebody else's."""
    settings.HOME = tmp_path

    def finished(command: list[str], **options: object) -> None:
        Path(command[command.index("--out") + 1]).write_text(good_document())
        raise execute.LostError

    monkeypatch.setattr(execute, "_environment", lambda run, folder: Path(sys.executable))
    monkeypatch.setattr(child, "run", finished)
    execute.execute(claimed)
    assert Document.objects.get().run_id == claimed.run_id


def test_a_full_disk_is_said_in_one_sentence(
    claimed: Claim, monkeypatch: pytest.MonkeyPatch, settings, tmp_path
):
    def full(*args: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    settings.HOME = tmp_path
    monkeypatch.setattr(execute, "_measure", full)
    execute.execute(claimed)
    claimed.refresh_from_db()
    assert (claimed.state, claimed.failure_code) == (State.FAILED, "disk_full")
    assert claimed.failure.endswith("is full; free some space and run it again.")
    assert Attempt.objects.get().outcome == "failed"


def test_a_recipe_names_known_packages_and_versions_only():
    assert environments.requirements({"torch": "2.13.0"}) == ["torch==2.13.0"]
    for versions in ({"evil": "1.0"}, {"torch": "--index-url=http://x"}, {"torch": "2.13.0; import os"}):
        with pytest.raises(environments.RecipeError, match=r"^recipe\."):
            environments.requirements(versions)


def test_progress_lines_that_are_no_progress_are_passed_over(tmp_path: Path):
    script = (
        "import pathlib, json; p = pathlib.Path('progress'); "
        "p.write_text('nonsense\\n[]\\n{}\\n' + json.dumps({'done': 1, 'total': 2, 'message': 'm'}) + '\\n')"
    )
    seen: list[object] = []
    child.run(
        [sys.executable, "-c", script],
        folder=tmp_path,
        timeout_s=30,
        tick=lambda progress, log: seen.append(progress),
        extra_environment={},
    )
    assert seen[-1] == work.Progress(1, 2, "m")
    assert json.loads((tmp_path / "progress").read_text().splitlines()[-1])["done"] == 1
