"""The plan: what would happen, told before anything does."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from benchapp.catalog.digests import environment_name
from benchapp.catalog.models import Recipe, Release, Target
from benchapp.fleet import asks, plan_words
from benchapp.fleet.models import Installation
from benchapp.fleet.planning import Plan, plan
from benchapp.runs import queues, work
from benchapp.runs.models import Job, Maintenance, Run, State
from benchapp.runs.requests import CPU_TORCH
from tests.fleet.machines import host
from tests.querycount import at_most

pytestmark = pytest.mark.django_db

GPU_RECIPE = {"torch": CPU_TORCH, "cuda": "13"}


def survey(*versions: str, what: str = "survey") -> asks.Ask:
    return asks.clean({"what": what, "versions": versions, "targets": ["arch:sm120"]})


def gemm(*targets: str, **values) -> asks.Ask:
    return asks.clean(
        {"what": "gemm", "versions": [CPU_TORCH], "targets": targets, "suite": "cpu-smoke"} | values
    )


def took(seconds: float, ask: asks.Ask) -> None:
    """What `ask` asks for was done before, in so long."""
    now = timezone.now()
    for run, _ in asks.request(ask, user=None, source=Job.Source.COMMAND).runs:
        Run.objects.filter(pk=run.pk).update(state=State.RUNNING)
        Run.objects.filter(pk=run.pk).update(
            state=State.DONE, started_at=now - dt.timedelta(seconds=seconds), finished_at=now
        )


def expected(planned: Plan) -> str:
    return plan_words.expected(planned).replace("\N{NO-BREAK SPACE}", " ")


def test_nothing_is_written():
    planned = plan(survey("0.6.3", "0.6.2"))
    assert [run.recipe for run in planned.runs] == ["flashinfer 0.6.3", "flashinfer 0.6.2"]
    assert not (
        Job.objects.exists() or Run.objects.exists() or Recipe.objects.exists() or Target.objects.exists()
    )


def test_without_history_no_time_is_invented():
    planned = plan(survey("0.6.3"))
    assert planned.expected_s is None and planned.runs[0].expected_s is None
    assert plan_words.expected(planned) == "No history of such runs: how long they take is not known."


def test_times_come_from_runs_of_the_same_size_that_ended_well():
    for seconds in (60, 120, 900):
        took(seconds, survey("0.6.1"))
    took(7200, survey("0.6.1", what="full"))
    Run.objects.filter(pk__in=[run.pk for run in _asked(survey("0.5.0"))]).update(state=State.FAILED)
    planned = plan(survey("0.6.3", "0.6.2"))
    assert [run.expected_s for run in planned.runs] == [120, 120]
    assert "About 4 min 00 s of work" in expected(planned)


def test_gpu_time_counts_each_gpu_of_a_gang():
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    took(60, gemm("gpu:GPU-a0"))
    planned = plan(gemm("gpu:GPU-a0", "gang:GPU-a0+GPU-a1", "cpu"))
    assert [run.gpus for run in planned.runs] == [1, 2, 0]
    assert planned.gpu_s == 60 + 2 * 60
    assert [run.where for run in planned.runs] == [
        "GPU 0 of boxa",
        "GPUs 0 and 1 of boxa together",
        "any host's CPUs",
    ]
    told = expected(planned)
    assert "3 min 00 s of GPU time" in told and "1 run has no history" in told


def _asked(ask: asks.Ask) -> list[Run]:
    return [run for run, _ in asks.request(ask, user=None, source=Job.Source.COMMAND).runs]


def test_equal_runs_under_way_are_joined_and_others_stand_ahead():
    (same, _other) = _asked(survey("0.6.3", "0.6.1"))
    _asked(survey("0.6.0", what="full"))  # in the background, behind
    planned = plan(survey("0.6.3", "0.6.2"))
    assert [run.joins for run in planned.runs] == [same.pk, None]
    assert planned.runs[1].ahead == 2
    assert plan_words.headline(planned) == "1 new run; 1 equal run under way is joined."
    assert plan_words.headline(plan(survey("0.6.3"))) == "Nothing new: 1 equal run under way is joined."


def test_what_its_workers_are_at_stands_ahead_whatever_its_priority_and_queue():
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    host("boxb", "bbbbbbbb")
    _asked(survey("0.6.0", what="full"))  # in the background
    assert plan(survey("0.6.3")).runs[0].ahead == 0
    assert work.claim(queues.of_build_worker("aaaaaaaa"), "build@boxa/aaaaaaaa")
    assert plan(survey("0.6.3")).runs[0].ahead == 1
    (build,) = _asked(survey("0.6.1"))
    Run.objects.filter(pk=build.pk).update(queue=queues.build_of("bbbbbbbb"))
    assert plan(survey("0.6.3")).runs[0].ahead == 1, "it waits in another queue"
    assert work.claim(queues.of_build_worker("bbbbbbbb"), "build@boxb/bbbbbbbb")
    assert plan(survey("0.6.3")).runs[0].ahead == 2

    _asked(gemm("gpuarch:sm90"))
    served = queues.of_gpu_worker("GPU-a1", "NVIDIA H200", "sm90")
    assert work.claim(served, f"{queues.worker_label('gpu', 'GPU-a1')}@boxa/aaaaaaaa", gpu="GPU-a1")
    planned = plan(gemm("gpu:GPU-a0", "gpu:GPU-a1", "model:nvidia-h200", "cpu"))
    assert [run.ahead for run in planned.runs] == [0, 1, 1, 0]


def test_environments_say_where_they_are_ready_and_where_they_are_built():
    host("boxa", "aaaaaaaa", "GPU-a0", environments={environment_name(GPU_RECIPE): {"bytes": 1}})
    host("boxb", "bbbbbbbb", "GPU-b0")
    planned = plan(gemm("gpuarch:sm90", "gpu:GPU-a0"))
    (environment,) = planned.environments
    assert (environment.ready_on, environment.built_on) == (("boxa",), ("boxb",))
    assert plan_words.environments(planned) == [
        f"cuda 13, torch {CPU_TORCH}: built first on boxb; ready on boxa."
    ]
    assert plan(survey("0.6.3")).environments == ()


def warnings(planned: Plan) -> str:
    return " ".join(planned.warnings)


def test_it_warns_that_nobody_serves_a_target():
    assert "No live worker serves any compiler: it will wait" in warnings(plan(survey("0.6.3")))
    installation = host("boxa", "aaaaaaaa", "GPU-a0")
    assert warnings(plan(survey("0.6.3"))) == ""
    Installation.objects.update(seen_at=timezone.now() - dt.timedelta(days=1))
    assert "No live worker serves any GPU of sm90" in warnings(plan(gemm("gpuarch:sm90")))
    Installation.objects.update(seen_at=timezone.now(), protocol=installation.protocol + 1)
    assert "workers of boxa are of another version" in warnings(plan(gemm("gpuarch:sm90")))


def test_it_warns_of_a_drained_gpu_and_of_one_that_does_not_answer():
    installation = host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    Maintenance.objects.create(gpu="GPU-a0", reason="hot.")
    assert "GPU 0 of boxa takes no new runs now: hot." in warnings(plan(gemm("gpu:GPU-a0")))
    assert warnings(plan(gemm("gpu:GPU-a1"))) == "" == warnings(plan(gemm("gpuarch:sm90")))
    installation.gpus.filter(uuid="GPU-a1").update(present=False)
    assert "GPU 1 of boxa did not answer" in warnings(plan(gemm("gang:GPU-a0+GPU-a1")))
    assert "Each of any nvidia-h200 is kept from work" in warnings(plan(gemm("model:nvidia-h200")))
    Maintenance.objects.create(host="boxa", reason="moving")
    assert "Host boxa takes no new runs now: moving." in warnings(plan(gemm("cpu:aaaaaaaa")))
    Maintenance.objects.update(lifted_at=timezone.now())
    assert warnings(plan(gemm("gpu:GPU-a0"))) == ""


def test_it_warns_where_every_host_of_work_that_any_host_can_do_is_held():
    host("boxa", "aaaaaaaa")
    host("boxb", "bbbbbbbb")
    ask = asks.clean({"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120", "arch:sm90"]})
    Maintenance.objects.create(host="boxa", reason="moving.")
    assert warnings(plan(ask)) == "" == warnings(plan(gemm("cpu"))), "boxb can do it"
    Maintenance.objects.create(host="boxb", reason="dusty")
    said = "boxa is drained: moving; boxb is drained: dusty. No other live host can do it: it will wait."
    assert plan(ask).warnings == (said,)
    assert warnings(plan(gemm("cpu"))) == said


def test_it_warns_of_a_version_that_is_not_known():
    host("boxa", "aaaaaaaa")
    Release.objects.create(package="flashinfer", version="0.6.3")
    assert "flashinfer 9.9.9 is not among the releases known here" in warnings(plan(survey("9.9.9")))
    assert warnings(plan(survey("0.6.3"))) == ""


@pytest.mark.parametrize("number", [1, 40])
def test_the_number_of_queries_does_not_grow(number):
    host("boxa", "aaaaaaaa", *(f"GPU-a{n}" for n in range(8)))
    host("boxb", "bbbbbbbb", *(f"GPU-b{n}" for n in range(8)))
    asked = gemm(*(f"gpu:GPU-a{n}" for n in range(min(number, 8))), "cpu", "gpuarch:sm90")
    took(5, asked)
    _asked(asked)
    with at_most(12):
        plan(asked)
    versions = [f"0.{n}" for n in range(number)]
    with at_most(12):
        plan(survey(*versions))
