"""Real servers for every test: those of DATABASE_URL / REDIS_URL, else embedded ones in their own folder."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchapp.local.servers import EmbeddedPostgres, EmbeddedValkey

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Servers:
    """Where this session's Postgres and broker are; `database_url` names the server's own database."""

    database_url: str
    redis_url: str


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both servers, up for the whole session. Whatever the session stores may be lost: no fsync."""
    home = tmp_path_factory.mktemp("servers")
    postgres = None if os.environ.get("DATABASE_URL") else EmbeddedPostgres(home, {"fsync": "off"})
    valkey = None if os.environ.get("REDIS_URL") else EmbeddedValkey(home)
    started = [server for server in (postgres, valkey) if server]
    try:
        for server in started:
            server.launch()
        for server in started:
            server.wait_ready()
        yield Servers(
            database_url=postgres.url if postgres else os.environ["DATABASE_URL"],
            redis_url=valkey.url if valkey else os.environ["REDIS_URL"],
        )
    finally:
        for server in reversed(started):
            server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(servers: Servers) -> None:
    """Point Django at the servers before the test database is made: settings were read long before."""
    from django.conf import settings

    from benchapp.settings.base import database

    settings.DATABASES["default"].update(database(servers.database_url))
    settings.CELERY_BROKER_URL = servers.redis_url


@pytest.fixture
def child_environment(servers: Servers, django_db_setup: None) -> dict[str, str]:
    """Environment for programs that a test starts: the test database, not the server's own one.

    Rows must be committed to be seen there: use `django_db(transaction=True)`.
    """
    from django.db import connection

    database_url = (
        urlsplit(servers.database_url)._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    )
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchapp.settings.test",
        "DATABASE_URL": database_url,
        "REDIS_URL": servers.redis_url,
    }


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The Python of the CPU benchmarks, in the environment that `make run` would build too."""
    from benchapp.runs.requests import CPU_TORCH
    from workers import environments
    from workers.lease import only_one

    root, versions = REPOSITORY / "var" / "envs", {"torch": CPU_TORCH}
    python = environments.python_of(environments.location(root, versions))
    root.mkdir(parents=True, exist_ok=True)
    with only_one(root / "tests.lock", wait=True):  # other test processes want it too
        if not python.exists():
            built = subprocess.run(environments.build_command(root, versions), capture_output=True, text=True)
            if built.returncode:
                assert not os.environ.get("CI"), built.stderr
                pytest.skip(f"torch {CPU_TORCH} cannot be installed here: no package index, or no room")
    return python
