"""Environments that runs need: asked of the hosts that could do the runs, and what follows from their end."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db.models import F
from django.db.models.functions import Now

from benchapp.catalog.digests import environment_name
from benchapp.fleet import builds
from benchapp.fleet.models import Candidate, Installation
from benchapp.people.models import Role, User
from benchapp.runs import actions, queues, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run, State
from tests.fleet.reporting import report, take

pytestmark = pytest.mark.django_db

VERSIONS = {"torch": "2.13.0", "cuda": "13"}
NAME = environment_name(VERSIONS)
ANY = queues.gpu_arch("sm120")


def ask(
    queue: str = ANY, *, versions: dict[str, str] | None = None, priority: int = 10, size: int = 1
) -> Run:
    request = Request(
        Run.Kind.GEMM, "a GEMM", queue, versions or VERSIONS, {"n": size}, priority=priority,
        needs_environment=True,
    )  # fmt: skip
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def asked() -> list[tuple[str, int, str]]:
    runs = Run.objects.filter(kind=Run.Kind.BUILD).order_by("queue", "pk")
    return [(run.queue, run.priority, run.state) for run in runs]


def build_of(host: str) -> Run:
    """The newest build there, claimed by its worker."""
    worker = f"build@{host}/{host}01"
    assert work.claim([queues.build_of(f"{host}01")], worker) is not None
    return Run.objects.filter(kind=Run.Kind.BUILD, worker=worker).latest("pk")


def end(build: Run, sentence: str = "") -> None:
    if sentence:
        assert work.fail(build.pk, 1, "pip_failed", sentence)
    else:
        assert work.built(build.pk, 1)
    # in a test's transaction time stands still for what a worker writes
    Run.objects.filter(pk=build.pk).update(finished_at=Now())
    actions.tell_ended()


def state_of(run: Run) -> tuple[str, str, str]:
    run.refresh_from_db()
    return run.state, run.failure_code, run.failure


def test_each_host_that_could_do_the_run_builds_once():
    take(report("boxa"), report("boxb"), report("cpus", gpus=0))
    ask(priority=3)
    ask(priority=7, size=2)
    assert builds.ask_for_builds() == 2
    assert builds.ask_for_builds() == 0
    assert asked() == [("build.boxa01", 7, "queued"), ("build.boxb01", 7, "queued")]
    build = Run.objects.filter(kind=Run.Kind.BUILD).first()
    assert (build.params, build.recipe.versions, build.environment) == ({}, VERSIONS, "")


def test_the_build_for_a_candidate_names_its_wheel():
    take(report("boxa"))
    version = "0.7.0+candidate.1a2b3c4d5e6f"
    ask(versions={"flashinfer": version, **VERSIONS})
    assert builds.ask_for_builds() == 1
    build = Run.objects.get(kind=Run.Kind.BUILD)
    assert build.params == {}, "nobody registered it: the build says that there is no such version"
    build.delete()
    Candidate.objects.create(
        package="flashinfer", version=version, sha256="0" * 64, size=1, body=b"x", origin="a.whl"
    )
    builds.ask_for_builds()
    assert Run.objects.get(kind=Run.Kind.BUILD).params == {"candidate": "0" * 64}


def test_a_run_in_more_of_a_hurry_takes_the_build_along():
    take(report("boxa"))
    ask(priority=3)
    builds.ask_for_builds()
    ask(priority=12, size=2)
    assert builds.ask_for_builds() == 0
    assert asked() == [("build.boxa01", 12, "queued")]


def test_nothing_is_built_that_is_there():
    take(report("boxa", environments={NAME: {}}))
    ask()
    assert builds.ask_for_builds() == 0


def test_nothing_is_built_where_nobody_can_do_it():
    take(report("boxa"), report("old", protocol=0))
    Installation.objects.filter(host="boxa").update(seen_at=F("seen_at") - dt.timedelta(minutes=5))
    ask()
    ask(queues.gpu_arch("sm100"), size=2)
    assert builds.ask_for_builds() == 0


def test_a_run_without_an_environment_asks_for_none():
    take(report("boxa"))
    request_run(
        Request(Run.Kind.TILES, "a survey", queues.BUILD, {"flashinfer": "0.6.3"}, {}),
        user=None,
        source=Job.Source.COMMAND,
    )
    assert builds.ask_for_builds() == 0


def test_asking_for_a_run_asks_for_its_build_at_once(monkeypatch, django_capture_on_commit_callbacks):
    sent = []
    monkeypatch.setattr("benchapp.runs.broker._send", lambda task, *to: sent.append(task))
    with django_capture_on_commit_callbacks(execute=True):
        ask()
    assert builds.TASK in sent


def test_a_build_that_ended_well_is_not_asked_again_before_the_next_report():
    take(report("boxa"))
    run = ask()
    builds.ask_for_builds()
    end(build_of("boxa"))
    assert builds.ask_for_builds() == 0
    assert state_of(run)[0] == State.QUEUED
    assert work.claim([ANY], "gpu-1@boxa/boxa01", ready=[NAME]) is not None


def test_an_environment_that_was_collected_is_built_again():
    take(report("boxa"))
    ask()
    builds.ask_for_builds()
    end(build_of("boxa"))
    Run.objects.filter(kind=Run.Kind.BUILD).update(finished_at=F("finished_at") - dt.timedelta(minutes=1))
    take(report("boxa"))
    assert builds.ask_for_builds() == 1


def test_runs_fail_with_the_only_build_that_could_have_helped_them():
    take(report("boxa"), report("builder", gpus=0))
    run, other = ask(), ask(versions={"torch": "2.12.0"}, size=2)
    builds.ask_for_builds()
    build = Run.objects.get(kind=Run.Kind.BUILD, recipe=run.recipe)
    Run.objects.filter(kind=Run.Kind.BUILD).exclude(pk=build.pk).delete()
    assert build_of("boxa") == build
    end(build, "There is no torch 2.13.0 for this Python.")
    assert state_of(run) == (
        State.FAILED,
        "environment",
        "The environment of cuda 13, torch 2.13.0 could not be built on boxa: "
        "There is no torch 2.13.0 for this Python.",
    )
    assert state_of(other)[0] == State.QUEUED
    assert builds.ask_for_builds() == 1, "that of the other run"


def test_a_run_waits_while_another_host_may_still_build():
    take(report("boxa"), report("boxb"))
    run = ask()
    builds.ask_for_builds()
    end(build_of("boxa"), "No space left on device.")
    assert state_of(run)[0] == State.QUEUED
    assert builds.ask_for_builds() == 0, "what came to nothing is not tried again for this run"
    end(build_of("boxb"), "No route to host.")
    assert state_of(run) == (
        State.FAILED,
        "environment",
        "The environment of cuda 13, torch 2.13.0 could not be built on boxb: No route to host.",
    )


def test_a_run_asked_for_later_gets_a_new_try():
    take(report("boxa"), report("boxb"))
    ask()
    builds.ask_for_builds()
    end(build_of("boxa"), "No space left on device.")
    Run.objects.filter(kind=Run.Kind.BUILD).update(finished_at=F("finished_at") - dt.timedelta(minutes=1))
    later = ask(size=2)
    assert builds.ask_for_builds() == 1
    assert state_of(later)[0] == State.QUEUED


def test_a_cancelled_build_says_so():
    take(report("boxa"))
    run = ask()
    builds.ask_for_builds()
    build = Run.objects.get(kind=Run.Kind.BUILD)
    actions.cancel(build, User.objects.create_user("olga", password="x" * 20, role=Role.OPERATOR))
    assert state_of(run) == (
        State.FAILED,
        "environment",
        f"The build of the environment of cuda 13, torch 2.13.0 on boxa was cancelled (run {build.pk}).",
    )


def test_a_build_whose_host_went_silent_fails_its_runs_too():
    take(report("boxa"))
    run = ask()
    builds.ask_for_builds()
    build = build_of("boxa")
    Installation.objects.update(seen_at=F("seen_at") - dt.timedelta(hours=1))
    end(build, "Its worker was lost in each of 3 attempts.")
    assert state_of(run)[0] == State.FAILED
    assert "on boxa" in run.failure


def test_who_waits_for_a_failed_run_is_woken(monkeypatch, django_capture_on_commit_callbacks):
    take(report("boxa"))
    run = ask()
    follower, _ = request_run(
        Request(Run.Kind.TILES, "after it", queues.BUILD, {"flashinfer": "0.6.3"}, {}),
        user=None,
        source=Job.Source.COMMAND,
        waits_for=run,
    )
    builds.ask_for_builds()
    sent = []
    monkeypatch.setattr("benchapp.runs.broker._send", lambda task, queue, *args: sent.append(queue))
    build = build_of("boxa")
    with django_capture_on_commit_callbacks(execute=True):
        end(build, "No space left on device.")
    assert follower.queue in sent


def test_builds_that_no_run_waits_for_are_called_off_and_asked_for_again():
    take(report("boxa"), report("boxb"))
    runs = [ask(versions={"torch": version}) for version in ("2.5.0", "2.6.0")]
    builds.ask_for_builds()
    under_way = build_of("boxa")
    person = User.objects.create(username="op", role=Role.OPERATOR)
    assert actions.cancel_job(runs[0].job, person) == 1
    assert builds.ask_for_builds() == 0
    left = Run.objects.filter(kind=Run.Kind.BUILD, recipe=runs[0].recipe).order_by("queue")
    assert [build.state for build in left] == [State.RUNNING, State.CANCELLED]
    assert left[1].failure == "No run waits for this environment any more."
    assert Run.objects.filter(kind=Run.Kind.BUILD, recipe=runs[1].recipe, state=State.QUEUED).count() == 2
    assert under_way in left
    again = ask(versions={"torch": "2.5.0"}, size=2)
    # asked for before the build was called off, and seen only afterwards
    Run.objects.filter(pk=again.pk).update(created_at=Now() - dt.timedelta(days=1))
    builds.after_build(left[1])
    assert builds.ask_for_builds() == 1
    assert state_of(again)[0] == State.QUEUED


def test_a_run_that_was_asked_for_while_the_build_failed_does_not_wait_for_ever():
    take(report("boxa"))
    ask()
    builds.ask_for_builds()
    build = build_of("boxa")
    before = Run.objects.get(pk=build.pk).created_at
    end(build, "No matching distribution found.")
    late = ask(size=2)
    Run.objects.filter(pk=late.pk).update(created_at=before)
    assert builds.ask_for_builds() == 0
    assert state_of(late)[:2] == (State.FAILED, "environment")
