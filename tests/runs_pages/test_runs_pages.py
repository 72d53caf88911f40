"""The list of runs and a run's own page, from runs that went the product's way."""

from __future__ import annotations

import hashlib

import pytest
from django.urls import reverse

from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import queries
from benchapp.runs.models import Run, State
from tests.ingest.documents import measurement
from tests.querycount import at_most
from tests.runs_pages.work import failed_survey, gemm_done, many, queued_survey, running_survey

pytestmark = pytest.mark.django_db


def page(client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def operator(client):
    user = User.objects.create_user("olga", password="x", role=Role.OPERATOR)
    client.force_login(user)
    return user


# the list


def test_an_empty_list_says_how_to_ask(client):
    assert "manage.py survey --flashinfer 0.6.3" in page(client, "/runs/")


@pytest.mark.parametrize("number", [0, 1, 300])
def test_the_list_asks_at_most_six_queries(client, number):
    many(number)
    with at_most(6):
        page(client, "/runs/")


def test_the_list_shows_state_progress_and_failure(client):
    failed_survey()
    running_survey()
    html = page(client, "/runs/")
    assert "There is no FlashInfer 9.9.9." in html
    assert 'max="40" value="14"' in html
    assert "1 under way" in html and "1 failed" in html


def test_filters_select_by_state_and_kind(client):
    failed, (done, _) = failed_survey(), gemm_done()
    html = page(client, "/runs/?state=failed")
    assert reverse("runs:detail", args=[failed.pk]) in html
    assert reverse("runs:detail", args=[done.pk]) not in html
    assert reverse("runs:detail", args=[failed.pk]) not in page(client, "/runs/?kind=gemm")
    assert "No run matches these filters" in page(client, "/runs/?kind=gemm&state=failed")


def test_pages_keep_the_filters_and_a_page_that_does_not_exist_is_the_last(client):
    many(120)
    assert 'href="?state=queued&amp;page=2"' in page(client, "/runs/?state=queued")
    assert "Page 3 of 3" in page(client, "/runs/?page=999")
    assert "Page 1 of 3" in page(client, "/runs/?page=x")
    assert 'href="/runs/"' in page(client, "/runs/?page=2")


def test_a_filter_that_means_nothing_says_so(client):
    html = page(client, "/runs/?state=%3Cscript%3E")
    assert "State: “&lt;script&gt;” cannot be used" in html


# one run


def test_a_run_that_does_not_exist_is_named(client):
    response = client.get("/runs/99999/")
    assert response.status_code == 404
    assert b"There is no run 99999." in response.content


def test_a_done_run_shows_results_documents_and_the_command_that_repeats_it(client):
    run, document = gemm_done(measurement(1), measurement(16, outcome="crashed", error="Boom <b>"))
    html = page(client, reverse("runs:detail", args=[run.pk]))
    assert "gemm bf16 1 × 1024 × 1024" in html
    assert "▲ crashed" in html and "Boom &lt;b&gt;" in html
    assert document.sha256 in html
    assert "python -m workers.bench gemm" in html
    assert "hx-get" not in html.partition('id="progress"')[2].partition(">")[0]


@pytest.mark.parametrize("cases", [1, 40])
def test_a_run_asks_at_most_six_queries(client, cases):
    run, _ = gemm_done(*[measurement(m) for m in range(1, cases + 1)])
    with at_most(6):
        page(client, reverse("runs:detail", args=[run.pk]))


def test_a_failed_run_says_why_and_keeps_its_log_escaped_and_readable(client):
    run = failed_survey()
    html = page(client, reverse("runs:detail", args=[run.pk]))
    assert "There is no FlashInfer 9.9.9." in html
    assert "pip install torch\ndone\n&lt;script&gt;alert" in html.replace("\r", "")


def test_a_long_log_is_cut_on_the_page_and_whole_as_text(client):
    log = "".join(f"line {n}\n" for n in range(20_000))
    run = running_survey(log=log)
    html = page(client, reverse("runs:detail", args=[run.pk]))
    assert "line 19999" in html and "line 500\n" not in html
    assert len(html) < 60_000
    response = client.get(reverse("runs:log", args=[run.pk, 1]))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response.content.decode() == log
    assert client.get(reverse("runs:log", args=[run.pk, 2])).status_code == 404


def test_a_document_comes_back_byte_for_byte(client):
    _, document = gemm_done()
    response = client.get(reverse("runs:document", args=[document.pk]))
    assert hashlib.sha256(response.content).hexdigest() == document.sha256
    assert response["Content-Type"] == "application/json"
    assert client.get("/runs/documents/99999.json").status_code == 404


# waiting


def test_a_queued_run_tells_its_turn():
    first, second = queued_survey("0.6.1"), queued_survey("0.6.2")
    assert queries.why_it_waits(first).startswith("Next in queue build; a worker that is free")
    assert queries.why_it_waits(second) == "Number 2 in queue build."
    Run.objects.filter(pk=first.pk).update(state=State.RUNNING)
    assert queries.why_it_waits(second) == "Next in queue build, which is busy."
    second.waits_for = Run.objects.get(pk=first.pk)
    assert queries.why_it_waits(second) == f"Waits for run {first.pk} ({first.job.title}) to end."


# the polled fragment


def test_the_fragment_is_not_sent_again_while_nothing_changes(client):
    run = running_survey()
    url = reverse("runs:progress", args=[run.pk])
    first = client.get(url)
    assert client.get(url, headers={"If-None-Match": first["ETag"]}).status_code == 304
    Run.objects.filter(pk=run.pk).update(progress_done=15)
    assert client.get(url, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_the_page_carries_the_etag_of_what_it_shows(client):
    run = running_survey()
    etag = client.get(reverse("runs:progress", args=[run.pk]))["ETag"].strip('"')
    assert f"&quot;{etag}&quot;" in page(client, reverse("runs:detail", args=[run.pk]))


def test_the_fragment_of_an_ended_run_reloads_the_page_and_polls_no_more(client):
    run = failed_survey()
    response = client.get(reverse("runs:progress", args=[run.pk]), headers={"HX-Request": "true"})
    assert response["HX-Refresh"] == "true"
    assert b"hx-trigger" not in response.content


# cancelling


def test_only_operators_see_and_use_cancel(client):
    run = running_survey()
    detail, cancel = reverse("runs:detail", args=[run.pk]), reverse("runs:cancel", args=[run.pk])
    assert "Cancel run" not in page(client, detail)
    assert client.post(cancel).status_code == 302
    client.force_login(User.objects.create_user("vic", password="x", role=Role.VIEWER))
    assert "Cancel run" not in page(client, detail)
    assert client.post(cancel).status_code == 403
    run.refresh_from_db()
    assert run.cancel_requested_at is None


def test_a_running_run_is_asked_to_stop(client, operator):
    run = running_survey()
    html = page(client, reverse("runs:detail", args=[run.pk]))
    assert "Cancel run" in html
    response = client.post(reverse("runs:cancel", args=[run.pk]), follow=True)
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    assert b"is asked to stop" in response.content
    assert AuditEntry.objects.filter(action="cancel_run", user=operator).count() == 1


def test_a_queued_run_is_cancelled_at_once_and_an_ended_one_stays(client, operator):
    run = queued_survey()
    assert b"is cancelled." in client.post(reverse("runs:cancel", args=[run.pk]), follow=True).content
    run.refresh_from_db()
    assert run.state == State.CANCELLED
    done, _ = gemm_done()
    response = client.post(reverse("runs:cancel", args=[done.pk]), follow=True)
    assert b"had ended already" in response.content
    assert client.get(reverse("runs:cancel", args=[done.pk])).status_code == 405
