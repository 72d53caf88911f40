"""One-time links: the first admin, and passwords of people who were added."""

import io
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from benchapp.people import actions
from benchapp.people.models import Role, SetupLink, User

pytestmark = pytest.mark.django_db


def first_link(*arguments: str) -> str:
    out = io.StringIO()
    call_command("first_admin_link", *arguments, stdout=out)
    return out.getvalue().strip()


def choose(client: Client, link: str, name: str, password: str):
    return client.post(link, {"username": name, "password": password, "again": password})


def test_the_first_admin(password):
    link = first_link()
    client = Client()
    assert client.get(link).status_code == 200
    answer = choose(client, link, "ann", password)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/people/").status_code == 200, "signed in, as an admin"
    assert Client().get(link).status_code == 410
    assert choose(Client(), link, "eve", password).status_code == 410
    assert first_link() == ""
    assert list(User.objects.values_list("username", "role")) == [("ann", Role.ADMIN)]


def test_base_url():
    assert first_link("--base-url", "https://bench.example.org/").startswith(
        "https://bench.example.org/setup/"
    )


def test_a_new_link_replaces_the_old():
    old, new = first_link(), first_link()
    assert (Client().get(old).status_code, Client().get(new).status_code) == (410, 200)


def test_links_end(make_user):
    link = first_link()
    life = SetupLink.objects.get().expires_at - timezone.now()
    assert timedelta(hours=23, minutes=59) < life <= timedelta(hours=24)
    SetupLink.objects.update(expires_at=timezone.now())
    assert Client().get(link).status_code == 410


def test_a_first_link_dies_with_the_first_admin(make_user, password):
    link = first_link()
    make_user("ann", Role.ADMIN)
    assert choose(Client(), link, "eve", password).status_code == 410


def test_nobody_is_admin_before_they_can_log_in(make_user):
    """An admin who never chose a password must not lock the house."""
    actions.add_user(make_user("ann", Role.ADMIN), "bob", Role.ADMIN)
    User.objects.filter(username="ann").update(is_active=False)
    assert first_link() != ""


@pytest.mark.parametrize("secret", ["x", "%00", "é", "a" * 4000])
def test_made_up_links(secret):
    assert Client().get(f"/setup/{secret}/").status_code == 410


@pytest.mark.parametrize(
    ("name", "first", "again", "sentence"),
    [
        ("ann", "short", "short", "too short"),
        ("ann", "correct horse", "correct house", "not the same"),
        ("annabella-smith", "annabella-smith", "annabella-smith", "too similar"),
        ("an n", "correct horse", "correct horse", "valid username"),
        ("", "correct horse", "correct horse", "required"),
    ],
)
def test_bad_choices_do_not_use_the_link_up(name, first, again, sentence):
    link = first_link()
    answer = Client().post(link, {"username": name, "password": first, "again": again})
    assert sentence in answer.content.decode()
    assert not User.objects.exists()
    assert Client().get(link).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_two_at_once_make_one_admin(password):
    secret = first_link().split("/")[-2]
    start = Barrier(2)

    def use(name: str) -> str:
        try:
            start.wait()
            return actions.make_first_admin(secret, name, password).username
        except actions.LinkGoneError:
            return "gone"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(use, ["ann", "bob"]))
    assert results.count("gone") == 1
    assert User.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_at_once_choose_one_password(make_user, password):
    _, secret = actions.add_user(make_user("ann", Role.ADMIN), "bob", Role.VIEWER)
    start = Barrier(2)

    def use(chosen: str) -> bool:
        try:
            start.wait()
            actions.choose_password(secret, chosen)
        except actions.LinkGoneError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(use, ["first password", "second password"])) == [False, True]


def test_somebody_added_chooses_a_password(make_user, signed_in, password):
    admin = signed_in(make_user("ann", Role.ADMIN))
    link = admin.post("/people/", {"username": "bob", "role": "operator"}).context["link"]
    assert link.startswith("http://testserver/setup/")
    client = Client()
    assert "Welcome, bob" in client.get(link).content.decode()
    assert client.post(link, {"password": password, "again": password}).status_code == 302
    assert client.post(link, {"password": password, "again": password}).status_code == 410
    assert Client().login(username="bob", password=password)


def test_a_new_password_ends_old_sessions(make_user, signed_in):
    admin, bob = make_user("ann", Role.ADMIN), make_user("bob")
    session = signed_in(bob)
    _, secret = actions.make_password_link(admin, bob.pk)
    assert session.get("/people/tokens/").status_code == 200
    actions.choose_password(secret, "another password")
    assert session.get("/people/tokens/").status_code == 302


def test_links_of_the_deactivated_are_gone(make_user):
    admin, bob = make_user("ann", Role.ADMIN), make_user("bob")
    _, secret = actions.make_password_link(admin, bob.pk)
    actions.set_active(admin, bob.pk, False)
    with pytest.raises(actions.LinkGoneError):
        actions.choose_password(secret, "another password")
    with pytest.raises(actions.PeopleError, match="deactivated"):
        actions.make_password_link(admin, bob.pk)


def test_links_of_one_kind_do_not_do_the_other(make_user, password):
    first = first_link().split("/")[-2]
    _, own = actions.make_password_link(make_user("bob"), User.objects.get().pk)
    with pytest.raises(actions.LinkGoneError):
        actions.choose_password(first, password)
    with pytest.raises(actions.LinkGoneError):
        actions.make_first_admin(own, "eve", password)
