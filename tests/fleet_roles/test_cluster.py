"""The embedded server's own role may make those of GPU hosts."""

from __future__ import annotations

from pathlib import Path

import psycopg

from benchapp.local.servers import EmbeddedPostgres


def test_on_a_cluster_of_an_earlier_version_too(tmp_path: Path):
    with (
        EmbeddedPostgres(tmp_path, {"fsync": "off"}) as server,
        server._connect("postgres", "postgres_superuser", "postgres") as superuser,
    ):
        superuser.execute("ALTER ROLE tilewatch NOCREATEROLE")
    with EmbeddedPostgres(tmp_path, {"fsync": "off"}) as server, psycopg.connect(server.url) as own:
        told = own.execute("SELECT rolcreaterole, rolsuper FROM pg_roles WHERE rolname = current_user")
        assert told.fetchone() == (True, False)
        own.execute("CREATE ROLE tilewatch_worker_somewhere")
