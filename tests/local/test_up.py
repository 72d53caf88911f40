"""`manage.py up` as people run it: real servers, web, beat and workers in a folder of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from benchapp.local.child import Identity, end, spawn
from tests.local.processes import alive, children, command_lines, descendants, wait_until

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 90
#: of the command line `python -m workers up`
WORKERS = "workers\0up"


class Up:
    """One `manage.py up`, its output in a file."""

    def __init__(
        self, home: Path, *arguments: str, identity: Identity | None = None, **variables: str
    ) -> None:
        self.home = home
        self.output = home.with_name(f"{home.name}-{time.monotonic_ns()}.out")
        self.process = spawn(
            [sys.executable, "manage.py", "up", *arguments],
            log=self.output,
            environment=environment(home, **variables),
            identity=identity,
            folder=REPOSITORY,
        )

    @property
    def said(self) -> str:
        return self.output.read_text()

    def says(self, text: str, seconds: float = START_S) -> bool:
        return wait_until(lambda: text in self.said or self.process.poll() is not None, seconds) and (
            text in self.said
        )

    @property
    def url(self) -> str:
        return str(json.loads((self.home / "run" / "up.json").read_text())["url"])

    def connect(self) -> psycopg.Connection:
        urls = json.loads((self.home / "run" / "servers.json").read_text())
        return psycopg.connect(urls["database_url"])

    def children(self, words: str) -> set[int]:
        """Its children whose command line holds `words`, and those of its child that keeps the workers."""
        own = children(self.process.pid)
        workers = {child for child in own if WORKERS in command_lines({child})}
        below = set().union(*map(children, workers))
        return {child for child in own | below if words in command_lines({child})}


def environment(home: Path, **variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "TILEWATCH_PORT")
    }
    return kept | {"TILEWATCH_HOME": str(home)} | variables


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2)  # noqa: S310 - our own server
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture(scope="module")
def running(tmp_path_factory, taken_port) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("up") / "home", "--no-jobs", TILEWATCH_PORT=str(taken_port))
    try:
        assert up.says("Tilewatch is at"), up.said
        yield up
    finally:
        end([up.process], [(signal.SIGTERM, 12)])


def test_a_taken_port_is_named_and_the_next_one_used(running, taken_port):
    assert (
        f"Port {taken_port} is taken by another program; using {running.url.rsplit(':', 1)[1]}"
        in running.said
    )
    assert answers(running.url)


def test_gates_open_in_order(running):
    gates = [line.split()[0] for line in running.said.splitlines() if " ready " in line]
    assert gates == ["postgres", "valkey", "migrate", "web"]


def test_a_second_up_says_where_the_first_one_is(running):
    second = Up(running.home)
    assert second.process.wait(30) == 1
    assert (
        f"it runs already on {running.home}, at {running.url} (process {running.process.pid})" in second.said
    )


def test_secrets_are_in_no_process_list_and_no_log(running):
    urls = json.loads((running.home / "run" / "servers.json").read_text())
    assert (running.home / "run" / "servers.json").stat().st_mode & 0o077 == 0
    shown = command_lines(descendants(running.process.pid)) + running.said
    shown += "".join(log.read_text(errors="replace") for log in (running.home / "log").iterdir())
    shown += (running.home / "run" / "up.json").read_text()
    for path in (running.home / "secrets").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert path.read_text() not in shown
    assert urls["database_url"] not in shown


@pytest.mark.parametrize(
    ("words", "name"),
    [("gunicorn", "web"), ("bin/postgres", "postgres"), ("build@", "build"), (WORKERS, "workers")],
)
def test_what_is_killed_comes_back(running, words, name):
    (killed,) = running.children(words)
    os.kill(killed, signal.SIGKILL)
    assert running.says(f"{name} stopped (signal SIGKILL), starting it again")
    assert wait_until(lambda: running.children(words) - {killed}, 20)
    assert wait_until(lambda: answers(running.url), 20)

    def reconnected() -> bool:
        try:
            running.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    assert wait_until(reconnected, 20)


ORDINARY = pytest.param(
    Identity("namespace", 1000, 1000),
    id="ordinary user",
    marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
)


@pytest.mark.parametrize("identity", [pytest.param(Identity(), id="this user"), ORDINARY])
def test_kill_9_leaves_no_child_and_every_committed_row(identity, tmp_path):
    home = tmp_path / "home"
    up = Up(home, "--no-jobs", identity=identity)
    assert up.says("Tilewatch is at"), up.said
    log = home / "log" / "cpu.log"
    assert wait_until(lambda: log.exists() and "ready." in log.read_text(), 60)
    with up.connect() as connection:
        connection.execute("CREATE TABLE kept (value bigint)")
    with up.connect() as connection:
        connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
    below = descendants(up.process.pid)
    assert len(below) > 10
    up.process.kill()
    up.process.wait()
    assert wait_until(lambda: not alive(below), 5), command_lines(alive(below))

    again = Up(home, "--no-jobs", identity=identity)
    assert again.says("Tilewatch is at"), again.said
    with again.connect() as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)
    below = descendants(again.process.pid)
    began = time.monotonic()
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(15) == 0
    assert time.monotonic() - began < 10
    assert not alive(below)
    assert not (home / "run" / "servers.json").exists()
    assert not (home / "run" / "up.json").exists()


def test_a_database_of_somebody_else_that_is_away_is_named_without_its_password(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}/benchmarks"
        up = Up(tmp_path / "home", DATABASE_URL=f"postgres://me:hidden-word@{place}")
        assert up.says(f"DATABASE_URL: Postgres at {place} does not answer"), up.said
        assert "hidden-word" not in up.said
        up.process.terminate()
        assert up.process.wait(10) == 0
    assert not (tmp_path / "home" / "postgres").exists()


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        ([], {"TILEWATCH_PORT": "eighty"}, "expected a port from 1 to 65535, got 'eighty'"),
        (["--host", "203.0.113.9"], {}, "203.0.113.9:8470 cannot be listened on"),
        ([], {"REDIS_URL": "amqp://host"}, "REDIS_URL: expected redis://"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(arguments, variables, sentence, tmp_path):
    done = subprocess.run(
        [sys.executable, "manage.py", "up", *arguments],
        env=environment(tmp_path / "home", **variables),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert sentence in done.stdout
    assert "Traceback" not in done.stdout
