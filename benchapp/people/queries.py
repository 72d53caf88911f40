"""Reads: people, links that are open, tokens, the audit."""

from __future__ import annotations

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.people.models import ApiToken, AuditEntry, Role, SetupLink, User
from benchapp.people.secrets import digest


def working_admins() -> QuerySet[User]:
    """Admins who can log in: active, and with a password chosen."""
    return (
        User.objects.filter(role=Role.ADMIN, is_active=True)
        .exclude(Q(password="") | Q(password__startswith=UNUSABLE_PASSWORD_PREFIX))
        .order_by("pk")
    )


def open_link(secret: str) -> SetupLink | None:
    """The one-time link of a secret, while it can still be used."""
    link = open_links().select_related("user").filter(digest=digest(secret)).first()
    if link is None or (link.user is None and working_admins().exists()):
        return None
    return None if link.user is not None and not link.user.is_active else link


def open_links() -> QuerySet[SetupLink]:
    """Links neither used nor expired."""
    return SetupLink.objects.filter(used_at=None, expires_at__gt=timezone.now())


def people() -> QuerySet[User]:
    """Everybody, by name."""
    return User.objects.order_by("username")


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """A person's tokens, newest first, dead ones included."""
    return ApiToken.objects.filter(user=user)


def live_tokens_of(user: User) -> QuerySet[ApiToken]:
    """A person's tokens that still open something."""
    alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return tokens_of(user).filter(alive, revoked_at=None)


def audit_page(actor: str, action: str, before: int | None, size: int) -> tuple[list[AuditEntry], int | None]:
    """Up to `size` audit rows, newest first, and the `before` of the next page if there is one.

    `actor` is a whole name, `action` the beginning of one ("token." finds all that happened to tokens); empty
    means any. Pages go by key and not by number, so that the last page costs as little as the first.
    """
    rows = AuditEntry.objects.order_by("-id")
    if actor:
        rows = rows.filter(actor=actor)
    if action:
        rows = rows.filter(action__startswith=action)
    if before is not None:
        rows = rows.filter(id__lt=before)
    found = list(rows[: size + 1])
    return found[:size], (found[size - 1].id if len(found) > size else None)
