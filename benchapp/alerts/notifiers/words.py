"""A message as plain text: what every notifier without a dress of its own sends."""

from __future__ import annotations

import re

from benchapp.alerts.notifiers.base import Message

MAX_SUBJECT = 160


def one_line(text: str, limit: int = MAX_SUBJECT) -> str:
    """Without line breaks and control characters, so that it can stand in a header."""
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def where_to_read(message: Message) -> str:
    """The page's address; where the installation does not know its own, the path of it."""
    return message.link or f"{message.path} on your Tilewatch"


def plain(message: Message) -> str:
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts)
    parts = (message.title, message.sentence, facts, where_to_read(message))
    return "\n\n".join(filter(None, parts)) + "\n"
