from __future__ import annotations

import base64
import contextlib
import smtplib
import socket
import ssl
from typing import IO

from benchapp.alerts.notifiers.addresses import connect
from benchapp.alerts.notifiers.base import Config, Failure, Message, said, secret
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.email.form import PLAIN, STARTTLS, TLS
from benchapp.alerts.notifiers.email.render import mail

#: Read of all that a server says in one session.
MAX_ANSWERS = 262_144


class _Answers:
    """Lines of a server, which smtplib would take up without end. Raises OSError beyond MAX_ANSWERS bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = MAX_ANSWERS

    def readline(self, limit: int) -> bytes:
        line = self._file.readline(limit)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"it answered more than {MAX_ANSWERS:,} bytes")
        return line

    def close(self) -> None:
        self._file.close()


class _Session(smtplib.SMTP):
    """SMTP over a connection that is there already: smtplib would look the name up again."""

    file: _Answers | None
    sock: socket.socket | None

    def __init__(self, sock: socket.socket, host: str, hello: str) -> None:
        super().__init__(local_hostname=hello)
        self._ready = sock
        self._host = host  # whose certificate STARTTLS demands

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._ready

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Answers(self.sock.makefile("rb"))
        return super().getreply()


def where(config: Config) -> str:
    to = ", ".join(config["recipients"])
    return f"{to} by {config['host']}:{config['port']}"


def send(config: Config, message: Message, deadline: Deadline) -> str:
    host, port, security = config["host"], config["port"], config["security"]
    password = secret(config["password_variable"]) if config.get("user") else ""
    letter = mail(config, message)
    # Until STARTTLS nothing but a greeting goes over the line, and without it nothing is sent.
    sock = connect(host, port, deadline, encrypted=security != PLAIN, shown=host)
    session: _Session | None = None
    try:
        if security == TLS:
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        session = _Session(sock, host, config["sender"].rpartition("@")[2])
        with deadline.guard(lambda: session.sock if session else None):
            code, greeting = session.connect(host, port)
            if code != 220:
                raise smtplib.SMTPConnectError(code, greeting)
            if security == STARTTLS:
                session.starttls(context=ssl.create_default_context())
            if password:
                session.login(config["user"], password)
            refused = session.send_message(letter, config["sender"], config["recipients"])
            with contextlib.suppress(OSError, smtplib.SMTPException):
                session.putcmd("QUIT")  # the letter was taken: nothing is waited for
    except TimeoutError:
        raise Failure(f"{host} did not answer within {deadline.seconds:g} s.") from None
    except ssl.SSLCertVerificationError as error:
        raise Failure(
            f"{host} has a certificate that is not accepted: {error.verify_message.rstrip('.')}."
        ) from None
    except smtplib.SMTPRecipientsRefused as error:
        raise _refusal(host, error.recipients, _hidden(password)) from None
    except smtplib.SMTPNotSupportedError as error:
        raise Failure(f"{host}: {said(str(error))}", permanent=True) from None
    except smtplib.SMTPResponseException as error:
        words = said(error.smtp_error, *_hidden(password))
        raise Failure(
            f"{host} answered {error.smtp_code}{f': {words}' if words else ''}",
            permanent=error.smtp_code >= 500,
        ) from None
    except (OSError, smtplib.SMTPException) as error:
        words = said(str(error), *_hidden(password)) or type(error).__name__
        raise Failure(f"{host} broke off: {words}.") from None
    finally:
        if session is not None:
            session.close()
        sock.close()
    return _refusal(host, refused, _hidden(password)).sentence if refused else ""


def _hidden(password: str) -> tuple[str, ...]:
    return (password, base64.b64encode(password.encode()).decode())


def _refusal(host: str, refused: dict[str, tuple[int, bytes]], hidden: tuple[str, ...]) -> Failure:
    each = ", ".join(f"{to} ({code} {said(text, *hidden)})" for to, (code, text) in list(refused.items())[:3])
    return Failure(
        f"{host} refused {len(refused)} recipient{'s' if len(refused) > 1 else ''}: {each}",
        permanent=all(code >= 500 for code, _ in refused.values()),
    )
