"""Writes. Each is one transaction with one audit row; what it refuses it says in a PeopleError."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import login, logout
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from benchapp.catalog.locks import lock
from benchapp.people import queries
from benchapp.people.audit import record
from benchapp.people.models import ROLE_ORDER, ApiToken, Role, SetupLink, User
from benchapp.people.secrets import PREFIX_LENGTH, digest, make_link, make_token

LINK_LIFE = timedelta(hours=24)
#: Longest life of a token, in days.
TOKEN_DAYS = 3650
#: Accounts, and links for the first one, are made one after the other.
ACCOUNTS = "accounts"


class PeopleError(Exception):
    """A write refused; the text is the sentence for the person who asked."""


class LinkGoneError(PeopleError):
    """A one-time link that is unknown, used or expired."""

    def __init__(self) -> None:
        super().__init__("This link has been used, has expired, or was replaced by a newer one.")


@transaction.atomic
def sign_in(request: HttpRequest, user: User) -> None:
    """Open a session under a new key."""
    login(request, user)
    record(user, "login", user.username)


@transaction.atomic
def sign_out(request: HttpRequest, user: User) -> None:
    """End the session; its key opens nothing afterwards."""
    logout(request)
    record(user, "logout", user.username)


@transaction.atomic
def make_first_admin_link() -> str | None:
    """The secret of a new link that makes the first admin; older ones expire. None where an admin exists."""
    lock(ACCOUNTS)
    if queries.working_admins().exists():
        return None
    secret = _new_link(None)
    record(None, "link.make", "first admin")
    return secret


@transaction.atomic
def make_first_admin(secret: str, username: str, password: str) -> User:
    """Use the first admin's link up. Raises LinkGoneError; PeopleError for a name that is taken."""
    lock(ACCOUNTS)
    link = _take_link(secret)
    if link.user is not None:
        raise LinkGoneError
    _refuse_taken(username)
    user = User.objects.create_user(username, password=password, role=Role.ADMIN)
    record(user, "user.add", username, role=Role.ADMIN)
    return user


@transaction.atomic
def add_user(actor: User, username: str, role: Role) -> tuple[User, str]:
    """A person without a password, and the secret of the link to choose one. Raises PeopleError."""
    lock(ACCOUNTS)
    _refuse_taken(username)
    user = User.objects.create_user(username, role=role)
    secret = _new_link(user)
    record(actor, "user.add", username, role=role)
    return user, secret


@transaction.atomic
def make_password_link(actor: User, pk: int) -> tuple[User, str]:
    """The secret of a new link to choose a password; older ones of that person expire. Raises PeopleError."""
    user = _locked(pk)
    if not user.is_active:
        raise PeopleError(f"{user.username} is deactivated: reactivate them before making a link.")
    secret = _new_link(user)
    record(actor, "link.make", user.username)
    return user, secret


@transaction.atomic
def choose_password(secret: str, password: str) -> User:
    """Use a person's link up. Raises LinkGoneError. Sessions under the old password end."""
    user = _take_link(secret).user
    if user is None:
        raise LinkGoneError
    user.set_password(password)
    user.save(update_fields=["password"])
    record(user, "password.set", user.username)
    return user


@transaction.atomic
def set_role(actor: User, pk: int, role: Role) -> User:
    """Give a person a role. Raises PeopleError when that would leave no admin."""
    if role is not Role.ADMIN:
        _keep_an_admin(pk)
    user = _locked(pk)
    before, user.role = user.role, role
    user.save(update_fields=["role"])
    record(actor, "user.role", user.username, before=before, after=role)
    return user


@transaction.atomic
def set_active(actor: User, pk: int, active: bool) -> User:
    """Let a person in, or shut them out at once with their sessions, tokens and links.

    Raises PeopleError when that would leave no admin.
    """
    if not active:
        _keep_an_admin(pk)
    user = _locked(pk)
    user.is_active = active
    user.save(update_fields=["is_active"])
    if not active:
        queries.open_links().filter(user=user).update(expires_at=timezone.now())
    record(actor, "user.reactivate" if active else "user.deactivate", user.username)
    return user


@transaction.atomic
def add_token(actor: User | None, owner: User, name: str, role: Role, days: int) -> tuple[ApiToken, str]:
    """A token for `owner`, and its secret, which nothing keeps. `actor` is None on the command line.

    Raises PeopleError: a role above the owner's, a life outside 1..TOKEN_DAYS, a name in use.
    """
    owner = _locked(owner.pk)
    if ROLE_ORDER.index(role) > ROLE_ORDER.index(Role(owner.role)):
        raise PeopleError(f"A token of {owner.username} can be {owner.role} at most, not {role}.")
    if not 1 <= days <= TOKEN_DAYS:
        raise PeopleError(f"A token lives between 1 and {TOKEN_DAYS} days, not {days}.")
    if queries.live_tokens_of(owner).filter(name=name).exists():
        raise PeopleError(
            f"{owner.username} has a token named “{name}” already: revoke it or choose another name."
        )
    secret = make_token()
    token = ApiToken.objects.create(
        user=owner,
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        digest=digest(secret),
        role=role,
        expires_at=timezone.now() + timedelta(days=days),
    )
    record(actor, "token.add", str(token), owner=owner.username, role=role, days=days)
    return token, secret


@transaction.atomic
def revoke_token(actor: User, pk: int) -> ApiToken:
    """Shut one of the actor's own tokens at once. Raises PeopleError."""
    token = queries.tokens_of(actor).select_for_update().filter(pk=pk).first()
    if token is None:
        raise PeopleError("You have no such token.")
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        record(actor, "token.revoke", str(token))
    return token


def _new_link(user: User | None) -> str:
    now = timezone.now()
    queries.open_links().filter(user=user).update(expires_at=now)
    secret = make_link()
    SetupLink.objects.create(user=user, digest=digest(secret), expires_at=now + LINK_LIFE)
    return secret


def _take_link(secret: str) -> SetupLink:
    """The link, marked as used. Of two that come at once the second waits here, and finds it used."""
    SetupLink.objects.select_for_update().filter(digest=digest(secret)).first()
    link = queries.open_link(secret)
    if link is None:
        raise LinkGoneError
    link.used_at = timezone.now()
    link.save(update_fields=["used_at"])
    return link


def _locked(pk: int) -> User:
    user = User.objects.select_for_update().filter(pk=pk).first()
    if user is None:
        raise PeopleError("There is no such person.")
    return user


def _refuse_taken(username: str) -> None:
    if User.objects.filter(username__iexact=username).exists():
        raise PeopleError(f"The name {username} is taken.")


def _keep_an_admin(leaving: int) -> None:
    """Refuse to lose the last admin. Two who dismiss each other at once meet at the row locks."""
    admins = [user.pk for user in queries.working_admins().select_for_update()]
    if admins == [leaving]:
        raise PeopleError("This is the last admin: make somebody else an admin first.")
