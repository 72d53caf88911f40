"""Tilewatch on one machine: which processes there are, in which order they start, and when each is ready."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db.migrations.loader import MigrationLoader

from benchapp.local.child import LocalError, spawn
from benchapp.local.external import first_line, postgres_complaint, redis_complaint
from benchapp.local.home import Home
from benchapp.local.logs import cap, last_lines
from benchapp.local.servers import READY_S, EmbeddedPostgres, EmbeddedServer, EmbeddedValkey
from benchapp.local.supervisor import Supervisor, say
from benchapp.settings.secret import write_private

REPOSITORY = Path(__file__).resolve().parents[2]
_WORKERS_STOP_S = 3.8
_STOP_STEPS = ((int(signal.SIGTERM), 5.0),)
_REQUEST_S = 2.0
_COMPLAIN_AFTER_S = 2.0


class Installation:
    """Brings everything up behind `listener`, a socket that listens already, and keeps it up."""

    def __init__(self, home: Home, listener: socket.socket) -> None:
        self.home = home
        self.listener = listener
        self.supervisor = Supervisor()
        self.environment = {**os.environ, "TILEWATCH_HOME": str(home.root)}
        self.servers: list[EmbeddedServer] = []

    def start(self) -> None:
        """Open every gate in order. Raises LocalError, OSError, StopRequested."""
        kinds: tuple[type[EmbeddedServer], ...] = (EmbeddedPostgres, EmbeddedValkey)
        began = time.monotonic()
        self.servers = [kind(self.home.root) for kind in kinds if not os.environ.get(kind.variable)]
        for server in self.servers:
            cap(server.log)
            server.launch()
        if os.environ.get("DATABASE_URL"):
            self._wait_for("DATABASE_URL", postgres_complaint)
        if os.environ.get("REDIS_URL"):
            self._wait_for("REDIS_URL", redis_complaint)
        for server in self.servers:
            with self._gate(server.name, began):
                server.wait_ready(pause=self.supervisor.pause)
            self.environment[server.variable] = server.url
            self.supervisor.keep(server.name, server.log, server.launch, server.stop_steps, server.child)
        urls = {server.variable.lower(): server.url for server in self.servers}
        write_private(self.home.server_urls, json.dumps(urls))
        with self._gate("migrate"):
            self._migrate()
        with self._gate("web"):
            self._start_web()
        self._start_workers()

    def stop(self) -> None:
        """Stop everything in reverse order."""
        self.home.server_urls.unlink(missing_ok=True)
        kept = {child.name for child in self.supervisor.kept}
        self.supervisor.stop()
        for server in self.servers:
            if server.name not in kept:
                server.stop()

    def manage(self, *arguments: str, log: Path | int) -> subprocess.Popen[str]:
        """Start a `manage.py` command beside the servers, its output going to `log`."""
        return self._spawn([sys.executable, "manage.py", *arguments], log)

    def _spawn(
        self, program: list[str], log: Path | int, keep_open: tuple[int, ...] = ()
    ) -> subprocess.Popen[str]:
        return spawn(program, log=log, environment=self.environment, folder=REPOSITORY, keep_open=keep_open)

    @contextmanager
    def _gate(self, name: str, began: float | None = None) -> Iterator[None]:
        began = began or time.monotonic()
        yield
        say(f"  {name:<12} ready {time.monotonic() - began:5.1f} s")

    def _wait_for(self, variable: str, complaint: Callable[[str], str]) -> None:
        """Wait for a server of somebody else's. Raises LocalError with its last complaint."""
        url = os.environ[variable]
        began = time.monotonic()
        said = False
        with self._gate(variable):
            while problem := complaint(url):
                waited = time.monotonic() - began
                if waited > READY_S:
                    raise LocalError(f"{variable}: {problem} (waited {READY_S:.0f} s)")
                if waited > _COMPLAIN_AFTER_S and not said:
                    say(f"  {variable}: {problem}; waiting up to {READY_S:.0f} s")
                    said = True
                self.supervisor.pause(0.5)

    def _migrate(self) -> None:
        try:
            missing = migrations_missing(self.environment["DATABASE_URL"])
        except psycopg.Error as error:
            raise LocalError(f"the migrations cannot be read: {first_line(error)}") from None
        if not missing:
            return
        log = self.home.logs / "migrate.log"
        cap(log)
        if self.supervisor.wait(self.manage("migrate", "--no-input", "--skip-checks", log=log)) != 0:
            raise LocalError(f"the database could not be migrated\n{last_lines(log)}")

    def _start_web(self) -> None:
        descriptor = self.listener.fileno()
        program = [sys.executable, "-m", "gunicorn", "--config", "benchapp/local/gunicorn_conf.py"]
        program += ["--bind", f"fd://{descriptor}", "benchapp.wsgi:application"]
        log = self.home.logs / "web.log"
        self.supervisor.keep("web", log, lambda: self._spawn(program, log, (descriptor,)), _STOP_STEPS)
        deadline = time.monotonic() + READY_S
        while problem := web_complaint(self.listener):
            if time.monotonic() > deadline:
                raise LocalError(f"web: {problem} (waited {READY_S:.0f} s)\n{last_lines(log)}")
            self.supervisor.pause(0.05)

    def _start_workers(self) -> None:
        worker = ["worker", "--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        schedule = str(self.home.run / "beat-schedule")
        programs = {
            "beat": ["-A", "benchapp.celery", "beat", "--loglevel=INFO", "--pidfile=", "-s", schedule],
            "control": ["-A", "benchapp.celery", *worker, "-Q", "control", "-n", "control@%h", "-c", "2"],
        }
        for name, arguments in programs.items():
            self._keep_celery(name, [sys.executable, "-m", "celery", *arguments])
        # GPUs or not: it finds out, and supervises one worker for each and those that need none
        stop_after = ["--stop-after", f"{_WORKERS_STOP_S:g}"]
        program = [sys.executable, "-m", "workers", "up", *stop_after]
        terminal = sys.stdout.fileno()
        self.supervisor.keep("workers", None, lambda: self._spawn(program, terminal), _STOP_STEPS)

    def _keep_celery(self, name: str, program: list[str]) -> None:
        log = self.home.logs / f"{name}.log"
        self.supervisor.keep(name, log, lambda: self._spawn(program, log), _STOP_STEPS)


def migrations_missing(database_url: str) -> bool:
    """Is a migration on disk that the database does not record? Much quicker than `manage.py migrate`."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        try:
            applied = set(connection.execute("SELECT app, name FROM django_migrations"))
        except psycopg.errors.UndefinedTable:
            return True
    return not applied.issuperset(MigrationLoader(None).disk_migrations)


def web_complaint(listener: socket.socket) -> str:
    """Why the web server does not report itself healthy behind `listener`; empty when it does."""
    host, port = listener.getsockname()[:2]
    unspecified = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to
    connection = http.client.HTTPConnection(unspecified.get(host, host), port, timeout=_REQUEST_S)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer yet ({error})"
    finally:
        connection.close()
    return "" if 200 <= status < 300 else f"/healthz answers with status {status}"
