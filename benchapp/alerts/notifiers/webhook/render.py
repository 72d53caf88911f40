from __future__ import annotations

import json

from benchapp.alerts.notifiers.base import Message

#: Of the body's form; a receiver may rely on what it knows of it.
VERSION = 1


def body(message: Message) -> bytes:
    """Canonical: the same message has the same bytes at each try."""
    told = {
        "version": VERSION,
        "id": message.key,
        "thread": message.thread,
        "event": message.purpose,
        "title": message.title,
        "sentence": message.sentence,
        "facts": dict(message.facts),
        "path": message.path,
        "link": message.link or None,
        "alert": message.alert or None,
    }
    return json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
