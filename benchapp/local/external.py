"""Servers of others, named by DATABASE_URL and REDIS_URL: do they answer? Passwords are never shown."""

from urllib.parse import urlsplit

import psycopg
import redis

_TIMEOUT_S = 3


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname or 'a local socket'}{f':{parts.port}' if parts.port else ''}{parts.path}"


def postgres_complaint(url: str) -> str:
    """Why Postgres at `url` cannot be used now; empty when it answers."""
    try:
        with psycopg.connect(url, connect_timeout=_TIMEOUT_S):
            return ""
    except psycopg.OperationalError as error:
        return f"Postgres at {_place(url)} does not answer: {str(error).strip().splitlines()[-1]}"
    except (psycopg.Error, ValueError):
        return "expected postgres://user:password@host:port/name"


def redis_complaint(url: str) -> str:
    """Why Redis or Valkey at `url` cannot be used now; empty when it answers."""
    try:
        client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
        client.ping()
        client.close()
    except redis.RedisError as error:
        return f"Redis at {_place(url)} does not answer: {error}"
    except ValueError:
        return "expected redis://:password@host:port/0 or rediss://…"
    return ""
