"""The lock of the environment that runs this: what was installed, and what is odd about the mix."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

NAME = "lock.json"


def text() -> str:
    """As it was written when the environment was built; "" in a Python that no worker built."""
    try:
        return (Path(sys.prefix) / NAME).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def notes() -> tuple[str, ...]:
    """Sentences on a recipe that mixes old and new, for a document's `notes`, and which lock tells all."""
    written = text()
    try:
        lock: dict[str, Any] = json.loads(written)
        told = tuple(str(note) for note in lock["notes"])
    except (ValueError, KeyError, TypeError):
        return ()
    return (*told, f"The environment's lock.json has the SHA-256 {digest(written)}.")


def digest(written: str) -> str:
    return hashlib.sha256(written.encode()).hexdigest()
