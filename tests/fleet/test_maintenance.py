"""Drains and windows: nothing new begins, what runs goes on, and it is written down who said so."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.fleet import actions, maintenance
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import queues, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Maintenance, Run, State
from tests.fleet.reporting import report, take, uuid_of

pytestmark = pytest.mark.django_db

GPU = uuid_of("boxa", 0)


@pytest.fixture
def olga() -> User:
    take(report())
    return User.objects.create_user("olga", password="x" * 20, role=Role.OPERATOR)


@pytest.fixture
def operator(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


def ask(queue: str = queues.gpu_arch("sm120")) -> Run:
    request = Request(Run.Kind.GEMM, "a GEMM", queue, {"torch": "1"}, {"n": Run.objects.count()})
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def test_a_window_that_ended_by_itself_is_not_ended_again(olga: User):
    past = timezone.now() - dt.timedelta(hours=1)
    row = Maintenance.objects.create(gpu=GPU, reason="a fan", starts_at=past, ends_at=past)
    assert actions.lift(row.pk, user=olga) is None
    assert not AuditEntry.objects.filter(action="end_maintenance").exists()


def begin() -> None:
    """A minute passes; in a test's transaction time stands still for a worker that claims."""
    Maintenance.objects.update(starts_at=F("starts_at") - dt.timedelta(minutes=1))


def claim(index: int = 0, queue: str = queues.gpu_arch("sm120")) -> bool:
    worker = f"gpu-boxa000{index}@boxa/boxa01"
    return work.claim([queue], worker, gpu=uuid_of("boxa", index)) is not None


def post(client: Client, **form: str):
    return client.post(
        reverse("fleet:take_out"), {"what": f"gpu:{GPU}", "reason": "a loud fan", **form}, follow=True
    )


def written(at: dt.datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}"


def test_a_drained_gpu_takes_no_new_run_and_ends_the_one_it_has(operator):
    ask(), ask()
    assert claim()
    html = post(operator).content.decode()
    assert "GPU 0 of boxa is drained: what runs there goes on, and nothing new begins." in html
    run = Run.objects.get(state=State.RUNNING)
    assert work.beat(run.pk, 1) is work.Beat.CONTINUE
    work.put_back(run.pk, 1)
    begin()
    assert not claim()
    assert claim(index=1), "the other GPU of the host goes on"


def test_ending_a_drain_lets_it_work_again(operator, olga):
    ask()
    row, _ = actions.take_out(user=olga, gpu=GPU, reason="a loud fan")
    begin()
    assert not claim()
    operator.post(reverse("fleet:lift", args=[row.pk]))
    assert claim()
    assert [
        (entry.action, entry.actor, entry.subject) for entry in AuditEntry.objects.order_by("pk")[1:]
    ] == [
        ("start_maintenance", "olga", GPU),
        ("end_maintenance", "olga", GPU),
    ]
    again = operator.post(reverse("fleet:lift", args=[row.pk]), follow=True)
    assert "This had been ended already." in again.content.decode()
    assert AuditEntry.objects.filter(action="end_maintenance").count() == 1


def test_ending_a_drain_wakes_the_queues_that_waited(olga, monkeypatch, django_capture_on_commit_callbacks):
    row, _ = actions.take_out(user=olga, gpu=GPU, reason="a loud fan")
    sent = []
    monkeypatch.setattr("benchapp.runs.broker._send", lambda task, queue, *args: sent.append(queue))
    with django_capture_on_commit_callbacks(execute=True):
        actions.lift(row.pk, user=olga)
    assert queues.gpu(GPU) in sent and queues.gpu_arch("sm120") in sent


def test_two_clicks_are_one_drain(operator):
    post(operator)
    assert "GPU 0 of boxa is drained already: a loud fan" in post(operator, reason="again").content.decode()
    assert Maintenance.objects.count() == 1


def test_a_host_under_maintenance_takes_nothing_new(olga):
    ask(), ask(queues.BUILD)
    ends = timezone.now() + dt.timedelta(hours=2)
    actions.take_out(user=olga, host="boxa", reason="a new switch", ends_at=ends)
    begin()
    assert not claim(index=0) and not claim(index=1)
    assert work.claim([queues.BUILD], "build@boxa/boxa01") is None
    assert work.claim([queues.BUILD], "build@boxb/boxb01") is not None


def test_a_window_holds_from_its_beginning_to_its_end(operator):
    ask()
    now = timezone.now()
    post(
        operator, starts_at=written(now + dt.timedelta(hours=1)), ends_at=written(now + dt.timedelta(hours=3))
    )
    row = Maintenance.objects.get()
    assert maintenance.now().count() == 0
    assert list(maintenance.current_and_coming()) == [row]
    assert claim(), "it has not begun"
    work.put_back(Run.objects.get().pk, 1)
    Maintenance.objects.update(starts_at=Now() - dt.timedelta(hours=1))
    assert not claim()
    assert list(maintenance.now()) == [row]
    Maintenance.objects.update(ends_at=Now() - dt.timedelta(minutes=1))
    assert claim()
    assert not maintenance.current_and_coming().exists()


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"what": "gpu:GPU-nowhere"}, "No GPU or host of this name is known here."),
        ({"what": "host:nowhere"}, "No GPU or host of this name is known here."),
        ({"what": ""}, "This field is required."),
        ({"reason": "  "}, "This field is required."),
        ({"reason": "x" * 301}, "at most 300 characters"),
        ({"ends_at": "2020-01-01T00:00"}, "This is past; expected a time to come."),
        ({"starts_at": "2999-01-02T00:00", "ends_at": "2999-01-01T00:00"}, "It would end before it begins."),
        ({"ends_at": "2999-01-01T00:00"}, "Longer than a year; leave it empty to drain it."),
        ({"ends_at": "tomorrow"}, "Enter a valid date/time."),
    ],
)
def test_a_form_that_makes_no_sense_says_where(operator, form, fault):
    answer = post(operator, **form)
    assert answer.status_code == 400
    assert fault in answer.content.decode()
    assert not Maintenance.objects.exists()


def test_the_form_opens_on_what_the_button_was_of(operator):
    html = operator.get(reverse("fleet:maintenance") + f"?what=gpu:{GPU}").content.decode()
    assert f'<option value="gpu:{GPU}" selected>' in html


def test_of_several_the_longest_holds():
    now = timezone.now()
    short = Maintenance(pk=1, gpu=GPU, starts_at=now, ends_at=now + dt.timedelta(hours=1), reason="short")
    long = Maintenance(pk=2, host="boxa", starts_at=now, ends_at=now + dt.timedelta(hours=9), reason="long")
    drain = Maintenance(pk=3, gpu=GPU, starts_at=now, reason="a loud fan")
    assert maintenance.holding([short, long], host="boxa", uuids=[GPU]) is long
    assert maintenance.holding([short, drain, long], host="boxa", uuids=[GPU]) is drain
    assert maintenance.holding([short, drain], host="boxa", uuids=["GPU-other"]) is None
    assert maintenance.holding([long], host="", uuids=[""]) is None
    assert maintenance.words(drain) == "drained: a loud fan"
