"""A queued run says why it waits, as far as hosts, GPUs and environments are the reason."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db.models import F
from django.utils import timezone

from benchapp.fleet import builds
from benchapp.fleet.models import Installation
from benchapp.runs import queues, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Maintenance, Run
from benchapp.runs.queries import why_it_waits, why_they_wait
from tests.fleet.reporting import report, take, uuid_of
from tests.querycount import at_most

pytestmark = pytest.mark.django_db

ANY = queues.gpu_arch("sm120")


def ask(queue: str = ANY, **changes) -> Run:
    request = Request(
        Run.Kind.GEMM, "a GEMM", queue, {"torch": "2.13.0"}, {"n": Run.objects.count()}, **changes
    )
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def drain(reason: str = "a loud fan", **what) -> None:
    Maintenance.objects.create(reason=reason, **what)


def test_without_any_host_it_says_how_to_get_one():
    assert why_it_waits(ask()) == (
        "No worker serves any GPU of sm120, and none ever has; “python -m workers up” on its host adds one."
    )


def test_without_reports_static_work_tells_its_turn():
    assert why_it_waits(ask(queues.BUILD)).startswith("Next in queue build")


def test_no_live_worker():
    take(report("boxa"), report("boxb"))
    Installation.objects.filter(host="boxa").update(seen_at=F("seen_at") - dt.timedelta(hours=3))
    Installation.objects.filter(host="boxb").update(seen_at=F("seen_at") - dt.timedelta(days=2))
    run = ask()
    assert why_it_waits(run) == (
        "No live worker serves any GPU of sm120: the last one, boxa, was heard 3 h ago."
    )


def test_a_queue_that_no_known_host_serves():
    take(report("boxa", gpus=0))
    assert why_it_waits(ask(queues.CPU)) == "No worker serves any host's CPUs."
    assert why_it_waits(ask(queues.gpu_arch("sm100"))).startswith("No worker serves any GPU of sm100")


def test_workers_of_another_version():
    take(report("boxa", protocol=0))
    assert why_it_waits(ask()) == (
        "The workers of boxa, which serve any GPU of sm120, are of another version of Tilewatch."
    )


def test_an_environment_on_its_way():
    take(report("boxa"))
    run = ask(needs_environment=True)
    assert why_it_waits(run) == "Its environment is not built on boxa yet."
    builds.ask_for_builds()
    build = Run.objects.get(kind=Run.Kind.BUILD)
    assert why_it_waits(run) == f"Its environment waits to be built on boxa (run {build.pk})."
    work.claim([build.queue], "build@boxa/boxa01")
    assert why_it_waits(run) == f"Its environment is being built on boxa (run {build.pk})."
    take(report("boxa", environments={run.environment: {}}))
    assert why_it_waits(run).startswith("Next in queue gpu.arch.sm120")


def test_a_drained_gpu():
    take(report("boxa", gpus=2))
    drain(gpu=uuid_of("boxa", 1))
    assert why_it_waits(ask(queues.gpu(uuid_of("boxa", 1)))) == "GPU 1 of boxa is drained: a loud fan."
    assert why_it_waits(ask()).startswith("Next in queue"), "another GPU can do it"
    drain(gpu=uuid_of("boxa", 0), reason="dusty")
    assert why_it_waits(ask()) == "GPU 0 of boxa is drained: dusty; GPU 1 of boxa is drained: a loud fan."


def test_a_gang_with_a_drained_gpu():
    take(report("boxa", gpus=2))
    drain(gpu=uuid_of("boxa", 1))
    pair = (uuid_of("boxa", 0), uuid_of("boxa", 1))
    run = ask(queues.gpu(pair[0]), gpus=pair)
    assert why_it_waits(run) == "GPU 1 of boxa is drained: a loud fan."


def test_a_host_under_maintenance():
    take(report("boxa", gpus=2))
    ends = timezone.now() + dt.timedelta(hours=2)
    drain(host="boxa", ends_at=ends, reason="new switch")
    said = f"boxa is under maintenance until {ends:%Y-%m-%d %H:%M} UTC: new switch."
    assert why_it_waits(ask()) == said
    assert why_it_waits(ask(queues.BUILD)) == said


def test_a_gpu_that_fell_off():
    take(report("boxa", gpus=2))
    run = ask(queues.gpu(uuid_of("boxa", 1)))
    whole = report("boxa", gpus=2)
    take(whole | {"gpus": whole["gpus"][:1], "missing": [uuid_of("boxa", 1)]})
    assert why_it_waits(run) == "GPU 1 of boxa no longer answers."


def test_otherwise_its_place_by_priority_then_turn():
    take(report("boxa"))
    first, second, urgent = ask(), ask(), ask(priority=20)
    assert why_it_waits(urgent).startswith("Next in queue gpu.arch.sm120; a worker that is free")
    assert why_it_waits(first) == "Number 2 in queue gpu.arch.sm120."
    assert why_it_waits(second) == "Number 3 in queue gpu.arch.sm120."
    work.claim([ANY], "gpu-0@boxa/boxa01")
    assert why_it_waits(first) == "Next in queue gpu.arch.sm120, which is busy."


def test_the_run_that_the_only_compiler_is_at():
    take(report("boxa"), report("boxb"))
    build = ask(queues.build_of("boxa01"))
    first, second, of_boxa = ask(queues.BUILD), ask(queues.BUILD), ask(queues.build_of("boxa01"))
    work.claim([build.queue], "build@boxa/boxa01")
    assert why_it_waits(first).startswith("Next in queue build; a worker that is free"), "boxb can do it"
    drain(host="boxb")
    said = f"Next in line; boxa's compiler is at run {build.pk}."
    assert why_it_waits(first) == said
    assert why_it_waits(second) == "Number 2 in queue build."
    Maintenance.objects.update(lifted_at=timezone.now())
    work.claim([queues.BUILD], "build@boxb/boxb01")
    assert why_it_waits(second) == (
        f"Next in line; boxa's compiler is at run {build.pk} and boxb's compiler is at run {first.pk}."
    )
    with at_most(6):
        assert why_they_wait([second, of_boxa])[of_boxa.pk] == said


def test_the_run_page_and_the_list_say_it(client):
    take(report("boxa", gpus=1))
    drain(gpu=uuid_of("boxa", 0), reason="a <loud> fan")
    run = ask()
    said = "GPU 0 of boxa is drained: a &lt;loud&gt; fan."
    assert said in client.get(f"/runs/{run.pk}/").content.decode()
    assert f'title="{said}"' in client.get("/runs/").content.decode()


def test_a_page_of_runs_asks_as_little_as_one():
    take(report("boxa"), report("boxb"))
    runs = [ask(), ask(queues.BUILD), ask(needs_environment=True), *(ask() for _ in range(30))]
    with at_most(5):
        assert len(why_they_wait(runs)) == len(runs)
