from __future__ import annotations

import hashlib
import hmac
import time

from benchapp.alerts.notifiers import http
from benchapp.alerts.notifiers.base import Config, Failure, Message, secret
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.webhook.render import body

#: A shorter secret could be guessed from one signed message.
LEAST_SECRET = 16


def where(config: Config) -> str:
    return str(config["url"])


def signature(key: str, timestamp: str, content: bytes) -> str:
    """HMAC-SHA256 over `timestamp`.`content`, in hex: with the time in it, a receiver can refuse old ones."""
    return hmac.new(key.encode(), timestamp.encode() + b"." + content, hashlib.sha256).hexdigest()


def send(config: Config, message: Message, deadline: Deadline) -> str:
    variable = config["secret_variable"]
    key = secret(variable)
    if len(key) < LEAST_SECRET:
        raise Failure(f"{variable} is shorter than {LEAST_SECRET} characters.", permanent=True)
    content = body(message)
    timestamp = str(int(time.time()))
    headers = {
        "Idempotency-Key": message.key,
        "X-Tilewatch-Event": message.purpose,
        "X-Tilewatch-Timestamp": timestamp,
        "X-Tilewatch-Signature": f"v1={signature(key, timestamp, content)}",
    }
    host, _ = http.host_and_port(http.parse(config["url"]))
    http.post(config["url"], content, headers, deadline, shown=host, secrets=(key,))
    return ""
