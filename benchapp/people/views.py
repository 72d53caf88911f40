"""Logging in, first steps by a one-time link, people, own tokens, the audit."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import LoginView
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchapp.people import actions, queries
from benchapp.people.forms import (
    ActiveForm,
    AuditFilter,
    FirstAdminForm,
    LoginForm,
    PasswordForm,
    RoleForm,
    TokenForm,
    UserForm,
)
from benchapp.people.models import AuditEntry, Role, User
from benchapp.people.permissions import acting, needs

PEOPLE_A_PAGE = 100
AUDIT_ROWS_A_PAGE = 100


class Login(LoginView):
    template_name = "people/login.html"
    authentication_form = LoginForm

    def form_valid(self, form: Any) -> HttpResponseRedirect:
        actions.sign_in(self.request, form.get_user())
        return HttpResponseRedirect(self.get_success_url())


@require_POST
def sign_out(request: HttpRequest) -> HttpResponseBase:
    if isinstance(request.user, User):
        actions.sign_out(request, request.user)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, secret: str) -> HttpResponseBase:
    """Choose a password, and for the first admin a name, by a one-time link."""
    link = queries.open_link(secret)
    if link is None:
        return _link_gone(request)
    data = request.POST if request.method == "POST" else None
    form = FirstAdminForm(data) if link.user is None else PasswordForm(link.user, data)
    if form.is_valid():
        try:
            if link.user is None:
                entered = form.cleaned_data
                user = actions.make_first_admin(secret, entered["username"], entered["password"])
            else:
                user = actions.choose_password(secret, form.cleaned_data["password"])
        except actions.LinkGoneError:
            return _link_gone(request)
        except actions.PeopleError as refusal:
            form.add_error(None, str(refusal))
        else:
            actions.sign_in(request, user)
            return redirect(settings.LOGIN_REDIRECT_URL)
    return render(request, "people/setup.html", {"form": form, "person": link.user})


def _link_gone(request: HttpRequest) -> HttpResponse:
    return render(request, "people/link_gone.html", status=410)


@never_cache
@needs(Role.ADMIN, in_person=True)
@require_http_methods(["GET", "POST"])
def people(request: HttpRequest) -> HttpResponseBase:
    """Everybody, and a form to add a person."""
    form = UserForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return _people_page(request, form)
    entered = form.cleaned_data
    try:
        user, secret = actions.add_user(acting(request), entered["username"], Role(entered["role"]))
    except actions.PeopleError as refusal:
        form.add_error(None, str(refusal))
        return _people_page(request, form)
    return _people_page(request, UserForm(), user, secret)


@never_cache
@needs(Role.ADMIN, in_person=True)
@require_POST
def make_link(request: HttpRequest, pk: int) -> HttpResponseBase:
    try:
        user, secret = actions.make_password_link(acting(request), pk)
    except actions.PeopleError as refusal:
        messages.error(request, str(refusal))
        return redirect("people:index")
    return _people_page(request, UserForm(), user, secret)


def _people_page(
    request: HttpRequest, form: UserForm, invited: User | None = None, secret: str = ""
) -> HttpResponse:
    """The page; a link just made is shown in this answer and never again, so there is no redirect."""
    link = request.build_absolute_uri(reverse("people:setup", args=[secret])) if secret else ""
    page = Paginator(queries.people(), PEOPLE_A_PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "roles": Role.choices, "invited": invited, "link": link}
    return render(request, "people/people.html", context)


@needs(Role.ADMIN, in_person=True)
@require_POST
def set_role(request: HttpRequest, pk: int) -> HttpResponseBase:
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "A role is viewer, operator or admin.")
        return redirect("people:index")
    try:
        user = actions.set_role(acting(request), pk, Role(form.cleaned_data["role"]))
    except actions.PeopleError as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"{user.username} is now {user.role}.")
    return redirect("people:index")


@needs(Role.ADMIN, in_person=True)
@require_POST
def set_active(request: HttpRequest, pk: int) -> HttpResponseBase:
    form = ActiveForm(request.POST)
    if not form.is_valid():
        messages.error(request, "A person is either active (1) or deactivated (0).")
        return redirect("people:index")
    try:
        user = actions.set_active(acting(request), pk, form.cleaned_data["active"])
    except actions.PeopleError as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"{user.username} is {'active' if user.is_active else 'deactivated'}.")
    return redirect("people:index")


@never_cache
@needs(Role.VIEWER, in_person=True)
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponseBase:
    """Own tokens; one just made is shown in this answer and never again."""
    owner = acting(request)
    form = TokenForm(owner, request.POST if request.method == "POST" else None)
    secret = ""
    if form.is_valid():
        entered = form.cleaned_data
        try:
            role = Role(entered["role"])
            _, secret = actions.add_token(owner, owner, entered["name"], role, entered["days"])
        except actions.PeopleError as refusal:
            form.add_error(None, str(refusal))
        else:
            form = TokenForm(owner)
    live = set(queries.live_tokens_of(owner).values_list("pk", flat=True))
    context = {"form": form, "tokens": queries.tokens_of(owner), "live": live, "secret": secret}
    return render(request, "people/tokens.html", context)


@needs(Role.VIEWER, in_person=True)
@require_POST
def revoke_token(request: HttpRequest, pk: int) -> HttpResponseBase:
    try:
        token = actions.revoke_token(acting(request), pk)
    except actions.PeopleError as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"The token {token} is revoked.")
    return redirect("people:tokens")


@needs(Role.ADMIN)
@require_GET
def audit(request: HttpRequest) -> HttpResponseBase:
    """Who did what, newest first."""
    form = AuditFilter(request.GET)
    rows: list[AuditEntry] = []
    older = None
    if form.is_valid():
        wanted = form.cleaned_data
        rows, older = queries.audit_page(
            wanted["actor"], wanted["action"], wanted["before"], AUDIT_ROWS_A_PAGE
        )
    next_page = request.GET.copy()
    next_page["before"] = str(older)
    # Pairs, because a template takes `detail.items` for a key of that name.
    shown = [(row, row.detail.items()) for row in rows]
    context = {"form": form, "rows": shown, "older": next_page.urlencode() if older else ""}
    return render(request, "people/audit.html", context)
