"""Every write leaves one row here, in the transaction that makes it."""

from __future__ import annotations

from typing import Any

from benchapp.people.models import AuditEntry, User

#: The actor of what nobody in particular asked for.
SYSTEM = "tilewatch"


def record(user: User | None, action: str, subject: str, **detail: Any) -> AuditEntry:
    """Append an audit row; call it inside the transaction of the write it speaks of.

    A write that came with an API token names the token in its detail.
    """
    if user is not None and user.via is not None:
        detail["token"] = str(user.via)
    actor = user.get_username() if user is not None else SYSTEM
    return AuditEntry.objects.create(user=user, actor=actor, action=action, subject=subject, detail=detail)
