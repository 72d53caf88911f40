"""The build of a FlashInfer environment on a host with a GPU: real pip, real nvcc, a library of our own
making with FlashInfer's own interface to its modules. NVML alone is simulated."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Document, Job, Measurement, Run, State
from tests.environments import wheels
from tests.simulated import pynvml
from tests.workers.conftest import REPOSITORY, claim
from workers import environments, execute
from workers.identity import Identity

RECIPE = {"flashinfer": "0.6.3", "torch": "2.13.0", "cuda": "13"}
pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("nvcc", "g++", "ninja")),
    reason="nvcc, g++ and ninja compile the modules, and one of them is not on this machine",
)

CORE = """
import os, pathlib, subprocess

def gencode():
    for arch in os.environ["FLASHINFER_CUDA_ARCH_LIST"].split(" "):
        number = arch.replace(".", "")
        yield f"-gencode=arch=compute_{number},code=sm_{number}"

class JitSpec:
    def __init__(self, name, text):
        self.name, self.text = name, text
        base = pathlib.Path(os.environ["FLASHINFER_WORKSPACE_BASE"])
        self.jit_library_path = base / f"{name}.so"
        self.aot_path = pathlib.Path(__file__).parents[1] / "data" / "aot" / name / f"{name}.so"

    def build(self, verbose):
        source = self.jit_library_path.with_suffix(".cu")
        source.write_text(self.text)
        nvcc = os.environ["CUDA_HOME"] + "/bin/nvcc"
        done = subprocess.run(
            [nvcc, "-shared", "-Xcompiler", "-fPIC", *gencode(), str(source), "-lcuda",
             "-o", str(self.jit_library_path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError("Ninja build failed. Ninja output:\\n" + done.stdout)
"""
NORM = """
from .core import JitSpec

def gen_norm_module():
    return JitSpec("norm", "__global__ void scale(float* x) { x[threadIdx.x] *= 2; }")
"""
ROPE = """
from .core import JitSpec

def gen_rope_module():
    return JitSpec("rope", "__global__ void turn(float* x) { x[0] = angle; }")
"""


@pytest.fixture
def builder(here: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Identity:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheels.torch(folder, "13.0")
    wheels.cupti(folder)
    wheels.wheel(folder, "nvidia-cutlass-dsl", "4.8.1", {"dsl.py": ""})
    library = {"core": CORE, "norm": NORM, "rope": ROPE, "__init__": ""}
    files = {f"flashinfer/jit/{name}.py": text for name, text in library.items()}
    wheels.flashinfer(folder, "0.6.3", ["torch", "nvidia-cutlass-dsl>=4.3.4"], files)
    monkeypatch.setenv("TILEWATCH_WHEELS", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "tests" / "simulated"))
    monkeypatch.setenv("SIMULATED_NVML", str(tmp_path / "nvml.json"))
    pynvml.write(tmp_path / "nvml.json", pynvml.gpu(capability=[9, 0]))
    return dataclasses.replace(here, role="build", queues=("build.k3jd82ks", "build"))


def build(builder: Identity) -> Run:
    request = Request(Run.Kind.BUILD, "a build", "build.k3jd82ks", RECIPE, {})
    request_run(request, user=None, source=Job.Source.COMMAND)
    run = claim(builder)
    execute.execute(run, builder)
    return Run.objects.get(pk=run.run_id)


def test_modules_are_built_ahead_and_told_of_and_one_that_fails_costs_only_itself(
    builder: Identity, home: Path
):
    run = build(builder)
    assert (run.state, run.failure) == (State.DELIVERED, "")
    environment = environments.location(home / "envs", RECIPE)
    assert environment.name in environments.ready()
    (library,) = environment.glob("lib/python*/site-packages/flashinfer/data/aot/*/*.so")
    assert library.name == "norm.so"
    if listing := shutil.which("cuobjdump"):
        listed = subprocess.run([listing, "-lelf", str(library)], capture_output=True, text=True, check=True)
        assert "sm_90a" in listed.stdout
    document = ingest(Document.objects.get().pk)
    run.refresh_from_db()
    assert (run.state, document.fault, document.kind) == (State.DONE, "", "modules")
    assert (document.target.arch, document.target.host.name) == ("sm90", "boxa")
    assert document.stack.components["flashinfer"] == "0.6.3"
    assert document.stack.components["cutlass-dsl"] == "4.8.1"
    assert document.facts["notes"][0] == "flashinfer 0.6.3 asks for nvidia-cutlass-dsl>=4.3.4 and got 4.8.1"
    assert document.facts["costs"]["cpu_seconds"] > 0
    lock = json.loads(json.loads(bytes(document.body))["logs"]["lock.json"])
    assert [each["name"] for each in lock["packages"] if each["layer"] == "own"] == [
        "flashinfer-python",
        "nvidia-cutlass-dsl",
    ]
    rows = {
        (row.series.case.params["module"], row.series.metric): row
        for row in Measurement.objects.select_related("series__case")
    }
    assert rows["norm", "size"].median == library.stat().st_size
    assert rows["norm", "cpu_time"].median > 0
    assert rows["rope", "cpu_time"].outcome == "build_failed"
    assert 'identifier "angle" is undefined' in rows["rope", "cpu_time"].error
    assert rows["sampling", "cpu_time"].outcome == "unsupported"
    assert rows["sampling", "cpu_time"].error == "This FlashInfer has no flashinfer.jit.sampling."
    assert ("rope", "size") not in rows
    assert build(builder).state == State.DONE, "it was there"
