"""Bearer secrets: made here, shown once, kept only as their SHA-256."""

from __future__ import annotations

import hashlib
import secrets

#: So that a secret scanner, or a person, knows a leaked token when it sees one.
TOKEN_MARK = "tw_"  # noqa: S105
#: Characters of a token that are kept in the clear, to tell tokens apart.
PREFIX_LENGTH = 9


def make_token() -> str:
    """A new API token of 256 random bits."""
    return TOKEN_MARK + secrets.token_urlsafe(32)


def make_link() -> str:
    """The secret part of a new one-time link, 256 random bits."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """The hexadecimal SHA-256 under which a secret is stored and looked up.

    The secrets are random and long, so an unsalted digest can neither be guessed nor reversed; and looking
    it up in an index gives away nothing about the secret by the time it takes.
    """
    return hashlib.sha256(secret.encode()).hexdigest()
