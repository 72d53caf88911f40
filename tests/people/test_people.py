"""Roles: who opens what, who changes whom, and what the audit keeps of it."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection, transaction
from django.http import HttpRequest
from django.test import Client

from benchapp.people import actions
from benchapp.people.models import AuditEntry, Role, User

pytestmark = pytest.mark.django_db


def test_strangers_are_sent_to_login_and_back():
    answer = Client().get("/people/audit/?actor=ann&action=x")
    assert answer["Location"] == "/login/?next=/people/audit/%3Factor%3Dann%26action%3Dx"
    assert Client().post("/people/1/role/", {"role": "admin"})["Location"] == "/login/"


@pytest.mark.parametrize("path", ["/people/", "/people/audit/", "/people/1/role/", "/people/1/link/"])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_the_weak_read_which_role_is_needed(make_user, signed_in, path, role):
    answer = signed_in(make_user("ann", role)).get(path)
    assert answer.status_code == 403
    page = answer.content.decode()
    assert "This needs the role admin" in page
    assert f"<strong>{role}</strong>" in page


@pytest.mark.parametrize("path", ["/", "/people/tokens/", "/no/such/page", "/setupx", "/runs/"])
def test_reading_needs_an_account_when_set_so(settings, make_user, signed_in, path):
    settings.ANONYMOUS_READING = False
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/?next=/")
    assert not signed_in(make_user("ann")).get(path).get("Location", "").startswith("/login/")


@pytest.mark.parametrize("path", ["/login/", "/setup/x/", "/healthz"])
def test_what_stays_open(settings, path):
    settings.ANONYMOUS_READING = False
    assert Client().get(path).status_code != 302


def test_tokens_read_where_strangers_may_not(settings, make_user):
    settings.ANONYMOUS_READING = False
    ann = make_user("ann")
    _, secret = actions.add_token(ann, ann, "ci", Role.VIEWER, 1)
    answer = Client(headers={"Authorization": f"Bearer {secret}"}).get("/no/such/page")
    assert answer.status_code == 404


def test_anonymous_reading():
    assert Client().get("/no/such/page").status_code == 404


def test_roles_and_deactivation(make_user, signed_in):
    admin = signed_in(make_user("ann", Role.ADMIN))
    bob = make_user("bob")
    bobs = signed_in(bob)
    admin.post(f"/people/{bob.pk}/role/", {"role": "admin"})
    assert bobs.get("/people/").status_code == 200
    page = admin.post(f"/people/{bob.pk}/active/", {"active": "0"}, follow=True).content.decode()
    assert "bob is deactivated." in page
    assert bobs.get("/people/").status_code == 302, "the session ends at once"
    admin.post(f"/people/{bob.pk}/active/", {"active": "1"})
    bob.refresh_from_db()
    assert bob.is_active


@pytest.mark.parametrize(
    ("path", "data", "sentence"),
    [
        ("role", {"role": "viewer"}, "This is the last admin"),
        ("active", {"active": "0"}, "This is the last admin"),
        ("role", {"role": "king"}, "A role is viewer, operator or admin."),
        ("active", {}, "either active (1) or deactivated (0)"),
    ],
)
def test_refused_changes(make_user, signed_in, path, data, sentence):
    ann = make_user("ann", Role.ADMIN)
    page = signed_in(ann).post(f"/people/{ann.pk}/{path}/", data, follow=True).content.decode()
    assert sentence in page
    ann.refresh_from_db()
    assert ann.may(Role.ADMIN)


def test_an_admin_without_password_does_not_count_as_another(make_user):
    ann = make_user("ann", Role.ADMIN)
    actions.add_user(ann, "bob", Role.ADMIN)
    with pytest.raises(actions.PeopleError, match="last admin"):
        actions.set_role(ann, ann.pk, Role.VIEWER)


def test_nobody_there(make_user, signed_in):
    page = signed_in(make_user("ann", Role.ADMIN)).post("/people/999/role/", {"role": "viewer"}, follow=True)
    assert "There is no such person." in page.content.decode()


@pytest.mark.parametrize("name", ["ann", "ANN"])
def test_names_are_taken_whatever_their_case(make_user, signed_in, name):
    page = signed_in(make_user("ann", Role.ADMIN)).post("/people/", {"username": name, "role": "viewer"})
    assert f"The name {name} is taken." in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_dismiss_each_other_leave_one(make_user):
    ann, bob = make_user("ann", Role.ADMIN), make_user("bob", Role.ADMIN)

    def dismiss_ann() -> str:
        try:
            actions.set_role(bob, ann.pk, Role.VIEWER)
        except actions.PeopleError as refusal:
            return str(refusal)
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            actions.set_role(ann, bob.pk, Role.VIEWER)
            late = pool.submit(dismiss_ann)
            with pytest.raises(TimeoutError):
                late.result(timeout=0.5)
        assert "last admin" in late.result(timeout=10)
    assert list(User.objects.filter(role=Role.ADMIN)) == [ann]


def walk_every_action(admin: User) -> dict[str, str]:
    """Do each action once; returns what each wrote into the audit."""
    written: dict[str, str] = {}

    def did(name: str, *arguments: object) -> Any:
        before = AuditEntry.objects.count()
        result = getattr(actions, name)(*arguments)
        assert AuditEntry.objects.count() == before + 1, name
        written[name] = AuditEntry.objects.latest("id").action
        return result

    request = HttpRequest()
    request.session = SessionStore()
    did("sign_in", request, admin)
    did("sign_out", request, admin)
    User.objects.update(role=Role.VIEWER)
    first = did("make_first_admin_link")
    boss = did("make_first_admin", first, "boss", "correct horse battery")
    bob, _ = did("add_user", boss, "bob", Role.VIEWER)
    _, link = did("make_password_link", boss, bob.pk)
    did("choose_password", link, "correct horse battery")
    did("set_role", boss, bob.pk, Role.OPERATOR)
    did("set_active", boss, bob.pk, False)
    token, _ = did("add_token", boss, boss, "ci", Role.ADMIN, 1)
    did("revoke_token", boss, token.pk)
    return written


def test_every_action_leaves_its_row(make_user):
    written = walk_every_action(make_user("ann", Role.ADMIN))
    public = {
        name
        for name, value in inspect.getmembers(actions, inspect.isfunction)
        if value.__module__ == actions.__name__ and not name.startswith("_")
    }
    assert set(written) == public


def test_a_write_undone_leaves_no_row(make_user):
    ann = make_user("ann", Role.ADMIN)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        actions.add_user(ann, "bob", Role.VIEWER)
        1 / 0  # noqa: B018
    assert not AuditEntry.objects.exists()
    assert not User.objects.filter(username="bob").exists()


def test_the_audit_page(make_user, signed_in):
    ann = make_user("ann", Role.ADMIN)
    client = signed_in(ann)
    AuditEntry.objects.bulk_create(
        AuditEntry(user=ann, actor="ann", action="job.add", subject=f"job {n}", detail={"items": n})
        for n in range(150)
    )
    AuditEntry.objects.create(actor="tilewatch", action="token.add", subject="<b>x</b>")
    page = client.get("/people/audit/")
    assert len(page.context["rows"]) == 100
    assert "&lt;b&gt;x&lt;/b&gt;" in page.content.decode()
    assert "items: 149" in page.content.decode()
    rest = client.get("/people/audit/?" + page.context["older"])
    assert (len(rest.context["rows"]), rest.context["older"]) == (51, "")
    narrow = client.get("/people/audit/", {"actor": "tilewatch", "action": "token."})
    assert [row.subject for row, _ in narrow.context["rows"]] == ["<b>x</b>"]
    assert "before=" in client.get("/people/audit/", {"actor": "ann"}).context["older"]
    assert "No entries match." in client.get("/people/audit/", {"before": "x"}).content.decode()


def test_pages_take_few_queries(make_user, signed_in, django_assert_max_num_queries):
    client = signed_in(make_user("ann", Role.ADMIN))
    for n in range(30):
        make_user(f"user{n}")
    with django_assert_max_num_queries(6):
        assert client.get("/people/").status_code == 200
