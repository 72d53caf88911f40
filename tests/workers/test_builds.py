"""Environments: what a recipe may ask for, and runs that build one."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

import pytest

from benchapp.fleet.models import Candidate
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Attempt, Job, Run, State
from tests.environments.wheels import cupti, flashinfer, torch
from tests.workers.conftest import VERSIONS, claim
from workers import environments, execute
from workers.bench.tiles.sources import candidate_label
from workers.identity import Identity


def test_a_recipe_names_known_packages_and_versions_only():
    assert environments.requirements({"torch": "2.13.0"}) == ["torch==2.13.0"]
    base = {"torch": "2.13.0", "cuda": "13"}
    assert environments.requirements(base) == ["cupti-python>=13,<14", "torch==2.13.0"]
    assert environments.requirements({**base, "flashinfer": "0.6.3"}) == [
        "flashinfer-python==0.6.3",
        "torch==2.13.0",
    ]
    assert environments.requirements({**base, "sgl-kernel": "0.3.5"})[0] == "sgl-kernel==0.3.5"
    wrong = [
        {"evil": "1.0"}, {"torch": "--index-url=http://x"}, {"torch": "2.13.0; import os"}, {"cuda": "13"},
        {"torch": "2.13.0", "cuda": "12"}, {"torch": "2.13.0", "cuda": "13 --pre"}, {"flashinfer": "0.6.3"},
        {"flashinfer": "0.6.3", "torch": "2.13.0"}, {**base, "cupti-python": "13.0"},
        {**base, "flashinfer": "0.6.3", "sgl-kernel": "0.3.5"}, {**base, "flashinfer": "0.6.3 @ http://x"},
    ]  # fmt: skip
    for versions in wrong:
        with pytest.raises(environments.RecipeError, match=r"^recipe\."):
            environments.requirements(versions)


def test_a_cuda_build_comes_from_the_ordinary_index_and_a_folder_of_wheels_instead_of_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def options(**versions: str) -> list[str]:
        return environments.build_command(tmp_path, versions)[5:]

    monkeypatch.setenv("TILEWATCH_TORCH_CPU_INDEX", "https://cpu.example")
    assert options(torch="2.13.0") == ["--extra-index", "https://cpu.example"]
    assert options(torch="2.13.0", cuda="13") == []
    monkeypatch.setenv("TILEWATCH_WHEELS", "/wheels")
    assert options(torch="2.13.0", cuda="13") == ["--wheels", "/wheels"]


@pytest.fixture
def builder(here: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Identity:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    torch(wheels, None)
    cupti(wheels)
    monkeypatch.setenv("TILEWATCH_WHEELS", str(wheels))
    return dataclasses.replace(here, role="build", queues=("build.k3jd82ks", "build"))


def build(builder: Identity, versions: dict[str, str], **params: str) -> Run:
    request = Request(Run.Kind.BUILD, "a build", "build.k3jd82ks", versions, params)
    request_run(request, user=None, source=Job.Source.COMMAND)
    run = claim(builder)
    execute.execute(run, builder)
    return Run.objects.get(pk=run.run_id)


def test_a_build_leaves_an_environment_and_takes_no_lease(builder: Identity, home: Path):
    recipe = {"torch": "2.13.0", "cuda": "13"}
    torch(home / "wheels", "13.0")
    run = build(builder, recipe)
    assert (run.state, run.failure) == (State.DONE, "")
    environment = environments.location(home / "envs", recipe)
    assert environment.name in environments.ready()
    assert list(environment.glob("lib/python*/site-packages/torch/version.py"))
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.lease_from) == ("built", None)
    assert "Successfully installed cupti-python-13.0.1 torch-2.13.0" in attempt.log
    assert build(builder, VERSIONS).state == State.DONE  # it was there


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ({"torch": "9.9.9"}, r"torch 9\.9\.9 could not be built: .*torch==9\.9\.9"),
        (
            {"torch": "2.13.0", "cuda": "13"},
            r"cuda 13, torch 2\.13\.0 could not be built: "
            r"torch 2\.13\.0 is a build for no CUDA, not for CUDA 13$",
        ),
    ],
)
def test_a_build_that_fails_says_pips_own_last_word(
    builder: Identity, home: Path, recipe: dict[str, str], why: str
):
    run = build(builder, recipe)
    assert (run.state, run.failure_code) == (State.FAILED, "environment")
    assert re.match(f"The environment of {why}", run.failure)
    assert not list((home / "envs").glob("*.building"))


def test_a_candidate_is_installed_from_the_wheel_that_was_registered(
    builder: Identity, home: Path, tmp_path: Path
):
    torch(home / "wheels", "13.0")
    flashinfer(home / "wheels", "0.7.0")
    patched = tmp_path / "patched"
    patched.mkdir()
    flashinfer(patched, "0.7.0", files={"flashinfer/patch.py": ""})
    body = next(patched.glob("*.whl")).read_bytes()
    sha256 = hashlib.sha256(body).hexdigest()
    version = f"0.7.0+{candidate_label(sha256)}"
    Candidate.objects.create(
        package="flashinfer", version=version, sha256=sha256, size=len(body), body=body, origin="x.whl"
    )
    recipe = {"flashinfer": version, "torch": "2.13.0", "cuda": "13"}
    run = build(builder, recipe, candidate=sha256)
    assert (run.state, run.failure) == (State.DONE, "")
    environment = environments.location(home / "envs", recipe)
    assert list(environment.glob("lib/python*/site-packages/flashinfer/patch.py"))
    assert list(environment.glob(f"lib/python*/site-packages/flashinfer_python-{version}.dist-info"))
    lost = build(builder, {**recipe, "flashinfer": "0.7.0+candidate.1"})
    assert "flashinfer-python==0.7.0+candidate.1" in lost.failure, "an index has no such version"
