"""Embedded Postgres and Valkey: who they run as, what they keep, and what survives."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from benchapp.local.child import Identity, LocalError, end, server_identity, spawn
from benchapp.local.servers import EmbeddedPostgres, EmbeddedValkey
from tests.local.processes import alive, command_lines, descendants, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
#: A user without privileges who may still read this checkout, wherever it lies.
ORDINARY = Identity("namespace", 1000, 1000)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path) as server:
        yield server


def insert(server: EmbeddedPostgres, value: int) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value bigint)")
        connection.execute("INSERT INTO kept VALUES (%s)", [value])


def kept(server: EmbeddedPostgres) -> list[int]:
    with psycopg.connect(server.url) as connection:
        return [row[0] for row in connection.execute("SELECT value FROM kept ORDER BY value")]


def test_committed_rows_survive_kill_9_and_the_url_stays(postgres):
    insert(postgres, 1)
    # of this server only: the session's own servers go on
    url, below = postgres.url, descendants(postgres.child.pid)
    assert below
    postgres.kill()
    postgres.launch()
    postgres.wait_ready()
    assert postgres.url == url
    assert kept(postgres) == [1]
    assert wait_until(lambda: not alive(below), 5), "processes of the killed server are left"


def test_rows_survive_a_clean_stop(tmp_path):
    for value in (1, 2):
        with EmbeddedPostgres(tmp_path) as server:
            insert(server, value)
    with EmbeddedPostgres(tmp_path) as server:
        assert kept(server) == [1, 2]


def test_the_application_is_no_superuser_and_passwords_are_asked_for(postgres):
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute("SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user")
        assert found.fetchone() == (False, True)
        assert connection.execute("SHOW password_encryption").fetchone() == ("scram-sha-256",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace(postgres.home.secret("postgres"), "guess"))


def test_secrets_are_private_and_in_no_process_list_or_log(tmp_path):
    with EmbeddedPostgres(tmp_path) as postgres, EmbeddedValkey(tmp_path) as valkey:
        assert redis.Redis.from_url(valkey.url).ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=valkey.port).ping()
        secrets = list(postgres.home.secrets.iterdir())
        assert {path.name for path in secrets} == {"postgres", "postgres_superuser", "valkey"}
        assert stat.S_IMODE(postgres.home.secrets.stat().st_mode) == 0o700
        shown = command_lines(descendants(os.getpid()))
        logs = "".join(log.read_text() for log in postgres.home.logs.iterdir())
        for path in secrets:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert path.read_text() not in shown
            assert path.read_text() not in logs
    assert not (postgres.home.run / "initdb-password").exists()


def test_a_lock_whose_process_number_was_reused_is_dropped(tmp_path):
    with EmbeddedPostgres(tmp_path) as server:
        insert(server, 1)
        lock = (server.home.postgres / "postmaster.pid").read_text().split("\n")
        server.kill()
    (server.home.postgres / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lock[1:]]))
    with EmbeddedPostgres(tmp_path) as server:
        assert kept(server) == [1]


def test_a_server_that_is_still_going_is_waited_for(tmp_path):
    with EmbeddedPostgres(tmp_path) as server:
        insert(server, 1)
    program: list[str | Path] = [server.programs / "postgres", "-D", server.home.postgres]
    program += ["-c", "unix_socket_directories=", "-c", f"port={server.port}"]
    other = spawn(program, log=server.log, identity=server.identity)
    try:
        assert wait_until(server.answers, 10)
        second = EmbeddedPostgres(tmp_path)
        second.launch()
        assert second.child is not None
        assert second.child.wait(10) == 1
        other.send_signal(signal.SIGINT)
        second.wait_ready()
        assert kept(second) == [1]
        second.stop()
    finally:
        end([other], [])


def test_an_interrupted_first_start_leaves_nothing_half_made(tmp_path):
    half = tmp_path / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path) as server:
        insert(server, 1)
    assert not half.exists()


def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(LocalError, match=r"(?s)postgres does not start\n.*no_such_setting"):
        EmbeddedPostgres(tmp_path, {"no_such_setting": "1"}).start()


@pytest.mark.parametrize("name", ["postgres", "postgres_superuser"])
def test_a_lost_password_is_said_at_once(tmp_path, name):
    with EmbeddedPostgres(tmp_path) as server:
        insert(server, 1)
    (server.home.secrets / name).unlink()
    began = time.monotonic()
    again = EmbeddedPostgres(tmp_path)
    try:
        with pytest.raises(LocalError, match=f"secrets/{name} does not belong to the database in"):
            again.start()
    finally:
        again.stop()
    assert time.monotonic() - began < 20


@AS_ROOT
def test_root_becomes_nobody_or_hides_in_a_namespace(tmp_path):
    with tempfile.TemporaryDirectory() as folder:
        closed, opened = Path(folder, "postgres"), Path(folder)
        assert server_identity(closed).how == "namespace"
        opened.chmod(0o755)
        assert server_identity(closed).how == "user"
        with EmbeddedPostgres(opened) as server:
            assert server.child is not None
            assert Path(f"/proc/{server.child.pid}").stat().st_uid == 65534
            insert(server, 1)
        # The folder moves behind closed doors: its files change hands.
        opened.chmod(0o700)
        with EmbeddedPostgres(opened) as server:
            assert kept(server) == [1]


@AS_ROOT
def test_an_ordinary_user_starts_both_servers(tmp_path):
    program = (
        "import os, sys; from pathlib import Path\n"
        "from benchapp.local.servers import EmbeddedPostgres, EmbeddedValkey\n"
        "with EmbeddedPostgres(Path(sys.argv[1])) as postgres, EmbeddedValkey(Path(sys.argv[1])):\n"
        "    postgres.kill(); postgres.launch(); postgres.wait_ready(); print('both answer', os.geteuid())\n"
    )
    log = tmp_path / "log"
    child = spawn(
        [sys.executable, "-c", program, tmp_path / "home"], log=log, identity=ORDINARY, folder=REPOSITORY
    )
    assert child.wait(60) == 0, log.read_text()
    assert log.read_text() == "both answer 1000\n"


@pytest.mark.parametrize(
    "how", ["", pytest.param("user", marks=AS_ROOT), pytest.param("namespace", marks=AS_ROOT)]
)
def test_a_child_does_not_outlive_its_parent(how, tmp_path):
    program = (
        "import os, sys; from pathlib import Path\n"
        "from benchapp.local.child import Identity, spawn\n"
        f"identity = Identity({how!r}, 65534, 65534)\n"
        "child = spawn(['sleep', '60'], log=Path(sys.argv[1]), identity=identity)\n"
        "print(child.pid, flush=True); sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "log")],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = {int(parent.stdout.readline())}
        assert wait_until(lambda: "sleep\x0060" in command_lines(child), 5)
        parent.kill()
    assert wait_until(lambda: not alive(child), 3)
