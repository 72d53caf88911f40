"""Servers of others, named by DATABASE_URL and REDIS_URL: do they answer? Passwords are never shown."""

from urllib.parse import urlsplit

import psycopg
import redis

from benchapp.local.child import LocalError

_TIMEOUT_S = 3


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname or 'a local socket'}{f':{parts.port}' if parts.port else ''}{parts.path}"


def first_line(error: Exception) -> str:
    """What went wrong; the lines that follow in libpq's messages ask back."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def postgres_complaint(url: str) -> str:
    """Why Postgres at `url` cannot be used now; empty when it answers. Raises LocalError for no such URL."""
    try:
        with psycopg.connect(url, connect_timeout=_TIMEOUT_S):
            return ""
    except psycopg.OperationalError as error:
        return f"Postgres at {_place(url)} does not answer: {first_line(error)}"
    except (psycopg.Error, ValueError):
        raise LocalError("DATABASE_URL: expected postgres://user:password@host:port/name") from None


def redis_complaint(url: str) -> str:
    """Why Redis or Valkey at `url` cannot be used now; empty when it answers. Raises LocalError as above."""
    try:
        client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
        client.ping()
        client.close()
    except redis.RedisError as error:
        return f"Redis at {_place(url)} does not answer: {error}"
    except ValueError:
        raise LocalError("REDIS_URL: expected redis://:password@host:port/0 or rediss://…") from None
    return ""
