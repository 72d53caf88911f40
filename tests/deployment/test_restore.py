"""A backup and its restore by the very commands of docs/deployment.md, into a server that holds nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection
from django.test import Client

from benchapp.alerts.models import Event
from benchapp.fleet import roles
from benchapp.local.servers import EmbeddedPostgres
from benchapp.runs import work
from benchapp.runs.models import Run, State, WorkerRole
from benchapp.settings.base import database
from tests.conftest import Servers
from tests.fleet_roles.conftest import HOST, WORKER
from tests.fleet_roles.conftest import cluster as cluster
from tests.ingest.documents import measurement
from tests.runs_pages.work import failed_survey, gemm_done, queued_survey
from tests.tiles.surveys import store, survey, variant

REPOSITORY = Path(__file__).resolve().parents[2]
TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1
"""
#: What is no row: functions with their rights to run, triggers, indexes, constraints, partitions, sequences.
SHAPES = (
    "SELECT proname, prosrc, prosecdef, proconfig FROM pg_proc "
    "WHERE pronamespace = 'worker'::regnamespace ORDER BY 1, pronargs",
    "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
    # Postgres writes conditions differently after it has read them once more
    "SELECT regexp_replace(indexdef, ' WHERE .*', '') FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "SELECT conrelid::regclass::text, conname, contype, confrelid::regclass::text FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    "SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class WHERE relispartition ORDER BY 1",
    "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1",
)


def commands() -> tuple[str, str]:
    """The lines of the docs that begin with pg_dump and pg_restore."""
    page = (REPOSITORY / "docs" / "deployment.md").read_text(encoding="utf-8")
    told = page.split("\n## Backup and restore\n")[1].split("\n## ")[0]
    dump, restore = re.findall(r"^pg_\w+ .*$", told, re.MULTILINE)
    return dump, restore


def own_url() -> str:
    own = connection.settings_dict
    password = quote(str(own["PASSWORD"]), safe="")
    return f"postgresql://{own['USER']}:{password}@{own['HOST']}:{own['PORT']}/{own['NAME']}"


def state(url: str) -> dict[str, Any]:
    """Every row's digest by table, and every shape."""
    with psycopg.connect(url) as look:
        tables = [name for (name,) in look.execute(TABLES)]
        rows = {
            table: look.execute(
                f"SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {table} t"  # noqa: S608
            ).fetchone()
            for table in tables
        }
        return rows | {shape: look.execute(shape).fetchall() for shape in SHAPES}


def run_as_told(command: str, url: str, folder: Path, postgres: EmbeddedPostgres) -> None:
    """A command of the docs, with what the docs put in the environment."""
    at = database(url)
    environment = {
        "PATH": f"{postgres.programs}:{os.defpath}",
        "PGHOST": str(at["HOST"]),
        "PGPORT": str(at["PORT"]),
        "PGUSER": str(at["USER"]),
        "PGDATABASE": str(at["NAME"]),
        "PGPASSWORD": str(at["PASSWORD"]),
    }
    done = subprocess.run(shlex.split(command), env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@contextlib.contextmanager
def connected_to(url: str) -> Iterator[None]:
    """Django on another server for a while."""
    own = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(database(url))
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.clear()
        connection.settings_dict.update(own)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server that has never seen Tilewatch's rows, and logs every statement."""
    with EmbeddedPostgres(tmp_path / "fresh", {"fsync": "off", "log_statement": "all"}) as server:
        yield server


def fill() -> Run:
    """Something of everything: runs of every state, two months of measurements, tiles, an event, a role."""
    store(survey("0.6.3", "4.2.1", variant((128, 128, 64), "none", False, 2, 80_000)))
    done, _ = gemm_done(measurement(16, day=1), measurement(32, day=2))
    failed_survey()
    queued_survey()
    Event.objects.create(kind="run_failed", severity="error", subject="a run", sentence="ü ☃", dedupe_key="1")
    roles.make(HOST, 90)
    return done


def test_a_dump_restores_into_a_new_server_whole(
    cluster, servers: Servers, fresh, tmp_path, django_user_model
):
    django_user_model.objects.create_user("somebody", password="a long enough secret")
    done = fill()
    source = own_url()
    before = state(source)
    for table in ("runs_measurement", "runs_sample", "tiles_evidence", "alerts_event", "runs_workerrole"):
        assert before[table][0], table
    dump, restore = commands()
    run_as_told(dump, source, tmp_path, fresh)
    run_as_told(restore, fresh.url, tmp_path, fresh)

    after = state(fresh.url)
    assert before.keys() == after.keys()
    for what in before:
        assert before[what] == after[what], what

    def manage(*arguments: str) -> str:
        environment = os.environ | {
            "DATABASE_URL": fresh.url, "REDIS_URL": servers.redis_url,
            "DJANGO_SETTINGS_MODULE": "benchapp.settings.test",
        }  # fmt: skip
        program = [sys.executable, "manage.py", *arguments]
        ran = subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "No migrations to apply" in manage("migrate")
    made = manage("workerrole", "make", HOST)
    (line,) = made.splitlines()
    secret = database(line.removeprefix("DATABASE_URL="))["PASSWORD"]
    assert secret not in fresh.log.read_text(), "the server's log, which holds every statement"
    assert "SCRAM-SHA-256$" in fresh.log.read_text()

    with connected_to(fresh.url):
        for address in ("/", f"/runs/{done.pk}/", "/tiles/"):
            assert Client().get(address).status_code == 200
        assert Client().login(username="somebody", password="a long enough secret")
        role = WorkerRole.objects.get(role=database(line.removeprefix("DATABASE_URL="))["USER"])
        assert role.revoked_at is None
        (waiting,) = Run.objects.filter(state=State.QUEUED)
        with connected_to(line.removeprefix("DATABASE_URL=")):
            claim = work.claim([waiting.queue], WORKER)
            assert claim is not None
            assert claim.run_id == waiting.pk
            assert work.fail(claim.run_id, claim.attempt, "code", "It went wrong.")
            with pytest.raises(Exception, match="permission denied"):
                Run.objects.count()
        waiting.refresh_from_db()
        assert waiting.state == State.FAILED
        with pytest.raises(Exception, match="is not a legal move"):
            Run.objects.filter(pk=waiting.pk).update(state=State.QUEUED)


def test_a_database_that_holds_something_is_not_restored_over(cluster, fresh, tmp_path):
    source = own_url()
    dump, restore = commands()
    run_as_told(dump, source, tmp_path, fresh)
    with psycopg.connect(fresh.url) as other:
        other.execute("CREATE TABLE runs_run (mine int)")
        other.execute("INSERT INTO runs_run VALUES (1)")
    with pytest.raises(AssertionError, match="already exists"):
        run_as_told(restore, fresh.url, tmp_path, fresh)
    with psycopg.connect(fresh.url) as look:
        assert look.execute("SELECT * FROM runs_run").fetchall() == [(1,)]
        assert len(look.execute(TABLES).fetchall()) == 1
