"""`manage.py up`: all of Tilewatch on this machine under one supervisor."""

import argparse
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management.base import BaseCommand

from benchapp.local.child import LocalError
from benchapp.local.home import Home
from benchapp.local.installation import Installation
from benchapp.local.supervisor import StopRequested, say

DEFAULT_PORT = "8470"
_PORTS_TRIED = 50


class Command(BaseCommand):
    help = "Run Tilewatch here: servers, migrations, web, beat and workers, until Ctrl-C."
    # Both would need the database, which this command starts.
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument(
            "--port",
            type=_port,
            default=os.environ.get("TILEWATCH_PORT", DEFAULT_PORT),
            help=f"port to listen on, or the next free one (default: TILEWATCH_PORT, else {DEFAULT_PORT})",
        )
        jobs = parser.add_mutually_exclusive_group()
        jobs.add_argument("--no-jobs", action="store_true", help="do not ask for the first jobs")
        jobs.add_argument("--once", action="store_true", help="wait for the first jobs, then stop")

    def handle(self, *_: Any, **options: Any) -> None:
        began = time.monotonic()
        home = Home(Path(settings.HOME))
        try:
            lock = _lock(home)
            listener = _listen(options["host"], options["port"])
        except (LocalError, OSError) as error:
            sys.exit(f"Tilewatch cannot start: {error}")
        url = _url(options["host"], listener)
        status = {"pid": os.getpid(), "url": url, "home": str(home.root), "started": int(time.time())}
        home.status.write_text(json.dumps(status))
        say(f"Tilewatch in {home.root}")
        result = 0
        installation = Installation(home, listener)
        try:
            installation.start()
            say(f"Tilewatch is at {url} after {time.monotonic() - began:.1f} s; logs in {home.logs}")
            result = _first_steps(installation, url, options)
            while not options["once"]:
                installation.supervisor.pause(3600)
        except StopRequested:
            result = 130 if options["once"] else 0
        except (LocalError, OSError) as error:
            say(f"Tilewatch cannot start: {error}")
            result = 1
        finally:
            began = time.monotonic()
            # The carriage return writes over the terminal's ^C.
            say("\rStopping" if sys.stdout.isatty() else "Stopping")
            installation.stop()
            home.status.unlink(missing_ok=True)
            say(f"Stopped in {time.monotonic() - began:.1f} s")
            lock.close()
        sys.exit(result)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return int(text)


def _lock(home: Home) -> IO[str]:
    """Hold the folder for this process alone. Raises LocalError where another one does."""
    home.make()
    lock = home.lock.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            other = json.loads(home.status.read_text())
            where = f"at {other['url']} (process {other['pid']})"
        except (OSError, ValueError):
            where = "and is just starting or stopping"
        raise LocalError(f"it runs already on {home.root}, {where}") from None
    return lock


def _listen(host: str, wanted: int) -> socket.socket:
    """A listening socket on `wanted`, or on the next free port, saying so. Raises LocalError, OSError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, wanted, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise LocalError(f"--host {host}: {error.strerror}") from None
    for port in range(wanted, min(wanted + _PORTS_TRIED, 65536)):
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], port, *address[2:]))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise LocalError(f"{host}:{port} cannot be listened on: {error.strerror}") from None
            continue
        if port != wanted:
            say(f"Port {wanted} is taken by another program; using {port}")
        return listener
    raise LocalError(f"ports {wanted} to {port} of {host} are all taken")


def _url(host: str, listener: socket.socket) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}"


def _first_steps(installation: Installation, url: str, options: dict[str, Any]) -> int:
    """Show the first administrator's link, ask for the first jobs. Returns their status, 0 or an error's."""
    link = installation.manage("first_admin_link", log=subprocess.PIPE)
    installation.supervisor.wait(link)
    for line in link.stdout or ():
        if line.startswith("/"):
            say(f"Become its first administrator: {url}{line.strip()}")
    if options["no_jobs"]:
        return 0
    arguments = ["first_jobs", "--wait"] if options["once"] else ["first_jobs"]
    return installation.supervisor.wait(installation.manage(*arguments, log=sys.stdout.fileno()))
