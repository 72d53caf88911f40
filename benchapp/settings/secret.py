"""Secrets that an installation makes for itself at first use, and then keeps."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path


def lasting_secret(path: Path) -> str:
    """The word in `path`, made where there is none yet; all who ask at the same time get the same one.

    Raises ValueError with a sentence where the file holds anything but one printable word, OSError.
    """
    if word := _read(path):
        return word
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        # file systems without locks on folders remain: there two first starts at once may disagree
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not (word := _read(path)):
            word = secrets.token_urlsafe(48)
            write_private(path, word)
        return word
    finally:
        os.close(lock)


def _read(path: Path) -> str:
    """Empty where the file is missing or empty, as a full disk may leave it."""
    try:
        word = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        word = " "
    if not word.isprintable() or " " in word:
        raise ValueError(
            f"{path} is damaged: expected one word of ASCII characters; restore it from a backup"
        )
    return word


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
