"""A host's role made, renewed, expired, shut; what becomes of a document that waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from benchapp.fleet import grants, roles
from benchapp.fleet.roles import Credentials
from benchapp.people.models import AuditEntry
from benchapp.runs import work
from benchapp.runs.models import State, WorkerRole
from tests.fleet_roles.conftest import HOST, WORKER, acting_as, refused
from tests.workers.conftest import ask, becomes, good_document, until
from workers import spool


def expire() -> None:
    role = roles.role_name(HOST)
    grants.execute("ALTER ROLE {} VALID UNTIL '2020-01-01'", role)
    roles._end_connections(role)


SHUT: dict[str, Callable[[], object]] = {
    "expired": expire,
    "rotated": lambda: roles.rotate(HOST, 90),
    "revoked": lambda: roles.revoke(HOST),
}


@pytest.mark.parametrize("how", SHUT)
def test_what_was_measured_waits_for_the_next_role(mine: Credentials, tmp_path: Path, how: str):
    run = ask(document="anything")
    with acting_as(mine):
        claim = work.claim(["cpu"], WORKER)
    (tmp_path / "document.json").write_text(good_document())
    spool.put(tmp_path / "spool", tmp_path / "document.json", claim.run_id, claim.attempt)
    held = psycopg.connect(mine.url, autocommit=True)

    SHUT[how]()

    with pytest.raises(psycopg.OperationalError):
        held.execute("SELECT 1")
    with acting_as(mine):
        with pytest.raises(OperationalError):
            connection.ensure_connection()
        assert spool.flush(tmp_path / "spool") == 0
    assert [path.name for path in (tmp_path / "spool").glob("*.json")] == [f"{run.pk}-1.json"]

    renewed = roles.make(HOST, 90) if how == "revoked" else roles.rotate(HOST, 90)
    with acting_as(renewed):
        assert spool.flush(tmp_path / "spool") == 1
    run.refresh_from_db()
    assert (run.state, run.documents.count()) == (State.DELIVERED, 1)
    assert not list((tmp_path / "spool").glob("*.json"))


def test_a_worker_whose_role_is_shut_while_it_measures_loses_nothing(mine, worker_as, home: Path):
    first = worker_as(mine)
    run = ask(seconds=3, document=good_document())
    becomes(run, State.RUNNING)
    roles.revoke(HOST)
    until(lambda: bool(list((home / "spool").glob("*.json"))), what="the document in the spool")
    run.refresh_from_db()
    assert run.state == State.RUNNING
    first.kill()
    worker_as(roles.make(HOST, 90))
    becomes(run, State.DELIVERED)
    assert run.attempts.count() == 1


def test_revoking_ends_what_is_connected_and_may_be_said_again(mine: Credentials):
    with psycopg.connect(mine.url, autocommit=True) as held:
        assert held.execute("SELECT * FROM worker.under_way(%s)", [WORKER]).fetchall() == []
        assert roles.revoke(HOST) == 1
    assert roles.revoke(HOST) == 0
    assert WorkerRole.objects.get().revoked_at is not None
    with pytest.raises(
        psycopg.OperationalError, match=r"password authentication failed|not permitted to log in"
    ):
        psycopg.connect(mine.url)
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "workerrole.make", "workerrole.revoke", "workerrole.revoke",
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_a_role_that_ended_can_do_nothing_even_where_it_is_still_connected(mine: Credentials, end: str):
    with psycopg.connect(mine.url, autocommit=True) as held:
        WorkerRole.objects.update(**{end: WorkerRole.objects.get().created_at})
        with refused():
            held.execute("SELECT * FROM worker.under_way(%s)", [WORKER])


def test_rotating_keeps_the_role_and_moves_its_end(mine: Credentials):
    renewed = roles.rotate(HOST, 7)
    assert renewed.role == mine.role
    assert renewed.url != mine.url
    assert renewed.expires_at < mine.expires_at
    assert grants.row("SELECT rolvaliduntil, rolconnlimit FROM pg_roles WHERE rolname = %s", mine.role) == (
        WorkerRole.objects.get().expires_at, roles.CONNECTIONS,
    )  # fmt: skip
    entry = AuditEntry.objects.get(action="workerrole.rotate")
    assert entry.subject == HOST
    assert "postgresql://" not in str(entry.detail)


def test_the_list_says_how_each_one_stands(mine: Credentials, capsys):
    for host in ("expired", "revoked", "missing"):
        roles.make(host, 90)
    grants.execute("ALTER ROLE {} VALID UNTIL '2020-01-01'", roles.role_name("expired"))
    roles.revoke("revoked")
    grants.execute("DROP ROLE {}", roles.role_name("missing"))
    with psycopg.connect(mine.url):
        call_command("workerrole", "list")
    told = {line.split("\t")[0]: line.split("\t")[1:4:2] for line in capsys.readouterr().out.splitlines()}
    assert told == {
        HOST: ["active", "1 connections"],
        "expired": ["expired", "0 connections"],
        "revoked": ["revoked", "0 connections"],
        "missing": ["missing", "0 connections"],
    }


def test_the_command_prints_one_line_that_can_be_used(cluster, capsys):
    call_command("workerrole", "make", HOST, "--days", "1", "--server", "127.0.0.1:5999")
    printed = capsys.readouterr()
    (line,) = printed.out.splitlines()
    assert line.startswith(f"DATABASE_URL=postgresql://{roles.role_name(HOST)}:")
    assert "@127.0.0.1:5999/" in line
    assert "REDIS_URL" in printed.err
    call_command("workerrole", "rotate", HOST)
    (line,) = capsys.readouterr().out.splitlines()
    with psycopg.connect(line.removeprefix("DATABASE_URL=")) as connected:
        assert connected.execute("SELECT session_user").fetchone() == (roles.role_name(HOST),)
    call_command("workerrole", "revoke", HOST)
    assert capsys.readouterr().out == f"{HOST} is shut out; 0 of its connections were ended.\n"


@pytest.mark.parametrize("host", ["", "a b", "a@b", "a/b", "-a", "a;DROP ROLE", 'a"', "ü", "a" * 61])
def test_what_is_no_host_name_is_refused(host):
    with pytest.raises(CommandError, match="HOST: expected the host's name"):
        call_command("workerrole", "make", "--", host)


def test_refusals_say_what_to_do(mine):
    for arguments, sentence in (
        (("make", "a", "--days", "0"), "--days: expected 1 to 3650, not 0."),
        (("make", HOST), f"{HOST} has a role already; `manage.py workerrole rotate {HOST}` gives"),
        (("rotate", "a"), "a has no role now; `manage.py workerrole make a` gives it one."),
        (("revoke", "a"), "a never had a role."),
    ):
        with pytest.raises(CommandError) as refusal:
            call_command("workerrole", *arguments)
        assert sentence in str(refusal.value)
    assert AuditEntry.objects.get().action == "workerrole.make"


def test_a_role_that_tilewatch_did_not_make_is_left_alone(cluster):
    name = roles.role_name(HOST)
    grants.execute("CREATE ROLE {}", name)
    try:
        with pytest.raises(roles.RoleError, match="that Tilewatch did not make"):
            roles.make(HOST, 90)
        assert grants.row("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", name) == (False,)
    finally:
        grants.execute("DROP ROLE {}", name)


def test_a_role_whose_row_was_lost_is_taken_up_again(mine: Credentials):
    WorkerRole.objects.all().delete()
    again = roles.make(HOST, 90)
    assert again.role == mine.role
    with acting_as(again):
        assert work.claim(["cpu"], WORKER) is None


def test_who_may_not_make_roles_is_told_what_is_missing(cluster):
    limited = roles.make("limited", 1)
    with acting_as(limited), pytest.raises(roles.RoleError, match=r"may not make other roles.*CREATEROLE"):
        roles.make(HOST, 90)


def test_the_password_goes_to_postgres_as_a_verifier(mine: Credentials):
    with connection.execute_wrapper(seen := _Remember()):
        renewed = roles.rotate(HOST, 90)
    sent = " ".join(seen.statements)
    assert "SCRAM-SHA-256$" in sent
    assert renewed.url.split(":")[2].split("@")[0] not in sent


class _Remember:
    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, execute, statement, parameters, many, context):
        text = statement if isinstance(statement, str) else statement.as_string(connection.connection)
        self.statements.append(f"{text} {parameters}")
        return execute(statement, parameters, many, context)


def test_long_names_stay_apart(cluster):
    first, second = "a" * 60, "a" * 59 + "b"
    names = {roles.role_name(host) for host in (first, second)}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)
    for host in (first, second):
        with acting_as(roles.make(host, 1)):
            assert work.under_way(f"cpu@{host}/k3jd82ks") == set()
