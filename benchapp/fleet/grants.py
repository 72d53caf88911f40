"""What a GPU host's role may do in this database. The rights belong to a group that the roles are in."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connection, transaction
from psycopg import sql

from benchapp.runs.worker_api import CALLABLE

#: What the fleet's own functions add to those of the runs.
FLEET_CALLABLE = ("report(text, jsonb)", "candidate(text, text)")
#: Postgres cuts longer names off.
NAME_BYTES = 63


def short(name: str) -> str:
    """The name, or its beginning with a digest where Postgres would cut it off."""
    if len(name.encode()) <= NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name.encode()[: NAME_BYTES - 9].decode(errors='ignore')}-{digest[:8]}"


def database_name() -> str:
    return str(connection.settings_dict["NAME"])


def group_name() -> str:
    """The group that holds the rights, one a database."""
    return short(f"{database_name()}_workers")


def execute(statement: str, *names: str, **literals: Any) -> None:
    """A statement that takes no parameters, as CREATE ROLE: names are quoted, then literals."""
    composed = sql.SQL(statement).format(
        *map(sql.Identifier, names), **{key: sql.Literal(value) for key, value in literals.items()}
    )
    with connection.cursor() as cursor:
        cursor.execute(composed)


def column(query: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return [row[0] for row in cursor.fetchall()]


def row(query: str, *parameters: Any) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        found: tuple[Any, ...] = cursor.fetchone()
        return found


def exists(role: str) -> bool:
    return bool(column("SELECT 1 FROM pg_roles WHERE rolname = %s", role))


def apply_grants() -> None:
    """Make the group's rights what they should be, and PUBLIC's; nothing where no host has had a role yet.

    Called after every migration, since that may have made functions anew.
    """
    group, database = group_name(), database_name()
    if not exists(group) or not column("SELECT 1 FROM pg_namespace WHERE nspname = 'worker'"):
        return
    callable_now = column(
        "SELECT f FROM unnest(%s::text[]) f WHERE to_regprocedure('worker.' || f) IS NOT NULL",
        [*CALLABLE, *FLEET_CALLABLE],
    )
    with transaction.atomic():
        execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        execute("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC", database)
        execute("GRANT CONNECT ON DATABASE {} TO {}", database, group)
        execute("GRANT USAGE ON SCHEMA worker TO {}", group)
        execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA worker FROM PUBLIC, {}", group)
        for function in callable_now:
            execute(f"GRANT EXECUTE ON FUNCTION worker.{function} TO {{}}", group)


_EXCESS = """
SELECT p || ' on the database' FROM unnest(ARRAY['CREATE', 'TEMPORARY']) p
WHERE has_database_privilege(%(role)s, current_database(), p)
UNION ALL
SELECT 'CREATE on schema ' || nspname FROM pg_namespace WHERE has_schema_privilege(%(role)s, oid, 'CREATE')
UNION ALL
SELECT 'rights on ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND CASE
    WHEN c.relkind = 'S' THEN has_sequence_privilege(%(role)s, c.oid, 'USAGE, SELECT, UPDATE')
    WHEN c.relkind IN ('r', 'p', 'v', 'm', 'f') THEN
        has_any_column_privilege(%(role)s, c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')
        OR has_table_privilege(%(role)s, c.oid, 'DELETE, TRUNCATE, TRIGGER')
    ELSE false END
UNION ALL
SELECT 'EXECUTE on ' || p.oid::regprocedure FROM pg_proc p
WHERE p.pronamespace = 'worker'::regnamespace AND has_function_privilege(%(role)s, p.oid, 'EXECUTE')
  AND p.oid <> ALL (SELECT to_regprocedure('worker.' || f)::oid FROM unnest(%(callable)s::text[]) f
                    WHERE to_regprocedure('worker.' || f) IS NOT NULL)
"""


def excess(role: str) -> list[str]:
    """Rights in this database that a worker's role should not have."""
    with connection.cursor() as cursor:
        cursor.execute(_EXCESS, {"role": role, "callable": [*CALLABLE, *FLEET_CALLABLE]})
        return [row[0] for row in cursor.fetchall()]
