"""Who serves what an alert is of, and environments that a bisect wants ahead: the fleet's answers."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from benchapp.alerts.places import Place, place_of, releases_of
from benchapp.alerts.signals import environments_wanted
from benchapp.catalog.digests import environment_name
from benchapp.catalog.models import Host, Release, Target
from benchapp.fleet import builds
from benchapp.fleet.models import Installation, WatchedRelease
from benchapp.runs import queues
from benchapp.runs.models import Run, State
from tests.fleet.machines import host

pytestmark = pytest.mark.django_db

RECIPE = {"torch": "2.11.0", "cuda": "13", "flashinfer": "0.6.5"}


def target(kind: str, name: str = "", at: str = "") -> Target:
    """A target as documents leave it."""
    owner = Host.objects.get_or_create(name=at)[0] if at else None
    uuid = name if kind == "gpu" else ""
    model = {"gpu": "NVIDIA H200", "cpu": "EPYC"}.get(kind, "")
    return Target.objects.create(
        key=f"{kind}:{name or at}", kind=kind, arch=name if kind == "arch" else "sm90", model=model,
        uuid=uuid, host=owner,
    )  # fmt: skip


def test_a_gpu_is_measured_on_its_own_queue_and_on_no_other_of_its_model():
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    assert place_of(target("gpu", "GPU-a1")) == Place("gpu.uuid.GPU-a1", "GPU 1 of boxa")
    elsewhere = place_of(target("gpu", "GPU-zz"))
    assert (elsewhere.queue, elsewhere.why) == ("", "No live worker serves NVIDIA H200 GPU-zz.")


def test_a_gpu_that_came_recorded_is_nobodys():
    place = place_of(target("gpu", "GPU-recorded-h200-a"))
    assert (place.queue, place.why) == ("", "No host here has this NVIDIA H200: it was measured elsewhere.")


def test_a_host_that_is_silent_serves_nothing():
    host("boxa", "aaaaaaaa", "GPU-a0", seen_at=timezone.now() - dt.timedelta(hours=1))
    assert place_of(target("gpu", "GPU-a0")).why.startswith(
        "No live worker serves GPU 0 of boxa, NVIDIA H200"
    )
    assert place_of(target("cpu", at="boxa")).why == "No live worker serves boxa's CPUs."
    assert place_of(target("arch", "sm90", "boxa")).why == "No live host compiles."


def test_cpus_are_their_own_hosts_and_a_compiler_may_be_anybodys():
    host("boxa", "aaaaaaaa")
    host("boxb", "bbbbbbbb")
    assert place_of(target("cpu", at="boxb")) == Place(queues.cpu_of("bbbbbbbb"), "CPUs of boxb")
    assert place_of(target("cpu", at="gone")).why == "No live worker serves gone's CPUs."
    assert place_of(target("arch", "sm90", "boxb")) == Place("build.bbbbbbbb", "compiler of boxb")
    assert place_of(target("arch", "sm120", "gone")) == Place("build.aaaaaaaa", "compiler of boxa")


def test_the_server_of_somebody_else_is_not_changed():
    assert "not ours to change" in place_of(target("endpoint", "llm")).why


def test_releases_are_those_surveyed_and_those_on_the_index_in_order():
    Release.objects.create(package="flashinfer", version="0.6.9")
    for version in ("0.6.10", "0.6.3", "0.6.9"):
        WatchedRelease.objects.create(package="flashinfer-python", version=version)
    assert releases_of("flashinfer") == ["0.6.3", "0.6.9", "0.6.10"]
    assert releases_of("driver") == []


def wanted(*versions: str, queue: str = "gpu.uuid.GPU-a0") -> None:
    recipes = [RECIPE | {"flashinfer": version} for version in versions]
    environments_wanted.send(sender=None, recipes=recipes, queue=queue)


def test_environments_are_built_ahead_where_the_bisect_runs_and_there_alone():
    host("boxa", "aaaaaaaa", "GPU-a0")
    host("boxb", "bbbbbbbb", "GPU-b0")
    wanted("0.6.5", "0.6.7")
    wanted("0.6.5")
    built = Run.objects.order_by("pk")
    assert [(run.queue, run.recipe.versions["flashinfer"], run.priority) for run in built] == [
        ("build.aaaaaaaa", "0.6.5", builds.AHEAD_PRIORITY),
        ("build.aaaaaaaa", "0.6.7", builds.AHEAD_PRIORITY),
    ]


def test_what_is_built_or_could_not_be_built_is_not_asked_for_ahead():
    name = environment_name(RECIPE)
    host(
        "boxa",
        "aaaaaaaa",
        "GPU-a0",
        environments={name: {"bytes": 1, "used_at": "2026-11-29T07:00:00+00:00"}},
    )
    wanted("0.6.5")
    assert not Run.objects.exists()
    wanted("0.6.7")
    Run.objects.update(state=State.RUNNING)
    Run.objects.update(state=State.FAILED, finished_at=timezone.now(), failure_code="environment")
    wanted("0.6.7")
    assert Run.objects.count() == 1
    Installation.objects.update(queues=["gpu.uuid.GPU-a0"])
    wanted("0.6.8")
    assert Run.objects.count() == 1, "a host without a build worker builds nothing"
