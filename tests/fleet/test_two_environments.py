"""Runs of two environments: an A/B starts where both are built, and ends where one of them cannot be."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.db.models.functions import Now

from benchapp.catalog.digests import environment_name
from benchapp.fleet import builds, waiting
from benchapp.people.models import User
from benchapp.runs import actions, queues, requests, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run, State
from benchapp.runs.work import Beat
from tests.fleet.reporting import report, take
from workers.bench.cases.parse import from_text

OLD = {"torch": "2.11.0", "cuda": "13", "flashinfer": "0.6.3"}
NEW = {"torch": "2.11.0", "cuda": "13", "flashinfer": "0.6.9"}
ANY = queues.gpu_arch("sm120")
CASE = from_text("16x4096x7168:fp8")
MODULE = from_text("jit_module:module=norm,arch=sm120")


def ask(*, old: dict[str, str] = OLD, priority: int = 10) -> Run:
    request = requests.confirm([CASE], bench="gemm", old=old, new=NEW, queue=ANY, priority=priority)
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def builds_asked() -> list[tuple[str, str]]:
    runs = Run.objects.filter(kind=Run.Kind.BUILD).order_by("pk")
    return sorted((run.recipe.versions["flashinfer"], run.state) for run in runs)


def build(version: str) -> Run:
    return Run.objects.get(kind=Run.Kind.BUILD, recipe__versions__flashinfer=version)


def end(version: str, sentence: str) -> None:
    worker = "build@boxa/boxa01"
    Run.objects.filter(kind=Run.Kind.BUILD, pk=build(version).pk).update(priority=20)
    assert work.claim([queues.build_of("boxa01")], worker).run_id == build(version).pk
    assert work.fail(build(version).pk, 1, "pip_failed", sentence)
    Run.objects.filter(pk=build(version).pk).update(finished_at=Now())
    actions.tell_ended()


@pytest.mark.django_db
def test_both_environments_are_asked_for_and_wanted_as_long_as_the_run():
    take(report("boxa"))
    run = ask()
    assert builds.ask_for_builds() == 2
    assert builds.ask_for_builds() == 0
    assert builds_asked() == [("0.6.3", "queued"), ("0.6.9", "queued")]
    actions.cancel(run, User.objects.create(username="operator"))
    builds.ask_for_builds()
    assert builds_asked() == [("0.6.3", "cancelled"), ("0.6.9", "cancelled")]


@pytest.mark.django_db
def test_it_is_claimed_only_where_both_are_ready():
    run = ask()
    new, old = run.environment, run.environment_beside
    assert (new, old) == (environment_name(NEW), environment_name(OLD))
    assert work.claim([ANY], "w", ready=[]) is None
    assert work.claim([ANY], "w", ready=[new]) is None
    assert work.claim([ANY], "w", ready=[old]) is None
    claimed = work.claim([ANY], "w", ready=[old, new])
    assert claimed is not None
    assert (claimed.versions, claimed.versions_beside) == (NEW, OLD)
    assert (claimed.environment, claimed.environment_beside) == (new, old)


@pytest.mark.django_db
def test_background_work_makes_way_only_for_what_could_start():
    worker = "gpu-1@boxa/boxa01"
    background = Request(Run.Kind.GEMM, "sweep", ANY, NEW, {"n": 1}, priority=-2, needs_environment=True)
    request_run(background, user=None, source=Job.Source.COMMAND)
    claimed = work.claim([ANY], worker)
    run = ask()

    def beat(*ready: str) -> Beat:
        return work.beat(claimed.run_id, 1, queues=[ANY], ready=ready)

    assert beat(run.environment) is Beat.CONTINUE
    assert beat(run.environment, run.environment_beside) is Beat.YIELD


@pytest.mark.django_db
@pytest.mark.parametrize("version", ["0.6.3", "0.6.9"])
def test_it_fails_with_the_build_of_either(version):
    take(report("boxa"))
    run = ask()
    builds.ask_for_builds()
    end(version, "no such wheel")
    run.refresh_from_db()
    assert (run.state, run.failure_code) == (State.FAILED, "environment")
    assert f"flashinfer {version}" in run.failure and "no such wheel" in run.failure


@pytest.mark.django_db
def test_what_it_waits_for_is_said():
    take(report("boxa", environments={environment_name(NEW): {}}))
    run = ask()
    assert waiting.reasons([run]) == {run.pk: "Its old environment is not built on boxa yet."}
    builds.ask_for_builds()
    assert waiting.reasons([run]) == {
        run.pk: f"Its old environment waits to be built on boxa (run {build('0.6.3').pk})."
    }


@pytest.mark.django_db
def test_the_same_ab_is_asked_for_once_and_another_old_side_is_another():
    assert ask() == ask()
    assert ask() != ask(old={**OLD, "flashinfer": "0.6.8"})


def test_modules_are_built_by_a_build_worker_on_no_gpu():
    request = requests.confirm([MODULE], bench="modules", old=OLD, new=NEW, queue=ANY, gpus=["GPU-1"])
    assert (request.queue, request.gpus, request.params["device"]) == (queues.BUILD, (), "cpu")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("bench", {"bench": "tiles"}),
        ("cases", {"cases": []}),
        ("cases", {"cases": [CASE] * 21}),
        ("cases", {"cases": [MODULE]}),
        ("new", {"new": OLD}),
        ("old", {"old": {"flashinfer": "latest", "torch": "2.11.0"}}),
        ("old", {"old": {"cuda": "13"}}),
        ("margin", {"margin": 0.0}),
        ("margin", {"margin": float("nan")}),
        ("budget_s", {"budget_s": 10}),
        ("queue", {"queue": queues.CPU}),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_field(field, values):
    told = {"bench": "gemm", "old": OLD, "new": NEW, "queue": ANY, "cases": [CASE]} | values
    with pytest.raises(ValidationError) as refused:
        requests.confirm(told.pop("cases"), **told)
    assert list(refused.value.message_dict) == [field]
