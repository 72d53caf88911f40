"""Who is asking: a bearer token instead of a session, and whether strangers may read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Never

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from benchapp.people.models import ApiToken, User
from benchapp.people.secrets import digest

GetResponse = Callable[[HttpRequest], HttpResponse]

#: `last_used_at` is right to this; a busy client need not cost a write a request.
USED_AT_RESOLUTION = timedelta(minutes=1)
#: What a stranger may open although reading needs an account.
OPEN_PATHS = (settings.LOGIN_URL, "/setup/", "/healthz", settings.STATIC_URL)


class NoSession(SessionBase):
    """The session of a token's request: empty, never loaded, never stored, never a cookie."""

    def is_empty(self) -> bool:
        return True

    def load(self) -> dict[str, Any]:
        return {}

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None:
        pass

    def save(self, must_create: bool = False) -> None:
        pass

    def delete(self, session_key: str | None = None) -> None:
        pass


class BadTokenError(Exception):
    """A bearer token that opens nothing; the text says why."""


class TokenMiddleware:
    """`Authorization: Bearer …` makes its owner `request.user`, with no more than the token's role.

    Such a request has no session and needs no CSRF token: a browser never sends the header by itself.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return self.get_response(request)
        try:
            request.user = owner_of(secret.strip())
        except BadTokenError as refusal:
            response = JsonResponse({"error": str(refusal)}, status=401)
            response["WWW-Authenticate"] = "Bearer"
            return response
        request.COOKIES.pop(settings.SESSION_COOKIE_NAME, None)
        request.session = NoSession()
        request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
        return self.get_response(request)


def owner_of(secret: str) -> User:
    """The user a bearer token speaks for, with the token as `user.via`.

    Raises BadTokenError with a sentence: the token is unknown, expired or revoked, or its owner deactivated.
    """
    token = ApiToken.objects.select_related("user").filter(digest=digest(secret)).first()
    now = timezone.now()
    if token is None:
        _refuse("The bearer token is unknown: expected one made on /people/tokens/.")
    if token.revoked_at is not None:
        _refuse(f"The token {token} was revoked on {token.revoked_at:%Y-%m-%d}.")
    if token.expires_at is not None and token.expires_at <= now:
        _refuse(f"The token {token} expired on {token.expires_at:%Y-%m-%d}.")
    if not token.user.is_active:
        _refuse(f"The owner of the token {token} is deactivated.")
    if token.last_used_at is None or token.last_used_at <= now - USED_AT_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    user = token.user
    user.via = token
    return user


def _refuse(sentence: str) -> Never:
    raise BadTokenError(sentence)


class ReadingMiddleware:
    """Sends strangers to the login page when ANONYMOUS_READING is off, whatever they ask for."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.ANONYMOUS_READING or request.path.startswith(OPEN_PATHS) or request.user.is_authenticated:
            return self.get_response(request)
        return redirect_to_login(request.get_full_path())
