"""Certificates made by openssl, and TLS in front of a real server: the servers in the wheels have none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

#: What libpq says before TLS: a length and the code of SSLRequest.
SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def need_openssl() -> None:
    if shutil.which("openssl") is None:
        assert not os.environ.get("CI"), "openssl is not installed"
        pytest.skip("openssl is not installed, so no certificates can be made")


@dataclass(frozen=True)
class Authority:
    """A certificate authority of its own, in a folder."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.crt"

    def make(self) -> Authority:
        openssl(
            self.folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", f"/CN={self.name}", "-keyout", f"{self.name}.key", "-out", f"{self.name}.crt",
        )  # fmt: skip
        return self

    def sign(self, host: str, days: int = 1) -> Path:
        """Certificate and key of a server in one file; with negative `days` it has expired."""
        server = f"{self.name}-{host}-{days}"
        extension = self.folder / f"{server}.ext"
        kind = "IP" if host[0].isdigit() else "DNS"
        extension.write_text(f"subjectAltName={kind}:{host}\n")
        openssl(
            self.folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}",
            "-keyout", f"{server}.key", "-out", f"{server}.csr",
        )  # fmt: skip
        openssl(
            self.folder, "x509", "-req", "-in", f"{server}.csr", "-CA", f"{self.name}.crt",
            "-CAkey", f"{self.name}.key", "-CAcreateserial", "-days", str(days),
            "-extfile", extension.name, "-out", f"{server}.crt",
        )  # fmt: skip
        both = self.folder / f"{server}.pem"
        both.write_text("".join((self.folder / f"{server}.{part}").read_text() for part in ("crt", "key")))
        return both


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


@contextlib.contextmanager
def in_front_of(port: int, pem: Path, *, postgres: bool) -> Iterator[int]:
    """The port at which a server on loopback answers over TLS alone; a plain connection is closed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if postgres:
                if await reader.readexactly(8) != SSL_REQUEST:
                    return
                writer.write(b"S")
                await writer.drain()
            await writer.start_tls(context)
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, back_writer), _pump(back_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    # in a thread from start to end: where a browser's test ran before, this one has a running loop already
    thread = threading.Thread(target=_run, args=(loop,), daemon=True)
    thread.start()
    server = _in(loop, asyncio.start_server(serve, "127.0.0.1", 0))
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(10)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Until it is stopped; then what is still open is closed."""
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
