"""Bearer tokens: stored as digests, capped by two roles, shut by expiry, revocation and deactivation."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from benchapp.people import actions
from benchapp.people.audit import record
from benchapp.people.middleware import NoSession, TokenMiddleware
from benchapp.people.models import ApiToken, AuditEntry, Role
from benchapp.people.permissions import needs

pytestmark = pytest.mark.django_db


def bearer(secret: str) -> Client:
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {secret}"})


def make(owner, role=Role.VIEWER, days=1, name="nightly"):
    return actions.add_token(owner, owner, name, role, days)


@needs(Role.OPERATOR)
def operate(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


def ask(secret: str, method: str = "get") -> HttpResponse:
    """One request through the middleware to a view for operators."""
    request = getattr(RequestFactory(), method)("/x/", headers={"Authorization": f"Bearer {secret}"})
    return TokenMiddleware(operate)(request)  # type: ignore[arg-type]  # Django types decorated views wider


def test_a_token_acts_for_its_owner(make_user):
    admin = make_user("ann", Role.ADMIN)
    _, secret = make(admin, Role.ADMIN)
    client = bearer(secret)
    assert client.get("/people/audit/").status_code == 200
    assert "sessionid" not in client.cookies


@pytest.mark.parametrize(
    ("owner", "token", "status"),
    [
        (Role.ADMIN, Role.OPERATOR, 200),
        (Role.ADMIN, Role.VIEWER, 403),
        (Role.OPERATOR, Role.OPERATOR, 200),
        (Role.VIEWER, Role.VIEWER, 403),
    ],
)
def test_the_weaker_role_counts(make_user, owner, token, status):
    _, secret = make(make_user("ann", owner), token)
    answer = ask(secret)
    assert answer.status_code == status
    if status == 403:
        assert b"This needs the role operator" in answer.content


def test_a_demoted_owner_weakens_the_token(make_user):
    ann = make_user("ann", Role.OPERATOR)
    _, secret = make(ann, Role.OPERATOR)
    ann.role = Role.VIEWER
    ann.save()
    assert ask(secret).status_code == 403


def test_saving_the_owner_keeps_their_own_role(make_user):
    ann = make_user("ann", Role.ADMIN)
    token, _ = make(ann, Role.VIEWER)
    ann.via = token
    ann.save()
    ann.refresh_from_db()
    assert (ann.role, ann.effective_role) == (Role.ADMIN, Role.VIEWER)


def test_tokens_that_open_nothing(make_user):
    ann = make_user("ann")
    expired, expired_secret = make(ann, name="a")
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    revoked, revoked_secret = make(ann, name="b")
    actions.revoke_token(ann, revoked.pk)
    bob = make_user("bob")
    _, orphan = make(bob)
    bob.is_active = False
    bob.save()
    for secret, word in [
        (expired_secret, "expired"),
        (revoked_secret, "revoked"),
        (orphan, "deactivated"),
        ("tw_unknown", "unknown"),
        ("", "unknown"),
        ("é\x00" * 50, "unknown"),
    ]:
        answer = ask(secret)
        assert answer.status_code == 401, word
        assert word in answer.content.decode()
        assert answer["WWW-Authenticate"] == "Bearer"
        assert secret == "" or secret not in answer.content.decode()


def test_other_schemes_are_left_alone():
    """A proxy in front may ask for a password of its own."""
    assert Client(headers={"Authorization": "Basic YTpi"}).get("/login/").status_code == 200


def test_a_token_beats_a_session(make_user):
    admin, viewer = make_user("ann", Role.ADMIN), make_user("bob")
    _, secret = make(viewer)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    client.force_login(admin)
    cookie = client.cookies["sessionid"].value
    answer = client.get("/people/audit/")
    assert answer.status_code == 403
    assert "sessionid" not in answer.cookies, "nor does the browser lose its session"
    assert client.cookies["sessionid"].value == cookie


def test_only_token_requests_go_without_csrf(make_user, rf):
    _, secret = make(make_user("ann", Role.ADMIN), Role.ADMIN)
    # The page refuses it for being a token, in JSON, and not for a missing CSRF token.
    answer = bearer(secret).post("/people/", {"username": "eve", "role": "admin"})
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "A token cannot manage people or tokens: log in to do this."},
    )
    assert bearer("tw_unknown").post("/people/").status_code == 401


def test_a_token_request_has_no_session(make_user):
    _, secret = make(make_user("ann"))
    seen: list[HttpRequest] = []

    def view(request: HttpRequest) -> HttpResponse:
        request.session["a"] = 1
        request.session.save()
        seen.append(request)
        return HttpResponse()

    TokenMiddleware(view)(RequestFactory().get("/", headers={"Authorization": f"Bearer {secret}"}))
    assert isinstance(seen[0].session, NoSession)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_session")
        assert cursor.fetchone() == (0,)


def test_last_used_is_written_at_most_once_a_minute(make_user, django_assert_num_queries):
    token, secret = make(make_user("ann", Role.OPERATOR), Role.OPERATOR)
    with django_assert_num_queries(2):
        ask(secret)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    with django_assert_num_queries(1):
        ask(secret)
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=first - timedelta(minutes=2))
    ask(secret)
    token.refresh_from_db()
    assert token.last_used_at >= first


def test_no_secret_is_stored(make_user, signed_in):
    """Every text of every table is searched for the secrets that were shown."""
    admin = make_user("ann", Role.ADMIN)
    client = signed_in(admin)
    page = client.post("/people/tokens/", {"name": "ci", "role": "operator", "days": "30"})
    secret = page.context["secret"]
    assert secret in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    assert ask(secret).status_code == 200
    link = client.post("/people/", {"username": "bob", "role": "viewer"}).context["link"].split("/")[-2]
    assert secret not in client.get("/people/tokens/").content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')  # noqa: S608
            for (row,) in cursor.fetchall():
                assert secret not in row
                assert link not in row


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": "ci", "role": "admin", "days": "30"}, "Select a valid choice"),
        ({"name": "ci", "role": "viewer", "days": "0"}, "greater than or equal to 1"),
        ({"name": "ci", "role": "viewer", "days": "99999999"}, "less than or equal to 3650"),
        ({"name": "", "role": "viewer", "days": "30"}, "required"),
        ({"name": "nightly", "role": "viewer", "days": "30"}, "has a token named “nightly” already"),
    ],
)
def test_tokens_refused(make_user, signed_in, data, sentence):
    ann = make_user("ann", Role.OPERATOR)
    make(ann)
    page = signed_in(ann).post("/people/tokens/", data)
    assert sentence in page.content.decode()
    assert ApiToken.objects.count() == 1


def test_a_token_is_no_stronger_than_its_owner(make_user):
    with pytest.raises(actions.PeopleError, match="can be viewer at most"):
        make(make_user("ann"), Role.OPERATOR)


def test_only_the_owner_revokes(make_user, signed_in):
    ann, admin = make_user("ann"), make_user("bob", Role.ADMIN)
    token, _ = make(ann)
    signed_in(admin).post(f"/people/tokens/{token.pk}/revoke/")
    token.refresh_from_db()
    assert token.revoked_at is None
    signed_in(ann).post(f"/people/tokens/{token.pk}/revoke/")
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_createtoken(make_user):
    make_user("ann", Role.OPERATOR)
    out = io.StringIO()
    call_command("createtoken", "ann", "--name", "host a", "--role", "operator", "--days", "7", stdout=out)
    assert ask(out.getvalue().strip()).status_code == 200
    assert AuditEntry.objects.get(action="token.add").actor == "tilewatch"
    for arguments, sentence in [
        (["bob", "--name", "x"], "no active person named bob"),
        (["ann", "--name", "x", "--role", "admin"], "operator at most"),
        (["ann", "--name", "x", "--days", "0"], "between 1 and 3650 days"),
        (["ann", "--name", "x" * 101], "1 to 100 characters"),
    ]:
        with pytest.raises(CommandError, match=sentence):
            call_command("createtoken", *arguments)


def test_the_audit_names_the_token(make_user):
    ann = make_user("ann", Role.OPERATOR)
    ann.via, _ = make(ann)
    assert record(ann, "job.add", "job 1").detail == {"token": str(ann.via)}
