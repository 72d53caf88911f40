"""A run marked invalid: it leaves ranking, stays visible, and comes back."""

from __future__ import annotations

import pytest

from benchapp.ingest.actions import ingest
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import actions, work
from benchapp.runs.models import Document, Job, Latest, Run, State
from benchapp.runs.requests import request_cpu_gemm
from benchapp.web.queries import fastest_gemm
from tests.ingest.documents import body, gemm, measurement
from tests.runs_pages.work import failed_survey, queued_survey, running_survey

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("olga", password="x", role=Role.OPERATOR)
    client.force_login(user)
    return user


def measured(*measurements) -> Run:
    run, _ = request_cpu_gemm("cpu-smoke", user=None, source=Job.Source.COMMAND)
    work.claim([run.queue], "cpu@here")
    document = ingest(work.deliver(run.pk, 1, body(gemm(*measurements))))
    assert document.state == Document.State.ACCEPTED, document.fault
    return run


def good() -> dict[int, float | None]:
    """M → the newest good median."""
    return {latest.series.case.params["m"]: latest.good_median for latest in Latest.objects.all()}


def test_the_newest_good_value_falls_back_to_the_newest_valid_one_and_returns(operator):
    measured(measurement(16, median=1e-3, hour=1), measurement(32, median=1e-3, hour=1))
    middle = measured(measurement(16, median=2e-3, hour=2))
    newest = measured(measurement(16, median=3e-3, hour=3), measurement(64, median=3e-3, hour=3))
    assert good() == {16: 3e-3, 32: 1e-3, 64: 3e-3}
    assert actions.mark_invalid(middle, operator, "the door was open")
    assert good() == {16: 3e-3, 32: 1e-3, 64: 3e-3}
    assert actions.mark_invalid(newest, operator, "the fan had failed")
    assert good() == {16: 1e-3, 32: 1e-3, 64: None}
    latest = Latest.objects.get(series__case__params__m=16)
    assert latest.median == 3e-3, "what is newest stays visible"
    assert actions.mark_invalid(newest, operator, "")
    assert good() == {16: 3e-3, 32: 1e-3, 64: 3e-3}


def test_what_may_not_rank_is_no_value_to_fall_back_to(operator):
    measured(measurement(16, median=1e-3, hour=1, outcome="incorrect"))
    newest = measured(measurement(16, median=3e-3, hour=3))
    actions.mark_invalid(newest, operator, "the fan had failed")
    assert good() == {16: None}


def test_a_document_that_comes_after_the_mark_does_not_rank(operator):
    run, _ = request_cpu_gemm("cpu-smoke", user=None, source=Job.Source.COMMAND)
    work.claim([run.queue], "cpu@here")
    work.fail(run.pk, 1, "timeout", "It took too long.")
    actions.mark_invalid(run, operator, "the host was full")
    ingest(work.deliver(run.pk, 1, body(gemm(measurement(16)))))
    assert Run.objects.get(pk=run.pk).state == State.DONE
    assert good() == {16: None}


def test_only_what_has_ended_can_be_marked_and_marking_twice_does_nothing(operator):
    running = running_survey()
    assert not actions.mark_invalid(running, operator, "early")
    ended = failed_survey()
    assert actions.mark_invalid(ended, operator, "why")
    assert not actions.mark_invalid(ended, operator, "why")
    assert list(AuditEntry.objects.filter(user=operator).values_list("action", "detail")) == [
        ("mark_invalid", {"reason": "why"})
    ]


def test_a_person_marks_a_run_with_a_reason_and_takes_it_back(client, operator):
    run = measured(measurement(16))
    address = f"/runs/{run.pk}/"
    assert "Mark invalid" in client.get(address).content.decode()
    refused = client.post(f"{address}invalid", {"reason": "  "})
    assert refused.status_code == 422 and b"A reason is needed" in refused.content
    page = client.post(f"{address}invalid", {"reason": "the <fan> had failed"}, follow=True).content.decode()
    assert "the &lt;fan&gt; had failed" in page and "takes no part in ranking" in page
    assert good() == {16: None} and fastest_gemm() == []
    assert "not ranked" in client.get("/trends/").content.decode()
    page = client.post(f"{address}valid", follow=True).content.decode()
    assert "takes part in ranking again" in page and "Mark invalid" in page
    assert AuditEntry.objects.filter(action__in=["mark_invalid", "mark_valid"]).count() == 2


def test_a_trend_falls_back_to_the_valid_point_and_time_shows_both(client, operator):
    measured(measurement(16, median=1e-3, hour=1))
    newest = measured(measurement(16, median=3e-3, hour=3))
    actions.mark_invalid(newest, operator, "the fan had failed")
    page = client.get("/trends/").content.decode()
    assert "1.00\N{NO-BREAK SPACE}ms" in page and "not ranked" not in page
    assert "not ranked" in client.get("/trends/?view=time").content.decode()


def test_only_operators_mark_runs(client):
    run = measured(measurement(16))
    for role, status in ((None, 302), (Role.VIEWER, 403)):
        if role:
            client.force_login(User.objects.create_user("vic", password="x", role=role))
        assert "Mark invalid" not in client.get(f"/runs/{run.pk}/").content.decode()
        assert client.post(f"/runs/{run.pk}/invalid", {"reason": "x"}).status_code == status
        assert client.post(f"/runs/{run.pk}/valid").status_code == status
    assert Run.objects.get(pk=run.pk).invalid_reason == ""


def test_a_job_is_cancelled_whole(client, operator):
    done, running = failed_survey("0.6.3"), running_survey("0.6.2")
    job = queued_survey("0.6.1").job
    Run.objects.update(job=job)
    page = client.get(f"/runs/?job={job.pk}").content.decode()
    assert "Cancel all its runs" in page and "1 queued" in page
    said = client.post(f"/runs/jobs/{job.pk}/cancel", follow=True).content.decode()
    assert f"2 runs of job {job.pk}" in said
    states = dict(job.runs.values_list("pk", "state"))
    assert states.pop(running.pk) == State.RUNNING and states.pop(done.pk) == State.FAILED
    assert list(states.values()) == [State.CANCELLED]
    assert Run.objects.get(pk=running.pk).cancel_requested_at is not None
    assert AuditEntry.objects.filter(action="cancel_run", user=operator).count() == 2
    client.logout()
    assert client.post(f"/runs/jobs/{job.pk}/cancel").status_code == 302
    assert "Cancel all its runs" not in client.get(f"/runs/?job={job.pk}").content.decode()
    assert client.get("/runs/?job=99999").status_code == 200
