"""Roles of GPU hosts in the real cluster; none is left after a test."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from benchapp.fleet import grants, roles
from benchapp.settings.base import database
from tests.workers.conftest import Start
from tests.workers.conftest import control as control
from tests.workers.conftest import home as home
from tests.workers.conftest import start as start
from workers.identity import host_name

#: Of this machine, as its workers' names bear it.
HOST = host_name()
WORKER = f"cpu@{HOST}/k3jd82ks"


@pytest.fixture
def cluster(transactional_db: None) -> Iterator[None]:
    """A database whose own role may make others; those made are dropped again."""
    if grants.column("SELECT 1 FROM pg_roles WHERE rolname = current_user AND NOT rolcreaterole") == [1]:
        pytest.skip("the role of DATABASE_URL may not make roles here")
    yield
    group = grants.group_name()
    prefix = roles.role_name("x").removesuffix("x")
    for role in grants.column("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", prefix):
        grants.execute("DROP ROLE {}", role)
    if grants.exists(group):
        grants.execute("GRANT {} TO CURRENT_USER", group)
        grants.execute("DROP OWNED BY {}", group)
        grants.execute("DROP ROLE {}", group)


@pytest.fixture
def mine(cluster: None) -> roles.Credentials:
    """The role of this machine's workers."""
    return roles.make(HOST, 90)


@contextlib.contextmanager
def acting_as(credentials: roles.Credentials) -> Iterator[None]:
    """Everything that Django does here, it does as that role."""
    own = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update({key: database(credentials.url)[key] for key in ("USER", "PASSWORD")})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(own)


@contextlib.contextmanager
def refused(why: type[psycopg.Error] = psycopg.errors.InsufficientPrivilege) -> Iterator[None]:
    with pytest.raises(why):
        yield


def try_as(credentials: roles.Credentials, statement: str, *names: str) -> None:
    """One statement, on a connection of its own."""
    with psycopg.connect(credentials.url, autocommit=True) as own:
        own.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@pytest.fixture
def worker_as(
    start: Start, child_environment: dict[str, str]
) -> Callable[[roles.Credentials], subprocess.Popen[bytes]]:
    """A real worker of the queue cpu that knows no other role than the given one."""

    def begin(credentials: roles.Credentials) -> subprocess.Popen[bytes]:
        own = child_environment["DATABASE_URL"]
        child_environment["DATABASE_URL"] = credentials.url
        options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")
        try:
            return start(
                "celery", "-A", "workers.celery", "worker", "-Q", "cpu", "-c", "1", *options, log="worker.log"
            )
        finally:
            child_environment["DATABASE_URL"] = own

    return begin
