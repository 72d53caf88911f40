"""Documents between a child and the inbox, whatever happens to the disk and to Postgres."""

from __future__ import annotations

import datetime as dt
import resource
from pathlib import Path

import pytest
from django.db import connection

from benchapp.runs.models import Attempt, Document, Run, State
from benchapp.runs.work import Claim, Lease
from tests.workers.conftest import ask, claim, good_document
from workers import execute, spool
from workers.identity import Identity

NOW = dt.datetime(2026, 11, 29, 12, 0, tzinfo=dt.UTC)
LEASE = Lease(("GPU-a", "GPU-b"), NOW, NOW + dt.timedelta(seconds=9))


@pytest.fixture
def claimed(here: Identity) -> Claim:
    ask()
    return claim(here)


def document(folder: Path) -> Path:
    path = folder / "document.json"
    path.write_text(good_document())
    return path


def spooled(folder: Path, run: Claim, lease: Lease | None = None) -> Path:
    spool.put(folder / "spool", document(folder), run.run_id, run.attempt, lease)
    return folder / "spool"


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"lock"}


def test_a_document_and_its_lease_wait_in_the_spool_while_postgres_is_away(
    claimed: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = spooled(tmp_path, claimed, LEASE)
    with monkeypatch.context() as away:
        connection.close()
        away.setitem(connection.settings_dict, "PORT", "1")
        assert spool.flush(folder) == 0
    assert files(folder) == {f"{claimed.run_id}-1.json", f"{claimed.run_id}-1.lease"}
    assert spool.flush(folder) == 1
    assert Run.objects.get().state == State.DELIVERED
    assert not files(folder)
    assert Document.objects.get().run_id == claimed.run_id
    attempt = Attempt.objects.get()
    assert (tuple(attempt.gpus), attempt.lease_from, attempt.lease_to) == (LEASE.gpus, NOW, LEASE.until)


def test_a_file_that_cannot_be_delivered_does_not_hold_up_the_others(claimed: Claim, tmp_path: Path):
    folder = spooled(tmp_path, claimed)
    (folder / "notes.json").write_text("not ours")
    (folder / "999999-1.json").write_text(good_document(7))
    (folder / f"{claimed.run_id}-1.lease").write_text('{"gpus": [')
    assert spool.flush(folder) == 1
    assert files(folder) == {"notes.undelivered", "999999-1.undelivered"}


def test_a_role_that_may_not_deliver_keeps_its_documents(claimed: Claim, tmp_path: Path):
    folder = spooled(tmp_path, claimed)
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE nobody_of_ours")
        try:
            cursor.execute("GRANT nobody_of_ours TO CURRENT_USER")
            cursor.execute("SET ROLE nobody_of_ours")
            assert spool.flush(folder, patience_s=60) == 0
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE nobody_of_ours")
    assert files(folder) == {f"{claimed.run_id}-1.json"}
    assert spool.flush(folder) == 1


def test_a_file_size_limit_costs_the_note_and_not_the_document(claimed: Claim, tmp_path: Path):
    ready = document(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        spool.put(tmp_path / "spool", ready, claimed.run_id, claimed.attempt, LEASE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert spool.flush(tmp_path / "spool") == 1
    assert Run.objects.get().state == State.DELIVERED


def test_a_document_that_finds_no_room_in_the_spool_is_delivered_at_once(
    here: Identity, home: Path, settings
):
    (home / "spool").mkdir()
    (home / "spool" / "1-1.json").mkdir()  # in its way
    run = ask(document=good_document())
    (home / "spool" / "1-1.json").rename(home / "spool" / f"{run.pk}-1.json")
    execute.execute(claim(here), here)
    assert Document.objects.get().run_id == run.pk
    assert Attempt.objects.get().lease_to is not None
