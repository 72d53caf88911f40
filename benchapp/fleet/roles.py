"""Postgres roles of GPU hosts: what they may do, and how they are made, renewed and shut.

Each host has a role of its own, `<database>_worker_<host>`. Its rights come from a group,
`<database>_workers`, so that an upgrade that makes a function anew has one place to grant it to. A role's
password travels to Postgres as a SCRAM verifier only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import re
import secrets
from collections.abc import Iterator
from urllib.parse import quote, urlencode

from django.db import InternalError, OperationalError, ProgrammingError, connection, transaction

from benchapp.catalog.locks import lock
from benchapp.fleet.grants import (
    apply_grants,
    column,
    database_name,
    excess,
    execute,
    exists,
    group_name,
    row,
    short,
)
from benchapp.people import audit
from benchapp.runs.models import WorkerRole

#: At one time, of one host's role: two for each worker of a host with 16 GPUs, and some to spare.
CONNECTIONS = 40
MAX_DAYS = 3650
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,58}[A-Za-z0-9])?")
END_WAIT_MS = 5000
#: Roles are changed one after the other.
LOCK = "worker roles"


class RoleError(Exception):
    """One sentence for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """What a host's workers connect with. The password is shown once and kept nowhere."""

    role: str
    url: str
    expires_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """A role as Tilewatch and Postgres know it."""

    role: WorkerRole
    #: "active", "expired", "revoked" or "missing" (Postgres does not know it, as after a restore)
    state: str
    connections: int


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Postgres' refusals as its own first line."""
    try:
        yield
    except (ProgrammingError, InternalError, OperationalError) as error:
        raise RoleError(f"Postgres refuses: {str(error).splitlines()[0]}.") from None


_GROUPS = """
SELECT g.rolname FROM pg_auth_members m
JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
WHERE r.rolname = %s
"""


def role_name(host: str) -> str:
    """The role of a host. Raises RoleError where that is no host's name."""
    if not HOST.fullmatch(host):
        raise RoleError(
            "HOST: expected the host's name as its workers bear it, 1 to 60 letters, digits, dots, hyphens "
            f"and underscores, not {host!r}."
        )
    return short(f"{database_name()}_worker_{host}")


def _must_make_roles() -> None:
    user, may = row("SELECT rolname, rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")
    if not may:
        raise RoleError(
            f"The role {user} may not make other roles: have a superuser of the server run "
            f'ALTER ROLE "{user}" CREATEROLE, or run this command with a DATABASE_URL of one.'
        )


def _let_in(role: str, days: int) -> tuple[str, dt.datetime]:
    """The group's rights, a new password, and when that ends. Only its verifier leaves this process."""
    group = group_name()
    if not exists(group):
        execute("CREATE ROLE {} NOLOGIN", group)
    apply_grants()
    execute("GRANT {} TO {}", group, role)
    if too_much := excess(role):
        raise RoleError(
            f"Everybody has {', '.join(too_much[:5])}, so a worker's role would have it too: "
            "let the owner take it from PUBLIC first."
        )
    password = secrets.token_urlsafe(32)
    (expires_at,) = row("SELECT date_trunc('second', now()) + make_interval(days => %s)", days)
    verifier = connection.connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    execute(
        "ALTER ROLE {} LOGIN PASSWORD {verifier} VALID UNTIL {until} CONNECTION LIMIT {limit}",
        role, verifier=verifier, until=expires_at.isoformat(), limit=CONNECTIONS,
    )  # fmt: skip
    return password, expires_at


def _check_days(days: int) -> None:
    if not 1 <= days <= MAX_DAYS:
        raise RoleError(f"--days: expected 1 to {MAX_DAYS}, not {days}.")


def make(host: str, days: int, server: str = "") -> Credentials:
    """Give a host its role; also anew after `revoke`, and after a restore that lost it. Raises RoleError.

    `server` is the database server's address as that host reaches it; else the one of this process.
    """
    role = role_name(host)
    _check_days(days)
    with _plain_errors(), transaction.atomic():
        lock(LOCK)
        _must_make_roles()
        known = WorkerRole.objects.filter(role=role).first()
        if exists(role):
            if known is None and group_name() not in column(_GROUPS, role):
                raise RoleError(
                    f"There is a role {role} that Tilewatch did not make: drop or rename it first."
                )
            if known and known.revoked_at is None:
                raise RoleError(
                    f"{host} has a role already; "
                    f"`manage.py workerrole rotate {host}` gives it a new password."
                )
        else:
            execute("CREATE ROLE {} NOLOGIN", role)
            # who made a role may end its connections only as its member
            execute("GRANT {} TO CURRENT_USER", role)
        password, expires_at = _let_in(role, days)
        WorkerRole.objects.update_or_create(
            role=role, defaults={"host": host, "expires_at": expires_at, "revoked_at": None}
        )
        audit.record(None, "workerrole.make", host, role=role, expires_at=expires_at.isoformat())
    return Credentials(role, _url(role, password, server), expires_at)


def rotate(host: str, days: int, server: str = "") -> Credentials:
    """A new password for a host's role, valid from now on; who connected with the old one is cut off."""
    role = role_name(host)
    _check_days(days)
    with _plain_errors(), transaction.atomic():
        lock(LOCK)
        _must_make_roles()
        changed = WorkerRole.objects.filter(role=role, revoked_at=None)
        if not changed or not exists(role):
            raise RoleError(f"{host} has no role now; `manage.py workerrole make {host}` gives it one.")
        password, expires_at = _let_in(role, days)
        changed.update(expires_at=expires_at)
        audit.record(None, "workerrole.rotate", host, role=role, expires_at=expires_at.isoformat())
    _end_connections(role)
    return Credentials(role, _url(role, password, server), expires_at)


def revoke(host: str) -> int:
    """Shut a host out; returns how many connections were ended. Again is no error."""
    role = role_name(host)
    with _plain_errors(), transaction.atomic():
        lock(LOCK)
        known = WorkerRole.objects.select_for_update().filter(role=role).first()
        if known is None:
            raise RoleError(f"{host} never had a role.")
        if exists(role):
            _must_make_roles()
            execute("ALTER ROLE {} NOLOGIN PASSWORD NULL", role)
            if exists(group_name()):
                execute("REVOKE {} FROM {}", group_name(), role)
        if known.revoked_at is None:
            known.revoked_at = row("SELECT now()")[0]
            known.save(update_fields=["revoked_at"])
        audit.record(None, "workerrole.revoke", host, role=role)
    return _end_connections(role)


def _end_connections(role: str) -> int:
    """After the commit, so that none can come back. Raises RoleError where one will not end."""
    with _plain_errors():
        ended = column(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE usename = %s", END_WAIT_MS, role
        )
    if not all(ended):
        raise RoleError(
            f"The role is changed, but {ended.count(False)} of its connections have not ended yet."
        )
    return len(ended)


def standings() -> list[Standing]:
    """Every role that was ever made, by host."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT w.id, CASE WHEN w.revoked_at IS NOT NULL OR NOT r.rolcanlogin THEN 'revoked' "
            "WHEN r.oid IS NULL THEN 'missing' WHEN r.rolvaliduntil <= now() THEN 'expired' "
            "ELSE 'active' END, "
            "(SELECT count(*) FROM pg_stat_activity a WHERE a.usename = w.role) "
            "FROM runs_workerrole w LEFT JOIN pg_roles r ON r.rolname = w.role"
        )
        found = {key: rest for key, *rest in cursor.fetchall()}
    return [Standing(role, *found[role.pk]) for role in WorkerRole.objects.order_by("host", "id")]


def _url(role: str, password: str, server: str) -> str:
    """A DATABASE_URL, with what our own says of TLS."""
    own = connection.settings_dict
    if not server:
        host = str(own["HOST"] or "localhost")
        server = f"{f'[{host}]' if ':' in host else quote(host, safe='')}:{own['PORT'] or 5432}"
    tls = {key: own["OPTIONS"][key] for key in ("sslmode", "sslrootcert") if key in own["OPTIONS"]}
    query = f"?{urlencode(tls, safe='/')}" if tls else ""
    return f"postgresql://{role}:{password}@{server}/{quote(database_name(), safe='')}{query}"
