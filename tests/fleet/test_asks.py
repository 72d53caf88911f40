"""What may be asked for, and what becomes of it: any text is read or refused, none becomes a command."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.catalog.models import Release
from benchapp.fleet import asks
from benchapp.fleet.ask_fields import BOUNDS, FOREIGN, MOST_RUNS, TIMERS
from benchapp.fleet.ask_kinds import EXPLORED, WHAT
from benchapp.fleet.ask_kinds import MEASURED as MEASURED_KINDS
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Candidate, Gpu, Installation, WatchedRelease
from benchapp.people.models import AuditEntry, User
from benchapp.runs.models import Job, Run, State
from benchapp.runs.requests import (
    DEEP_PRIORITY,
    GPU_TORCH,
    LIBRARIES,
    MODEL_LIBRARIES,
    gang_size,
    request_cpu_gemm,
)
from workers.bench.suites import SUITES
from workers.bench.suites.models import MODEL_SUITES
from workers.bench.tiles.arches import ARCHES

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

VERSIONS = st.one_of(
    st.just("newest"),
    st.builds("{}.{}.{}".format, *[st.integers(0, 99)] * 3),
    st.builds("0.6.3+candidate.{:012x}".format, st.integers(0, 2**48 - 1)),
)
UUIDS = st.builds("GPU-{:08x}".format, st.integers(0, 2**32 - 1))
MEASURED = st.one_of(
    st.just("cpu"),
    st.builds("cpu:{}".format, st.from_regex(r"\A[0-9A-Za-z_-]{1,8}\Z")),
    st.builds("gpu:{}".format, UUIDS),
    st.sampled_from(["model:nvidia-h200", "gpuarch:sm90"]),
    st.sets(UUIDS, min_size=2, max_size=8).map(lambda gang: "gang:" + "+".join(gang)),
)
ON_GPUS = MEASURED.filter(lambda target: not target.startswith("cpu"))
CASES = st.one_of(
    st.builds("{}x{}x{}:{}".format, *[st.integers(1, 9999)] * 3, st.sampled_from(["bf16", "nvfp4"])),
    st.builds("rmsnorm:tokens={},hidden=7168,dtype=bf16".format, st.integers(1, 9999)),
)
LIMITS = st.one_of(st.none(), st.integers(*BOUNDS["time_limit_s"]))


@st.composite
def models(draw) -> dict[str, Any]:
    """What an ask of whole models holds beside its versions."""
    tp, ep = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 4)]))
    size = tp * ep
    on_gpus = st.sets(UUIDS, min_size=size, max_size=size).map(lambda gang: "gang:" + "+".join(gang))
    if size == 1:
        on_gpus = ON_GPUS.filter(lambda target: not target.startswith("gang"))
    library = draw(st.sampled_from(MODEL_LIBRARIES))
    anywhere = st.one_of(st.just("cpu"), on_gpus) if library == "torch" else on_gpus
    data = {
        "library": library,
        "targets": draw(st.lists(anywhere, min_size=1, max_size=3)),
        "case_timeout_s": draw(st.one_of(st.none(), st.integers(*BOUNDS["case_timeout_s"]))),
        "backends": draw(st.lists(st.from_regex(r"\A[a-z0-9_.-]{1,60}\Z"), max_size=3)),
    }
    of_size = [name for name, cases in MODEL_SUITES.items() if gang_size(cases) == size]
    if of_size and draw(st.booleans()):
        return data | {"suite": draw(st.sampled_from(of_size))}
    choice = {
        "models": draw(st.lists(st.sampled_from(["Qwen3-30B-A3B", "tiny-gqa", "GLM-5"]), min_size=1)),
        "batches": draw(st.lists(st.integers(1, 32).map(lambda batch: batch * ep), min_size=1, max_size=3)),
        "phases": draw(st.lists(st.sampled_from(["decode", "prefill"]), max_size=2)),
        "contexts": draw(st.lists(st.integers(1, 4096), max_size=2)),
        "tp": tp,
        "ep": ep,
        "layers": draw(st.sampled_from([None, 1, 2])),
    }
    typed = f"decode:model=tiny-gqa,batch={ep},context=8,layers=1,tp={tp},ep={ep},dtype=bf16"
    return data | choice | {"cases": draw(st.lists(st.just(typed), max_size=1))}


@st.composite
def good(draw) -> dict[str, Any]:
    what = draw(st.sampled_from(list(WHAT)))
    data = {
        "what": what,
        "versions": draw(st.lists(VERSIONS, min_size=1, max_size=4)),
        "time_limit_s": draw(LIMITS),
    }
    if what not in MEASURED_KINDS:
        arches = ["sm120", "sm121"] if what in EXPLORED else list(ARCHES)
        targets = st.sampled_from(arches).map("arch:{}".format)
        return data | {"targets": draw(st.lists(targets, min_size=1, max_size=4))}
    if what == "moe":
        return data | draw(models())
    library = draw(st.sampled_from(list(LIBRARIES)))
    timer = draw(st.sampled_from(TIMERS))
    anywhere = MEASURED if (library, timer) == ("torch", "auto") else ON_GPUS
    data |= {
        "library": library,
        "targets": draw(st.lists(anywhere, min_size=1, max_size=4)),
        "foreign": draw(st.sampled_from(FOREIGN)),
        "processes": draw(st.one_of(st.none(), st.integers(*BOUNDS["processes"]))),
        "case_timeout_s": draw(st.one_of(st.none(), st.integers(*BOUNDS["case_timeout_s"]))),
        "timer": timer,
        "backends": draw(st.lists(st.from_regex(r"\A[a-z0-9_.-]{1,60}\Z"), max_size=3)),
    }
    if draw(st.booleans()):
        suite = draw(st.sampled_from(list(SUITES)))
        of_suite = st.sampled_from([str(case) for case in SUITES[suite]])
        return data | {"suite": suite, "cases": draw(st.lists(of_suite, max_size=4))}
    return data | {"cases": draw(st.lists(CASES, min_size=1, max_size=4))}


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None))),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@quick
@given(good())
def test_an_ask_comes_back_from_json_and_from_its_permalink(data):
    ask = Ask.from_json(data)
    assert Ask.from_json(json.loads(json.dumps(ask.as_json()))) == ask
    assert Ask.from_json(asks.from_query(QueryDict(ask.query()))) == ask
    assert str(ask)


@quick
@given(good(), st.sampled_from([field.name for field in dataclasses.fields(Ask)]), ANYTHING)
def test_whatever_stands_in_a_field_is_read_or_refused_by_name(data, field, value):
    try:
        ask = Ask.from_json(data | {field: value})
    except ValidationError as error:
        for sentences in error.message_dict.values():
            for sentence in sentences:
                sentence.encode()
                assert len(sentence) < 900
    else:
        assert Ask.from_json(ask.as_json()) == ask


@quick
@given(ANYTHING)
def test_whatever_stands_in_place_of_an_ask_is_refused(value):
    with pytest.raises(ValidationError):
        Ask.from_json(value)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("what", "rm -rf /", "expected survey, full, explore, rescue, gemm"),
        ("versions", ["0.6.3; curl evil"], "is not a version"),
        ("versions", ["-r /etc/passwd"], "is not a version"),
        ("versions", ["0.6.3+local"], "not on the package index"),
        ("versions", [], "Expected a version such as 0.6.3"),
        ("targets", ["arch:sm42"], "expected arch:sm120"),
        ("targets", ["arch:../../etc"], "is no target here: expected arch:sm120"),
        ("targets", ["gpu:GPU-1a2b"], "is no target here: expected arch:sm120"),
        ("suite", "cpu-smoke", "only benchmarks have suites"),
        ("cases", ["16x16x16:bf16"], "only a benchmark has cases"),
        ("time_limit_s", "3e4", "whole seconds from 10"),
        ("time_limit_s", 5, "whole seconds from 10"),
        ("foreign", "kill", "expected refuse or flag"),
    ],
)
def test_a_refusal_names_the_field_and_what_was_expected(field, value, said):
    with pytest.raises(ValidationError) as caught:
        Ask.from_json({"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120"]} | {field: value})
    assert said in caught.value.message_dict[field][0]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("targets", ["gpu:../GPU-1"], "expected cpu, cpu:INSTALLATION"),
        ("targets", ["gang:GPU-1+GPU-1"], "2 to 16 different GPUs"),
        ("targets", ["arch:sm120"], "no target of a benchmark"),
        ("suite", "none", "expected cpu-smoke"),
        ("suite", "", "Expected a suite (cpu-smoke"),
        ("cases", ["1x1x1:bf16"], "expected cases of the suite cpu-smoke, or no suite"),
        ("cases", ["1x1"], "expected MxNxK"),
        ("library", "../../x", "expected torch, flashinfer or sgl-kernel"),
        ("library", ["torch"], "expected one word"),
        ("processes", 300, "Expected whole processes from 1 to 10."),
        ("processes", "-1", "Expected whole processes from 1 to 10."),
        ("case_timeout_s", "5", "Expected whole seconds from 10 to 3,600."),
        ("timer", "stopwatch", "expected auto, cupti, cuda_graph or cuda_events"),
        ("timer", "cupti", "CPUs have no timer to choose"),
        ("backends", ['torch.mm"; rm -rf /'], "is no backend: expected a name such as torch.mm"),
        ("backends", ["--out=/etc/passwd"], "is no backend"),
        ("backends", [f"b{n}" for n in range(21)], "21 backends: expected at most 20."),
    ],
)
def test_a_refusal_of_a_benchmark_names_the_field(field, value, said):
    data = {"what": "gemm", "versions": ["2.13.0"], "targets": ["cpu"], "suite": "cpu-smoke"}
    with pytest.raises(ValidationError) as caught:
        Ask.from_json(data | {field: value})
    assert said in caught.value.message_dict[field][0]


@pytest.mark.parametrize("library", ["flashinfer", "sgl-kernel"])
def test_what_runs_on_gpus_alone_is_refused_on_cpus(library):
    data = {"what": "gemm", "library": library, "versions": ["0.6.9"], "cases": ["1x8x16:bf16"]}
    for targets in (["cpu"], ["gpuarch:sm90", "cpu:aaaaaaaa"]):
        with pytest.raises(ValidationError) as caught:
            Ask.from_json(data | {"targets": targets})
        assert "runs on GPUs alone: expected gpu:UUID" in caught.value.message_dict["targets"][0]
    assert Ask.from_json(data | {"targets": ["gpuarch:sm90"]}).package == library


def test_only_a_benchmark_has_a_library_and_options():
    data = {"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120"]}
    wrong = {"library": "flashinfer", "processes": 2, "timer": "cupti", "backends": ["torch.mm"]}
    with pytest.raises(ValidationError) as caught:
        Ask.from_json(data | wrong)
    assert set(caught.value.message_dict) == set(wrong)
    assert all("only a benchmark has" in said[0] for said in caught.value.message_dict.values())


def test_what_was_asked_before_there_were_libraries_is_of_torch():
    ask = Ask.from_json({"what": "gemm", "versions": ["2.13.0"], "targets": ["cpu"], "suite": "cpu-smoke"})
    assert (ask.library, ask.package, ask.options) == ("torch", "torch", {})
    assert ask.query() == "what=gemm&version=2.13.0&target=cpu&suite=cpu-smoke"


def test_a_job_is_bounded():
    data = {"what": "survey", "targets": [f"arch:{arch}" for arch in ARCHES]}
    versions = [f"0.{n}" for n in range(MOST_RUNS // len(ARCHES) + 1)]
    with pytest.raises(ValidationError) as caught:
        Ask.from_json(data | {"versions": versions})
    assert f"at most {MOST_RUNS} runs" in caught.value.message_dict["targets"][0]
    with pytest.raises(ValidationError):
        Ask.from_json(data | {"versions": [f"0.{n}" for n in range(MOST_RUNS + 1)]})


# what is here


@pytest.fixture
def h200s(db) -> list[Gpu]:
    """A host with two H200s, and another one with one."""
    two = Installation.objects.create(key="aaaaaaaa", host="boxa")
    one = Installation.objects.create(key="bbbbbbbb", host="boxb")
    made = [
        Gpu(installation=two, uuid="GPU-a0", index=0, model="NVIDIA H200", arch="sm90"),
        Gpu(installation=two, uuid="GPU-a1", index=1, model="NVIDIA H200", arch="sm90"),
        Gpu(installation=one, uuid="GPU-b0", index=0, model="NVIDIA H200", arch="sm90"),
    ]
    return Gpu.objects.bulk_create(made)


def gemm(*targets: str, **values) -> Ask:
    return asks.clean(
        {"what": "gemm", "versions": ["2.13.0"], "targets": targets, "suite": "cpu-smoke"} | values
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("gpu:GPU-c0", "GPU-c0 is no GPU that has reported here; expected GPU-a0, GPU-a1, GPU-b0"),
        ("gang:GPU-a0+GPU-b0", "no host has all of these"),
        ("model:nvidia-b200", "expected model:nvidia-h200"),
        ("gpuarch:sm100", "expected gpuarch:sm90"),
        ("cpu:cccccccc", "expected cpu:aaaaaaaa, cpu:bbbbbbbb"),
    ],
)
def test_only_what_has_reported_can_be_asked_for(h200s, target, said):
    with pytest.raises(ValidationError) as caught:
        gemm(target)
    assert said in caught.value.message_dict["targets"][0]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "gpu:GPU-a0",
            "GPU-a0 is no GPU that has reported here: no GPU has reported here yet; expected cpu.",
        ),
        ("model:nvidia-h200", "model:nvidia-h200 is not here: no GPU has reported here yet; expected cpu."),
    ],
)
def test_where_no_gpu_has_reported_it_says_no_more_than_that(target, said):
    Installation.objects.create(key="aaaaaaaa", host="boxa")
    with pytest.raises(ValidationError) as caught:
        gemm(target)
    assert caught.value.message_dict["targets"] == [said]


@pytest.mark.django_db
def test_with_an_empty_fleet_a_host_is_refused_and_the_cpus_are_not():
    with pytest.raises(ValidationError) as caught:
        gemm("cpu:aaaaaaaa")
    assert "no host has reported here yet; expected cpu." in caught.value.message_dict["targets"][0]
    assert gemm("cpu").targets == ("cpu",)


def test_each_target_becomes_a_run_on_its_queue(h200s):
    targets = ["cpu", "cpu:aaaaaaaa", "gpu:GPU-a0", "model:nvidia-h200", "gpuarch:sm90", "gang:GPU-a1+GPU-a0"]
    asked = asks.request(gemm(*targets, foreign="flag"), user=None, source=Job.Source.COMMAND)
    runs = {run.queue + "/" + "+".join(run.gpus): run for run, _ in asked.runs}
    assert set(runs) == {
        "cpu/", "cpu.aaaaaaaa/", "gpu.uuid.GPU-a0/", "gpu.model.nvidia-h200/", "gpu.arch.sm90/",
        "gpu.uuid.GPU-a0/GPU-a0+GPU-a1",
    }  # fmt: skip
    assert runs["cpu/"].params["device"] == "cpu" and "foreign" not in runs["cpu/"].params
    on_gpu = runs["gpu.arch.sm90/"]
    assert on_gpu.params["device"] == "cuda" and on_gpu.params["foreign"] == "flag"
    assert on_gpu.recipe.versions == {"torch": "2.13.0", "cuda": "13"}
    assert all(run.environment for run in runs.values())
    assert len(on_gpu.params["cases"]) == len(SUITES["cpu-smoke"])


@pytest.mark.django_db
def test_a_suite_on_the_cpus_is_the_very_run_that_the_first_start_asks_for():
    first, _ = request_cpu_gemm("cpu-smoke", user=None, source=Job.Source.FIRST_START)
    asked = asks.request(gemm("cpu"), user=None, source=Job.Source.COMMAND)
    assert asked.runs == [(first, False)]


@pytest.mark.django_db
def test_a_job_keeps_what_was_asked_who_asked_and_its_key():
    user = User.objects.create_user("olga", password="x")
    ask = asks.clean(
        {"what": "survey", "versions": ["0.6.3", "0.6.2"], "targets": ["arch:sm120", "arch:sm90"]}
    )
    asked = asks.request(ask, user=user, source=Job.Source.PERSON, key="once")
    assert asked.created and len(asked.runs) == 4
    assert Ask.from_json(asked.job.asked) == ask
    assert asked.job.title == "Tile survey of FlashInfer 0.6.3, 0.6.2 on SM120, SM90"
    assert AuditEntry.objects.filter(user=user, action="request_run").count() == 4
    again = asks.request(ask, user=user, source=Job.Source.PERSON, key="once")
    assert again.job == asked.job and not again.created and Run.objects.count() == 4


@pytest.mark.django_db
def test_background_work_stays_in_the_background_whatever_the_priority_of_the_job():
    data = {"versions": ["0.6.3"], "targets": ["arch:sm120"]}
    for what, priority in (("full", DEEP_PRIORITY), ("survey", 1)):
        ask = asks.clean(data | {"what": what, "time_limit_s": 600})
        ((run, _),) = asks.request(ask, user=None, source=Job.Source.BACKFILL, priority=1).runs
        assert (run.priority, run.time_limit_s, run.state) == (priority, 600, State.QUEUED)


def test_each_library_has_its_recipe_and_its_options_go_with_the_run(h200s):
    cases = ["16x4096x7168:nvfp4", "rmsnorm:tokens=64,hidden=7168,dtype=bf16"]
    options = {
        "processes": 3,
        "case_timeout_s": 60,
        "timer": "cupti",
        "backends": ["flashinfer.mm_fp4.cutlass"],
    }
    for library in ("flashinfer", "sgl-kernel"):
        ask = gemm("gpuarch:sm90", library=library, versions=["0.6.9"], suite="", cases=cases, **options)
        ((run, _),) = asks.request(ask, user=None, source=Job.Source.COMMAND).runs
        assert run.recipe.versions == {library: "0.6.9", "torch": GPU_TORCH, "cuda": "13"}
        assert {name: run.params[name] for name in options} == options
        assert run.params["cases"][1] == {"kind": "rmsnorm", "tokens": 64, "hidden": 7168, "dtype": "bf16"}
        assert run.environment and "candidate" not in run.params
    assert run.job.title == "2 kernel cases on any GPU of sm90"


def test_titles_name_the_host_and_not_its_installation(h200s):
    asked = asks.request(gemm("cpu:aaaaaaaa", "gpu:GPU-b0"), user=None, source=Job.Source.COMMAND)
    assert asked.job.title == "GEMM suite cpu-smoke with torch 2.13.0 on CPUs of boxa, GPU-b0"
    ((_, request), _) = asks.to_requests(gemm("cpu:aaaaaaaa", "cpu"), {"aaaaaaaa": "boxa"})
    assert request.title == "GEMM suite cpu-smoke on CPUs of boxa"


# versions


@pytest.mark.django_db
def test_newest_is_what_is_newest_when_it_is_asked_for():
    newest = {"what": "survey", "versions": ["newest"], "targets": ["arch:sm120"]}
    with pytest.raises(ValidationError) as caught:
        asks.clean(newest)
    assert "No release of flashinfer is known here yet" in caught.value.message_dict["versions"][0]
    Release.objects.create(package="flashinfer", version="0.6.9")
    WatchedRelease.objects.create(package="flashinfer-python", version="0.6.10")
    WatchedRelease.objects.create(package="flashinfer-python", version="0.7.0rc1")
    ask = asks.clean(newest)
    ((run, _),) = asks.request(ask, user=None, source=Job.Source.SCHEDULE).runs
    assert run.recipe.versions == {"flashinfer": "0.6.10"}
    WatchedRelease.objects.create(package="flashinfer-python", version="0.7.0")
    ((run, _),) = asks.request(ask, user=None, source=Job.Source.SCHEDULE).runs
    assert run.recipe.versions == {"flashinfer": "0.7.0"}


@pytest.mark.django_db
def test_a_candidate_is_measured_once_it_is_registered():
    version = "0.6.3+candidate.1a2b3c4d5e6f"
    ask = {"what": "survey", "versions": [version], "targets": ["arch:sm120"]}
    with pytest.raises(ValidationError) as caught:
        asks.clean(ask)
    assert "is not registered here as a candidate" in caught.value.message_dict["versions"][0]
    Candidate.objects.create(
        package="flashinfer", version=version, sha256="0" * 64, size=1, body=b"x", origin="a.whl"
    )
    ((run, _),) = asks.request(asks.clean(ask), user=None, source=Job.Source.COMMAND).runs
    assert run.recipe.versions == {"flashinfer": version}


def test_a_candidate_of_flashinfer_is_timed_as_well_as_surveyed(h200s):
    version = "0.6.3+candidate.1a2b3c4d5e6f"
    values = {"library": "flashinfer", "versions": [version], "suite": "", "cases": ["16x4096x7168:nvfp4"]}
    with pytest.raises(ValidationError) as caught:
        gemm("gpuarch:sm90", **values)
    assert "is not registered here as a candidate" in caught.value.message_dict["versions"][0]
    Candidate.objects.create(
        package="flashinfer", version=version, sha256="0" * 64, size=1, body=b"x", origin="a.whl"
    )
    ((run, _),) = asks.request(gemm("gpuarch:sm90", **values), user=None, source=Job.Source.COMMAND).runs
    assert run.recipe.versions == {"flashinfer": version, "torch": GPU_TORCH, "cuda": "13"}
    assert run.params["candidate"] == "0" * 64
    with pytest.raises(ValidationError):
        gemm("gpuarch:sm90", **values | {"library": "torch"})


def test_newest_is_of_the_library(h200s):
    for package, version in (("flashinfer", "0.6.9"), ("sgl-kernel", "0.3.1"), ("torch", "9.0.0")):
        Release.objects.create(package=package, version=version)
        ask = gemm("gpuarch:sm90", library=package, versions=["newest"])
        ((run, _),) = asks.request(ask, user=None, source=Job.Source.SCHEDULE).runs
        assert run.recipe.versions == {"torch": GPU_TORCH, "cuda": "13"} | {package: version}
