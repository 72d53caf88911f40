"""Real servers on loopback: HTTP with answers told beforehand, and SMTP."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    #: Seconds that pass between two bytes of the answer; the first comes at once.
    drip_s: float = 0.0


class Hook:
    """A webhook's server: answers in turn as `answers` says, the last one for ever, and keeps what it was
    asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: list[Answer] = [Answer()]
        self.asked: list[Asked] = []
        self.over = threading.Event()

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _handler(hook: Callable[[], Hook]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook().asked.append(Asked(self.path, dict(self.headers), body))
            answer = hook().next_answer()
            if answer.drip_s:
                for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000:
                    with contextlib.suppress(OSError):
                        self.wfile.write(bytes([byte]))
                    if hook().over.wait(answer.drip_s):
                        return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextlib.contextmanager
def http_server(pem: Path | None = None, host: str = "127.0.0.1") -> Iterator[Hook]:
    hook: Hook
    server = ThreadingHTTPServer((host, 0), _handler(lambda: hook))
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # type: ignore[method-assign]  # clients that go are meant
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hook = Hook(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Mailbox:
    """An aiosmtpd handler that keeps letters, and refuses recipients and letters as told."""

    def __init__(self) -> None:
        self.letters: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.refuse: dict[str, str] = {}
        self.answers: list[str] = []
        self.port = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.answers:
            return self.answers.pop(0)
        letter = message_from_bytes(envelope.content, policy=policy.default)
        self.letters.append(letter)
        self.recipients.append(envelope.rcpt_tos)
        return "250 OK"


@contextlib.contextmanager
def smtp_server(pem: Path | None = None, login: tuple[str, str] | None = None) -> Iterator[Mailbox]:
    """With a certificate, STARTTLS is demanded before anything else; with `login`, that too."""
    box = Mailbox()

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, told: Any) -> AuthResult:
        assert isinstance(told, LoginPassword)
        box.logins.append((told.login, told.password))
        right = login is not None and (told.login, told.password) == tuple(each.encode() for each in login)
        return AuthResult(success=right, handled=False)

    context = None
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as free:
        box.port = free.getsockname()[1]
    controller = Controller(
        box, hostname="127.0.0.1", port=box.port, tls_context=context, require_starttls=context is not None,
        authenticator=authenticate, auth_required=login is not None, auth_require_tls=context is not None,
    )  # fmt: skip
    controller.start()
    try:
        yield box
    finally:
        controller.stop()
