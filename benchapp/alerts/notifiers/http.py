"""One POST of JSON, by the rules of every webhook: a checked address, TLS verified, nothing followed."""

from __future__ import annotations

import datetime as dt
import email.utils
import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from benchapp.alerts.notifiers.addresses import check_literal, connect
from benchapp.alerts.notifiers.base import Failure, said
from benchapp.alerts.notifiers.deadline import Deadline

MAX_URL = 500
#: Read of an answer, to show part of it where it is a refusal.
MAX_ANSWER = 16_384
AGENT = "Tilewatch"
_EXPECTED = "expected https://, a host, and maybe a port, a path and a query"


def parse(url: str) -> SplitResult:
    """Raises Failure, whose sentence says nothing of the URL: it may be a secret."""
    fault = ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Failure(f"This is no address: {_EXPECTED}.", permanent=True) from None
    if len(url) > MAX_URL or not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        fault = f"It is longer than {MAX_URL} characters, or holds spaces or others than ASCII"
    elif parts.scheme not in ("http", "https"):
        fault = "Its scheme is neither https nor http"
    elif "@" in parts.netloc or parts.fragment:
        fault = "It holds a name, a password or a fragment"
    elif not parts.hostname or port == 0:
        fault = "It names no host, or port 0"
    if fault:
        raise Failure(f"{fault}: {_EXPECTED}.", permanent=True)
    return parts


def host_and_port(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def check_url(url: str) -> str:
    """A URL as a form takes it. Raises Failure."""
    parts = parse(url)
    check_literal(*host_and_port(parts))
    return url


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    deadline: Deadline,
    *,
    shown: str,
    secrets: tuple[str, ...],
) -> None:
    """Send `body`. Any 2xx is success; else Failure is raised. `shown` names the server in sentences, and
    none of `secrets` stands in them."""
    parts = parse(url)
    host, port = host_and_port(parts)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    encrypted = parts.scheme == "https"
    connection = http.client.HTTPConnection(host, port)
    try:
        sock = connection.sock = connect(host, port, deadline, encrypted=encrypted, shown=shown)
        with deadline.guard(lambda: connection.sock):
            if encrypted:
                context = ssl.create_default_context()
                connection.sock = context.wrap_socket(sock, server_hostname=host)
            sent = {"Host": parts.netloc, "User-Agent": AGENT, "Content-Type": "application/json", **headers}
            connection.request("POST", path, body=body, headers={**sent, "Connection": "close"})
            answer = connection.getresponse()
            status, asked = answer.status, answer.headers.get("Retry-After", "")
            text = b"" if 200 <= status < 300 else answer.read(MAX_ANSWER)
    except TimeoutError:
        raise Failure(f"{shown} did not answer within {deadline.seconds:g} s.") from None
    except ssl.SSLCertVerificationError as error:
        words = said(error.verify_message, *secrets).rstrip(".")
        raise Failure(f"{shown} has a certificate that is not accepted: {words}.") from None
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"{shown} broke off: {said(str(error), *secrets) or type(error).__name__}.") from None
    finally:
        connection.close()
    _judge(status, text, asked, shown, secrets)


def _judge(status: int, text: bytes, asked: str, shown: str, secrets: tuple[str, ...]) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise Failure(
            f"{shown} answered with a redirect ({status}), which is never followed.", permanent=True
        )
    words = said(text, *secrets)
    sentence = f"{shown} answered {status}{f': {words}' if words else ''}"
    later = status in (408, 425, 429) or status >= 500
    raise Failure(sentence, permanent=not later, retry_after_s=retry_after(asked) if later else None)


def retry_after(text: str) -> float | None:
    """Seconds of a Retry-After, which is a number or a date; None where it is neither."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    return max((at - dt.datetime.now(dt.UTC)).total_seconds(), 0.0)
