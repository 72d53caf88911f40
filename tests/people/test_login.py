"""Logging in: guesses locked, sessions renewed, nothing told, nobody sent elsewhere."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from benchapp.people import throttle
from benchapp.people.models import AuditEntry, LoginAttempt, Role

pytestmark = pytest.mark.django_db
WRONG = "This name and password do not belong together."


def try_login(client: Client, name: str, password: str, **extra: Any):
    return client.post("/login/", {"username": name, "password": password}, **extra)


def test_login_and_logout(make_user, password):
    make_user("ann")
    client = Client()
    answer = try_login(client, "ann", password)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/people/tokens/").status_code == 200
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/").status_code == 302
    assert client.get("/people/tokens/").status_code == 302
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == ["login", "logout"]


def test_a_wrong_name_and_a_wrong_password_read_the_same(make_user):
    make_user("ann")
    inactive = make_user("old")
    inactive.is_active = False
    inactive.save()
    pages = [try_login(Client(), name, "wrong password").content.decode() for name in ("ann", "bob", "old")]
    assert all(WRONG in page for page in pages)


def test_a_name_is_locked_for_an_address(make_user, password):
    make_user("ann")
    for _ in range(throttle.ATTEMPTS):
        assert WRONG in try_login(Client(), "ann", "wrong password").content.decode()
    locked = try_login(Client(), "ann", password).content.decode()
    assert "Too many tries for this name from your address. Try again in 10 minutes." in locked
    assert "Too many tries" in try_login(Client(), "Ann", password).content.decode(), "case is no way round"
    assert try_login(Client(), "ann", password, REMOTE_ADDR="192.0.2.7").status_code == 302
    entry = AuditEntry.objects.get(action="login.lock")
    assert (entry.subject, entry.detail) == ("ann", {"address": "127.0.0.1"})


def test_an_unknown_name_is_locked_alike():
    for _ in range(throttle.ATTEMPTS):
        try_login(Client(), "nobody", "wrong password")
    assert "Too many tries" in try_login(Client(), "nobody", "wrong password").content.decode()


def test_the_lock_ends(make_user, password):
    make_user("ann")
    for _ in range(throttle.ATTEMPTS):
        try_login(Client(), "ann", "wrong password")
    LoginAttempt.objects.update(at=timezone.now() - throttle.WINDOW - timedelta(seconds=1))
    assert try_login(Client(), "ann", password).status_code == 302
    assert not LoginAttempt.objects.exists(), "a login clears its tries, and old ones are swept"


@pytest.mark.django_db(transaction=True)
def test_tries_at_once_do_not_slip_past():
    def one(_: int) -> bool:
        try:
            throttle.count_try("ann", "192.0.2.1")
        except throttle.LockedOutError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        passed = sum(pool.map(one, range(24)))
    assert passed <= throttle.ATTEMPTS


@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote", "address"),
    [
        (0, "203.0.113.9", "192.0.2.1", "192.0.2.1"),
        (1, "6.6.6.6, 203.0.113.9", "192.0.2.1", "203.0.113.9"),
        (2, "6.6.6.6, 203.0.113.9, 192.0.2.9", "192.0.2.1", "203.0.113.9"),
        (1, "", "192.0.2.1", ""),
        (1, "junk", "192.0.2.1", ""),
        (0, "", "2001:db8::1:2:3:4", "2001:db8::"),
        (0, "", "::ffff:192.0.2.1", "192.0.2.1"),
        (0, "", "", ""),
    ],
)
def test_address(settings, proxies, forwarded, remote, address):
    settings.TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", headers={"X-Forwarded-For": forwarded}, REMOTE_ADDR=remote)
    assert throttle.address_of(request) == address


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil"]
)
def test_next_stays_here(make_user, password, target):
    make_user("ann")
    answer = Client().post("/login/", {"username": "ann", "password": password, "next": target})
    assert answer["Location"] == "/"


def test_next_is_followed_here(make_user, password):
    make_user("ann")
    page = Client().get("/login/", {"next": "/runs/?gpu=a&b=c"}).content.decode()
    assert 'name="next" value="/runs/?gpu=a&amp;b=c"' in page
    answer = Client().post("/login/", {"username": "ann", "password": password, "next": "/runs/"})
    assert answer["Location"] == "/runs/"


def test_a_session_known_before_login_opens_nothing_after(make_user, password):
    make_user("ann")
    client = Client()
    session = client.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    try_login(client, "ann", password)
    assert client.session.session_key != planted
    stranger = Client()
    stranger.cookies["sessionid"] = planted or ""
    assert stranger.get("/people/tokens/").status_code == 302


def test_posts_need_a_csrf_token(make_user, password):
    admin = make_user("ann", Role.ADMIN)
    client = Client(enforce_csrf_checks=True)
    assert try_login(client, "ann", password).status_code == 403
    client.force_login(admin)
    assert client.post("/people/", {"username": "bob", "role": "admin"}).status_code == 403
    assert client.post("/logout/").status_code == 403


@pytest.mark.parametrize("name", ["", "a\x00b", "x" * 5000, "😀" * 150])
def test_hostile_names(name):
    assert try_login(Client(), name, "wrong password").status_code == 200


def test_headers():
    answer = Client().get("/login/")
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe-" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert "no-store" in answer["Cache-Control"]
    page = answer.content.decode()
    assert " style=" not in page
    assert "<style" not in page
    assert "<script>" not in page
