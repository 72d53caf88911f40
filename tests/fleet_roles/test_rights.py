"""What a GPU host's role can do, and all that it cannot: asked of a real Postgres, as that role."""

from __future__ import annotations

import datetime as dt
import re

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, ProgrammingError, connection
from django.db.models.functions import Now

from benchapp.fleet import grants, reports, roles
from benchapp.fleet import work as fleet_work
from benchapp.fleet.models import Report
from benchapp.ingest import actions as ingest_actions
from benchapp.runs import actions, work
from benchapp.runs.models import Document, Run, State
from benchapp.runs.worker_api import CALLABLE, SQL
from tests.fleet_roles.conftest import HOST, WORKER, acting_as, refused, try_as
from tests.workers.conftest import ask, becomes, good_document

OTHER = "cpu@elsewhere/a1b2c3d4"


def test_a_whole_run_with_nothing_but_the_role(mine, worker_as, control, home):
    worker_as(mine)
    control()
    run = becomes(ask(document=good_document()), State.DONE)
    assert "started" in run.attempts.get().log
    assert run.attempts.get().outcome == "delivered"
    failed = becomes(ask(error="g++ is missing."), State.FAILED)
    assert failed.failure == "g++ is missing."
    assert "permission denied" not in (home / "worker.log").read_text()


def test_it_reports_for_its_own_host_alone(mine):
    with acting_as(mine):
        fleet_work.report(WORKER, {"gpus": []})
        assert fleet_work.candidate(WORKER, "0" * 64) is None
        with pytest.raises(ProgrammingError, match="may not act for a worker of host elsewhere"):
            fleet_work.report(OTHER, {"gpus": []})
        with pytest.raises(ProgrammingError, match="elsewhere"):
            fleet_work.candidate(OTHER, "0" * 64)
    assert Report.objects.get().worker == WORKER


def test_it_writes_over_no_report_of_another_host(mine):
    fleet_work.report(OTHER, {"gpus": [], "theirs": True})
    with acting_as(mine), pytest.raises(ProgrammingError, match="a1b2c3d4 reports from another host"):
        fleet_work.report(f"cpu@{HOST}/a1b2c3d4", {"gpus": []})
    assert Report.objects.get().payload["theirs"]


def test_no_run_of_another_host_is_its_business(mine):
    ask(document="theirs", number=1)
    theirs = work.claim(["cpu"], OTHER)
    waiting = ask(document="mine", number=2)
    calls = {
        "claim": lambda: work.claim(["cpu"], OTHER),
        "beat": lambda: work.beat(theirs.run_id, theirs.attempt, log="hello"),
        "fail": lambda: work.fail(theirs.run_id, theirs.attempt, "code", "It lies."),
        "deliver": lambda: work.deliver(theirs.run_id, theirs.attempt, b"{}"),
        "release": lambda: work.release(OTHER),
        "under_way": lambda: work.under_way(OTHER),
    }
    assert {function.split("(")[0] for function in CALLABLE} == {
        "end_attempt" if name == "fail" else name for name in calls
    }
    with acting_as(mine):
        for call in calls.values():
            with pytest.raises(ProgrammingError, match="may not act for a worker of host elsewhere"):
                call()
        assert work.claim(["cpu"], WORKER).run_id == waiting.pk
    run = Run.objects.get(pk=theirs.run_id)
    assert (run.state, run.attempts.get().log, run.documents.count()) == (State.RUNNING, "", 0)


def test_an_open_transaction_of_a_host_holds_up_nobody_else(mine, monkeypatch):
    monkeypatch.setattr(ingest_actions, "RUN_PATIENCE_MS", 100)
    kept, silent = (ask(document=good_document(), number=number) for number in (1, 2))
    for _ in range(2):
        work.claim(["cpu"], WORKER)
    document = work.deliver(kept.pk, 1, good_document().encode())
    Run.objects.filter(pk=silent.pk).update(heartbeat_at=Now() - dt.timedelta(days=1))
    fleet_work.report(WORKER, {})
    fleet_work.report(OTHER, {})
    with psycopg.connect(mine.url) as own:
        own.execute("SELECT worker.report(%s, '{}')", [WORKER])
        own.execute("SELECT worker.deliver(%s, 1, 'x', NULL)", [kept.pk])
        own.execute("SELECT worker.beat(%s, 1, NULL, '', NULL, '{}', NULL)", [silent.pk])
        assert reports.take_reports() == 1
        assert Report.objects.get(taken_at__isnull=False).worker == OTHER
        actions.sweep()
        with pytest.raises(OperationalError, match="lock timeout"):
            ingest_actions.ingest(document)
        own.rollback()
    assert ingest_actions.ingest(document).state == Document.State.ACCEPTED


def test_no_table_opens(mine):
    tables = grants.column(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm')"
    )
    assert {"runs_run", "runs_attempt", "runs_document", "people_user", "runs_workerrole"} <= set(tables)
    with psycopg.connect(mine.url, autocommit=True) as own:
        for table in tables:
            for statement in (
                'SELECT count(*) FROM "{}"',
                'INSERT INTO "{}" DEFAULT VALUES',
                'DELETE FROM "{}"',
                'TRUNCATE "{}"',
                'COPY "{}" TO STDOUT',
                'DROP TABLE "{}"',
            ):
                with refused():
                    own.execute(statement.format(table))
            first = grants.row(
                "SELECT attname FROM pg_attribute WHERE attnum = 1 AND attrelid = %s::regclass", table
            )[0]
            with refused():
                own.execute(f'UPDATE "{table}" SET "{first}" = DEFAULT')  # noqa: S608 - names of ours


FORBIDDEN = (
    "CREATE TABLE public.mine (x int)",
    "CREATE TEMPORARY TABLE mine (x int)",
    "CREATE TABLE worker.mine (x int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE DATABASE mine",
    "CREATE ROLE mine",
    "CREATE EXTENSION file_fdw",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/never'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_authid",
    "ALTER ROLE CURRENT_USER VALID UNTIL 'infinity'",
    "ALTER ROLE CURRENT_USER CREATEROLE",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> current_user",
)


def test_nothing_can_be_made_or_reached(mine):
    with psycopg.connect(mine.url, autocommit=True) as own:
        for statement in FORBIDDEN:
            with refused():
                own.execute(statement)


def test_it_becomes_nobody_else(mine):
    owner = connection.settings_dict["USER"]
    with refused():
        try_as(mine, "SET ROLE {}", owner)
    with refused():
        try_as(mine, "SET SESSION AUTHORIZATION {}", owner)


def test_only_what_is_listed_can_be_called(mine):
    listed = {*CALLABLE, *grants.FLEET_CALLABLE}
    every = grants.column(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'worker'::regnamespace"
    )
    helpers = [f for f in every if not any(_same(f, one) for one in listed)]
    assert len(every) == len(listed) + len(helpers)
    assert any("close_attempt" in name for name in helpers)
    with psycopg.connect(mine.url, autocommit=True) as own:
        for function in helpers:
            name, arguments = function.removesuffix(")").split("(")
            nothing = ", ".join(f"NULL::{kind}" for kind in arguments.split(",") if kind)
            with refused():
                own.execute(f"SELECT {name}({nothing})")


def _same(regprocedure: str, listed: str) -> bool:
    short = {"integer": "int"}
    words = re.sub(r"\w+", lambda word: short.get(word[0], word[0]), regprocedure.removeprefix("worker."))
    return words.replace(" ", "") == listed.replace(" ", "")


def test_an_upgrade_leaves_its_rights_right(mine):
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION worker.under_way(text)")
        cursor.execute(
            "CREATE FUNCTION worker.under_way(p_worker text) RETURNS SETOF text LANGUAGE sql "
            "SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT 'new'::text $$"
        )
        cursor.execute(
            "CREATE FUNCTION worker.beat(bigint) RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"
        )
        cursor.execute("GRANT EXECUTE ON FUNCTION worker.beat(bigint) TO PUBLIC")
    try:
        call_command("migrate", verbosity=0)
        with acting_as(mine):
            assert work.under_way(WORKER) == {"new"}
        with refused():
            try_as(mine, "SELECT worker.beat(1::bigint)")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION worker.beat(bigint)")
            cursor.execute("DROP FUNCTION worker.under_way(text)")
            cursor.execute(SQL.read_text())


def test_a_right_that_everybody_has_is_found_before_the_role_is_made(cluster):
    grants.execute("GRANT SELECT ON runs_run TO PUBLIC")
    try:
        with pytest.raises(roles.RoleError, match="Everybody has rights on runs_run"):
            roles.make(HOST, 90)
    finally:
        grants.execute("REVOKE SELECT ON runs_run FROM PUBLIC")
    assert not grants.exists(roles.role_name(HOST))
