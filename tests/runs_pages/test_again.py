"""“Run again”, on runs, jobs, points and cells: the address asks for what was done, and nothing else."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.models import Recipe, Target
from benchapp.fleet import asks
from benchapp.fleet.models import Candidate
from benchapp.runs import again
from benchapp.runs.models import Job, Run
from benchapp.runs.requests import request_exploration, request_survey
from benchapp.tiles.models import Tile
from tests.fleet.machines import host
from tests.ingest.documents import measurement
from tests.querycount import at_most
from tests.runs_pages.work import gemm_done
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey
from workers.bench.suites import SUITES

pytestmark = pytest.mark.django_db

ASKED_BY: dict[str, Any] = {"user": None, "source": Job.Source.COMMAND}


def ask_of(address: str) -> asks.Ask:
    path, _, query = address.partition("?")
    assert path == "/trigger/"
    return asks.clean(asks.from_query(QueryDict(query)))


def same(run: Run) -> bool:
    """Whether its address asks for that very run, which is under way."""
    asked = asks.request(ask_of(again.of_run(run)), **ASKED_BY)
    return asked.runs == [(run, False)]


def gemm(*targets: str, **values) -> list[Run]:
    ask = asks.clean(
        {"what": "gemm", "versions": ["2.13.0"], "targets": targets, "suite": "h200-first"} | values
    )
    return [run for run, _ in asks.request(ask, **ASKED_BY).runs]


def test_each_kind_of_run_is_asked_for_again_as_it_was():
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    targets = ["cpu", "cpu:aaaaaaaa", "gpu:GPU-a0", "model:nvidia-h200", "gpuarch:sm90", "gang:GPU-a0+GPU-a1"]
    runs = gemm(*targets, foreign="flag", time_limit_s=600)
    runs += gemm("cpu", cases=[str(SUITES["h200-first"][0])])
    runs += gemm("cpu", suite="", cases=["8x8x8:fp32"])
    runs += [
        request_survey("0.6.3", "sm120", **ASKED_BY)[0],
        request_survey("0.6.3", "sm120", tier="full", **ASKED_BY)[0],
        request_exploration("0.6.3", "sm120", **ASKED_BY)[0],
        request_exploration("0.6.3", "sm120", rescue=True, **ASKED_BY)[0],
    ]
    assert all(same(run) for run in runs)


def test_the_addresses_are_short_where_the_suite_says_it_all():
    (run,) = gemm("cpu")
    assert again.of_run(run) == "/trigger/?what=gemm&version=2.13.0&target=cpu&suite=h200-first"
    run.params["cases"] = [*run.params["cases"], {"m": 1, "n": 1, "k": 1, "dtype": "bf16"}]
    ask = ask_of(again.of_run(run))  # the suite has changed since
    assert ask.suite == "" and len(ask.cases) == len(SUITES["h200-first"]) + 1


def test_a_run_with_little_in_it_has_no_address_or_one_whose_faults_the_page_names(client):
    recipe = Recipe.objects.create(digest="old", versions={"torch": "1"})
    job = Job.objects.create(title="old", source="command")
    assert again.of_job(job) == ""
    for kind in ("gemm", "tiles", "build"):
        assert again.of_run(Run(job=job, kind=kind, queue="many", recipe=recipe)) == ""
    address = again.of_run(Run(job=job, kind="gemm", queue="cpu", recipe=recipe, params={"cases": [{}]}))
    assert "expected MxNxK" in client.get(address).content.decode()


def links(page: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(r'href="(/trigger/\?[^"]+)"', page)]


def test_runs_jobs_and_lists_link_to_it(client):
    ask = asks.clean({"what": "survey", "versions": ["0.6.3", "0.6.2"], "targets": ["arch:sm120"]})
    asked = asks.request(ask, **ASKED_BY)
    run = asked.runs[0][0]
    (link,) = links(client.get(f"/runs/{run.pk}/").content.decode())
    assert ask_of(link).versions == ("0.6.3",)
    of_job, *of_runs = links(client.get(f"/runs/?job={asked.job.pk}").content.decode())
    assert ask_of(of_job) == ask and len(of_runs) == 2


def test_each_point_links_to_its_case_version_and_target(client):
    gemm_done(measurement(16), measurement(32))
    found = [ask_of(link) for link in links(client.get("/trends/").content.decode())]
    assert {ask.cases for ask in found} == {("16x1024x1024:bf16",), ("32x1024x1024:bf16",)}
    assert {(ask.versions, ask.targets) for ask in found} == {(("2.13.0",), ("cpu",))}


CASE = {"m": 1, "n": 1, "k": 1, "dtype": "bf16", "layout": "nt"}
TORCH = {"torch": "2.13.0+cu130", "cublas": "13.1"}


def test_what_no_bench_here_measures_has_no_address():
    assert again.of_point(TORCH, "gpu:GPU-1", "gemm", CASE | {"dtype": "int2"}) == ""
    assert again.of_point(TORCH, "gpu:GPU-1", "moe", CASE) == ""
    assert again.of_point({"vllm": "0.24"}, "gpu:GPU-1", "gemm", CASE) == ""
    assert again.of_point({"flashinfer": "0.6.9"}, "cpu:boxa", "gemm", CASE) == ""
    assert "target=gpu:GPU-1" in again.of_point(TORCH, "gpu:GPU-1", "gemm", CASE)
    assert again.of_tiles("0.6.3", "sm42") == ""


def test_what_was_recorded_on_a_gpu_elsewhere_is_measured_on_any_of_its_model():
    key = "gpu:GPU-recorded-again-test"
    Target.objects.create(key=key, kind="gpu", arch="sm90", model="NVIDIA H200")
    host("boxa", "aaaaaaaa", "GPU-a0")
    with at_most(1):
        found = {again.of_point(TORCH, key, "gemm", CASE) for _ in range(3)}
    assert [ask_of(address).targets for address in found] == [("model:nvidia-h200",)]


def candidate(version: str) -> None:
    Candidate.objects.create(
        package="flashinfer", version=version, sha256="0" * 64, size=1, body=b"x", origin="a.whl"
    )


@pytest.mark.parametrize("library", ["flashinfer", "sgl-kernel"])
def test_a_run_of_another_library_is_asked_for_again_with_its_options(library):
    host("boxa", "aaaaaaaa", "GPU-a0")
    options = {"processes": 3, "case_timeout_s": 60, "timer": "cuda_graph", "backends": ["flashinfer.x"]}
    rmsnorm = "rmsnorm:tokens=64,hidden=7168,dtype=bf16"
    (run,) = gemm(
        "gpu:GPU-a0",
        library=library,
        versions=["0.6.9"],
        suite="",
        cases=["1x8x16:nvfp4", rmsnorm],
        **options,
    )
    assert same(run)
    assert f"library={library}" in again.of_run(run)
    assert run.params == run.params | options


def test_a_point_of_a_flashinfer_stack_asks_for_that_version_of_flashinfer():
    host("boxa", "aaaaaaaa", "GPU-a0")
    version = "0.7.0+candidate.1a2b3c4d5e6f"
    candidate(version)
    for observed, asked in (("0.6.9+cu130", "0.6.9"), (version, version)):
        stack = TORCH | {"flashinfer": observed}
        params = {"tokens": 64, "hidden": 7168, "dtype": "bf16"}
        ask = ask_of(again.of_point(stack, "gpu:GPU-a0", "rmsnorm", params))
        assert (ask.library, ask.versions, ask.targets) == ("flashinfer", (asked,), ("gpu:GPU-a0",))
        assert ask.cases == ("rmsnorm:tokens=64,hidden=7168,dtype=bf16",)


def test_each_cell_links_to_the_survey_of_its_version(client):
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    tile = Tile.objects.first()
    (link,) = links(client.get(reverse("tiles:evidence", args=[tile.pk, "0.6.3"])).content.decode())
    assert (ask_of(link).what, ask_of(link).versions, ask_of(link).targets) == (
        "survey", ("0.6.3",), ("arch:sm120",),
    )  # fmt: skip
