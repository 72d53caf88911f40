"""What a view demands of whoever opens it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import render, resolve_url

from benchapp.people.models import Role, User

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def acting(request: HttpRequest) -> User:
    """The person a view acts for. Only behind `needs`, which lets nobody anonymous through."""
    if not isinstance(request.user, User):
        raise TypeError("an anonymous request reached a view that has no @needs")
    return request.user


def may(request: HttpRequest, role: Role) -> bool:
    """Whether whoever looks would pass `needs(role)`: pages show no button that ends in a refusal."""
    return isinstance(request.user, User) and request.user.may(role)


def needs(role: Role, *, in_person: bool = False) -> Callable[[View[P]], View[P]]:
    """Only for `role` and stronger ones; with `in_person`, not for tokens, however strong.

    A stranger is sent to the login page, a weaker role sees a 403 page that names the role needed, and a
    token gets the same sentence as JSON.
    """

    def guard(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            user = request.user
            if not isinstance(user, User):
                return _to_login(request)
            if user.via is not None and in_person:
                sentence = "A token cannot manage people or tokens: log in to do this."
                return JsonResponse({"error": sentence}, status=403)
            if not user.may(role):
                return _forbidden(request, user, role)
            return view(request, *args, **kwargs)

        return guarded

    return guard


def _to_login(request: HttpRequest) -> HttpResponseBase:
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(request.get_full_path())
    # Coming back by GET to an address that only takes a POST would end in an error.
    return HttpResponseRedirect(resolve_url(settings.LOGIN_URL))


def _forbidden(request: HttpRequest, user: User, role: Role) -> HttpResponseBase:
    if user.via is not None:
        sentence = f"This needs the role {role}; the token {user.via} may act as {user.effective_role}."
        return JsonResponse({"error": sentence}, status=403)
    context = {"needed": role, "has": user.effective_role}
    return render(request, "people/forbidden.html", context, status=403)
