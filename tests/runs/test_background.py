"""Deep surveys run while nobody needs the host."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection

from benchapp.ingest.actions import ingest
from benchapp.people.models import User
from benchapp.runs import actions, work
from benchapp.runs.actions import Request
from benchapp.runs.models import Attempt, Document, Job, Run, State
from benchapp.runs.requests import DEEP_PRIORITY, SWEEP_PRIORITY, request_exploration, request_survey
from benchapp.runs.work import Beat
from tests.tiles.surveys import survey, variant
from workers.commands import survey_arguments

pytestmark = pytest.mark.django_db(transaction=True)

BUILDER, BENCHER = "build@host/0123", "cpu@host/0123"


def deep(version: str = "0.6.3") -> Run:
    return request_survey(version, "sm120", user=None, source=Job.Source.COMMAND, tier="full")[0]


def types(version: str = "0.7.4") -> Run:
    return request_survey(version, "sm120", user=None, source=Job.Source.PERSON)[0]


def gemm(number: int = 0) -> Run:
    request = Request(Run.Kind.GEMM, "gemm", "cpu", {"torch": "2.13.0"}, {"number": number})
    return actions.request_run(request, user=None, source=Job.Source.FIRST_START)[0]


def claimed(queue: str, worker: str) -> Run:
    run = work.claim([queue], worker)
    assert run is not None
    return Run.objects.get(pk=run.run_id)


def test_a_background_run_goes_on_while_nobody_needs_the_host():
    run = deep()
    assert claimed("build", BUILDER).pk == run.pk
    assert work.beat(run.pk, 1) is Beat.CONTINUE


def test_a_background_run_that_somebody_asks_for_is_in_the_background_no_longer():
    swept = request_survey("0.7.4", "sm120", user=None, source=Job.Source.COMMAND, priority=SWEEP_PRIORITY)[0]
    claimed("build", BUILDER)
    gemm()
    claimed("cpu", BENCHER)
    assert work.beat(swept.pk, 1) is Beat.YIELD
    asked, created = request_survey("0.7.4", "sm120", user=None, source=Job.Source.PERSON)
    assert (asked.pk, created) == (swept.pk, False)
    assert work.beat(swept.pk, 1) is Beat.CONTINUE


def test_a_sweep_holds_up_nothing_that_somebody_asked_for():
    asked = types()
    request_survey("0.7.4", "sm120", user=None, source=Job.Source.COMMAND, priority=SWEEP_PRIORITY)
    assert Run.objects.get(pk=asked.pk).priority == 10


def test_a_measurement_on_the_same_host_makes_it_yield_and_keeps_it_away():
    run, other = deep(), gemm()
    claimed("build", BUILDER)
    measuring = claimed("cpu", BENCHER)
    assert work.beat(run.pk, 1) is Beat.YIELD
    work.put_back(run.pk, 1, "made way for a better run")
    assert work.claim(["build"], BUILDER) is None
    assert measuring.pk == other.pk
    work.fail(other.pk, 1, "crashed", "It crashed.")
    again = claimed("build", BUILDER)
    assert (again.pk, again.attempt) == (run.pk, 2)
    assert Attempt.objects.get(run=run, number=1).outcome == "made way for a better run"


def test_yielding_spends_no_attempt():
    run = deep()
    for _ in range(6):
        work.put_back(run.pk, claimed("build", BUILDER).attempt)
    run.refresh_from_db()
    assert run.state == State.QUEUED


def test_another_host_is_none_of_its_business():
    run, _ = deep(), gemm()
    claimed("build", BUILDER)
    claimed("cpu", "cpu@elsewhere/4567")
    assert work.beat(run.pk, 1) is Beat.CONTINUE


def test_a_better_run_of_its_own_queue_makes_it_yield_one_that_cannot_start_does_not():
    run = deep()
    claimed("build", BUILDER)
    waiting, _ = request_survey("0.7.4", "sm120", user=None, source=Job.Source.PERSON, waits_for=run)
    assert work.beat(run.pk, 1, queues=["build"]) is Beat.CONTINUE
    Run.objects.filter(pk=waiting.pk).update(waits_for=None)
    assert work.beat(run.pk, 1, queues=["build"]) is Beat.YIELD


def test_ordinary_runs_never_yield():
    run = gemm()
    claimed("cpu", BENCHER)
    types()
    claimed("build", BUILDER)
    assert work.beat(run.pk, 1) is Beat.CONTINUE


def test_who_cancels_a_background_run_is_heard_first():
    run = deep()
    claimed("build", BUILDER)
    types()
    actions.cancel(run, User.objects.create_user("op", role="operator"))
    assert work.beat(run.pk, 1) is Beat.CANCEL


def test_an_exploration_goes_before_a_full_compile_and_after_a_survey():
    full = deep()
    exploration, _ = request_exploration("0.6.3", "sm120", user=None, source=Job.Source.COMMAND)
    survey_run = types()
    assert exploration.params == {"arch": "sm120", "task": "explore"}
    order = []
    while (run := work.claim(["build"], BUILDER)) is not None:
        order.append(run.run_id)
        work.fail(run.run_id, run.attempt, "crashed", "It crashed.")
    assert order == [survey_run.pk, exploration.pk, full.pk]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: request_survey("0.6.3", "sm120", user=None, source=Job.Source.PERSON, tier="full"),
        lambda: request_exploration("0.6.3", "sm120", user=None, source=Job.Source.PERSON),
    ],
)
def test_two_asking_for_the_same_background_run_at_once_get_one(ask: Any):
    runs: list[int] = []

    def press() -> None:
        runs.append(ask()[0].pk)
        connection.close()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(runs)) == Run.objects.count() == 1


def test_tiers_are_different_runs_and_an_unknown_one_is_refused():
    assert deep("0.7.4").pk != types("0.7.4").pk
    with pytest.raises(ValidationError, match="expected types or full"):
        request_survey("0.7.4", "sm120", user=None, source=Job.Source.PERSON, tier="deep")  # type: ignore[arg-type]


def delivered(run: Run, text: bytes) -> Document:
    mine = claimed("build", BUILDER)
    assert mine.pk == run.pk
    return ingest(work.deliver(mine.pk, mine.attempt, text))


@pytest.fixture
def following(settings: Any) -> None:
    settings.DEEP_SURVEYS = True


def surveyed(need: int = 89_088, day: int = 1) -> bytes:
    """A survey of one variant; another day makes other bytes."""
    findings = variant((128, 128, 128), "none", False, 4, need)
    return survey("0.6.3", "4.2.1", findings, day=day).dumps().encode()


def test_a_survey_is_followed_by_the_full_compile_of_the_same_in_the_background(following: None):
    user = User.objects.create_user("op", role="operator")
    run, _ = request_survey("0.6.3", "sm120", user=user, source=Job.Source.PERSON)
    delivered(run, surveyed())
    full = Run.objects.exclude(pk=run.pk).get()
    assert full.params == {"arch": "sm120", "tier": "full"}
    assert (full.priority, full.state, full.recipe) == (DEEP_PRIORITY, State.QUEUED, run.recipe)
    assert (full.job.source, full.job.requested_by) == (Job.Source.FOLLOW_UP, user)


def test_a_full_compile_that_was_made_is_not_asked_for_again(following: None):
    delivered(types("0.6.3"), surveyed(day=1))
    delivered(Run.objects.get(params__tier="full"), surveyed(day=2))
    delivered(types("0.6.3"), surveyed(day=3))
    assert Run.objects.filter(params__tier="full").count() == 1


def test_nothing_follows_where_nothing_fits_or_where_it_is_switched_off(settings: Any):
    delivered(types("0.6.3"), surveyed())
    settings.DEEP_SURVEYS = True
    delivered(types("0.6.3"), surveyed(need=102_400))
    assert not Run.objects.filter(params__tier="full").exists()


def test_a_file_asks_for_nothing(following: None):
    document, _ = actions.receive(surveyed(), origin=Document.Origin.FILE)
    assert ingest(document.pk).state == Document.State.ACCEPTED
    assert not Run.objects.exists()


def test_the_commands_ask_for_a_tier_and_for_an_exploration():
    call_command("survey", "--flashinfer", "0.6.3", "--arch", "sm120", "--tier", "full")
    call_command("explore", "--flashinfer", "0.6.3", "--arch", "sm120")
    call_command("explore", "--flashinfer", "0.6.3", "--arch", "sm120", "--full", "2")
    call_command("explore", "--flashinfer", "0.6.3", "--arch", "sm120", "--rescue")
    asked = [run.params for run in Run.objects.order_by("id")]
    assert asked == [
        {"arch": "sm120", "tier": "full"},
        {"arch": "sm120", "task": "explore"},
        {"arch": "sm120", "task": "explore", "full": 2},
        {"arch": "sm120", "task": "explore", "rescue": True},
    ]


@pytest.mark.parametrize(
    ("arch", "options", "said"),
    [
        ("sm90", {}, "'sm90' is not explored; expected sm120, sm121"),
        ("sm120", {"full": 21}, "21 is not a number of whole compiles; expected 0 to 20"),
        ("sm120", {"full": -1}, "-1 is not a number"),
        ("sm120", {"full": 1, "rescue": True}, "expected either one"),
    ],
)
def test_an_exploration_that_cannot_be_is_refused(arch: str, options: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        request_exploration("0.6.3", arch, user=None, source=Job.Source.COMMAND, **options)
    assert not Run.objects.exists()


def test_the_bench_is_told_what_was_asked_for():
    exploration, _ = request_exploration("0.6.3", "sm120", user=None, source=Job.Source.COMMAND)
    whole, rescue = (
        request_exploration("0.6.3", "sm120", user=None, source=Job.Source.COMMAND, **options)[0]
        for options in ({"full": 2}, {"rescue": True})
    )
    where = ["--flashinfer", "0.6.3", "--arch", "sm120", "--cache"]
    told = {
        types("0.6.3").pk: ("tiles", []),
        deep().pk: ("tiles", ["--tier", "full"]),
        exploration.pk: ("explore", []),
        whole.pk: ("explore", ["--full", "2"]),
        rescue.pk: ("explore", ["--rescue"]),
    }
    while (run := work.claim(["build"], BUILDER)) is not None:
        command, more = told.pop(run.run_id)
        work.fail(run.run_id, run.attempt, "crashed", "It crashed.")
        arguments = survey_arguments(run)
        assert [arguments[0], *arguments[1:6], *arguments[7:]] == [command, *where, *more]
    assert not told
