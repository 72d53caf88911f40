"""Health, and what people see when something is wrong."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from tests.runs_pages.work import running_survey

pytestmark = pytest.mark.django_db


def test_health_tells_both_servers_and_the_newest_heartbeat(client):
    assert client.get("/healthz").json() == {
        "status": "up", "database": "up", "broker": "up", "newest_heartbeat": None,
        "detection_lag_s": None, "detection_due": None,
    }  # fmt: skip
    run = running_survey()
    assert client.get("/healthz").json()["newest_heartbeat"] == run.heartbeat_at.isoformat()


def test_health_without_a_broker_is_down_but_served(client, settings):
    settings.CELERY_BROKER_URL = "redis://:very-secret@127.0.0.1:1/0"
    response = client.get("/healthz")
    assert response.status_code == 200
    assert (response.json()["status"], response.json()["broker"]) == ("down", "down")
    assert b"secret" not in response.content


def test_health_without_postgres_is_503_and_says_no_secret(client, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    connection.close()
    response = client.get("/healthz")
    assert response.status_code == 503
    assert response.json()["database"] == "down"
    assert connection.settings_dict["PASSWORD"] not in response.content.decode()


@pytest.fixture
def broken(settings) -> Client:
    settings.ROOT_URLCONF = "tests.web.urls"
    return Client(raise_request_exception=False)


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("/breaks", 500, "Tilewatch stumbled"),
        ("/database-away", 503, "The database does not answer"),
        ("/forbidden", 403, "Not allowed"),
        ("/suspicious", 400, "The request was not understood"),
        ("/nowhere/<script>", 404, "No page has the address <code>/nowhere/&lt;script&gt;</code>."),
    ],
)
def test_each_fault_has_its_page_in_the_same_look(broken, url, status, words):
    response = broken.get(url)
    assert response.status_code == status
    html = response.content.decode()
    assert words in html
    assert "css/tokens.css" in html
    assert "secret" not in html and "10.0.0.1" not in html
    assert "script-src 'self'" in response["Content-Security-Policy"]


def test_a_form_without_its_token_gets_a_page_that_says_what_to_do(broken):
    client = Client(enforce_csrf_checks=True)
    response = client.post("/runs/1/cancel")
    assert response.status_code == 403
    assert b"The form is too old" in response.content
