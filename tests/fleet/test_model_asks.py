"""Whole models asked for: what is chosen becomes cases, gangs are as large, memory is told first."""

from __future__ import annotations

import io
import re
import shlex
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.http import QueryDict

from benchapp.catalog.models import Release
from benchapp.fleet import asks, backfill, plan_words, planning, releases, schedules
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Gpu, Schedule, WatchedRelease
from benchapp.people.models import Role, User
from benchapp.runs import again, queues, requests
from benchapp.runs.models import Job, Run
from benchapp.runs.requests import GPU_TORCH
from tests.fleet.machines import host
from workers.bench.cases.parse import as_row, from_text
from workers.bench.suites.models import MODEL_SUITES

H200 = 150_754_820_096
QWEN = {"models": ["Qwen3-30B-A3B"], "batches": [1, 64]}


def ask(*targets: str, **values: Any) -> Ask:
    data = {"what": "moe", "library": "flashinfer", "versions": ["0.6.18"], "targets": targets}
    return asks.clean(data | values)


@pytest.fixture
def h200s(db) -> None:
    """Four H200s in one host, one in another."""
    host("boxa", "aaaaaaaa", *[f"GPU-a{n}" for n in range(4)], facts={"memory_bytes": 8 * 2**30})
    host("boxb", "bbbbbbbb", "GPU-b0", facts={"memory_bytes": 64 * 2**30})
    Gpu.objects.update(memory_bytes=H200)


def faults(data: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Ask.from_json({"what": "moe", "versions": ["2.13.0"], "targets": ["cpu"]} | data)
    return {field: " ".join(said) for field, said in caught.value.message_dict.items()}


TINY = {"models": ["tiny-gqa"], "batches": [4]}


@pytest.mark.parametrize(
    ("data", "field", "said"),
    [
        ({}, "suite", "or cases, or models"),
        ({"suite": "cpu-smoke"}, "suite", "expected tiny"),
        ({"cases": ["16x16x16:bf16"]}, "cases", "is no case of a whole model: expected decode"),
        ({"models": ["Llama"], "batches": [1]}, "models", "'Llama' is no model known here: expected GLM-5"),
        ({"models": ["tiny-gqa"]}, "batches", "Expected sequences that run at once"),
        (TINY | {"batches": [0]}, "batches", "whole batches from 1 to 65,536"),
        (TINY | {"batches": ["many"]}, "batches", "whole batches from 1"),
        (TINY | {"phases": ["train"]}, "phases", "expected decode or prefill"),
        (TINY | {"contexts": [2**20 + 1]}, "contexts", "from 1 to 1,048,576"),
        (TINY | {"layers": 79}, "layers", "tiny-gqa: Expected a whole number from 1 to"),
        (TINY | {"tp": 3}, "tp", "tiny-gqa: Expected a divisor of the"),
        (TINY | {"ep": 64, "batches": [64]}, "ep", "tiny-gqa: Expected a divisor of the"),
        (TINY | {"ep": 2, "batches": [3]}, "batches", "tiny-gqa: Expected a multiple of ep, 2"),
        (TINY | {"suite": "tiny"}, "models", "the suite tiny says what is measured"),
        ({"suite": "tiny", "tp": 2}, "tp", "the suite tiny says"),
        ({"batches": [4], "suite": ""}, "models", "Expected models: batches are of those"),
        (TINY | {"library": "sgl-kernel"}, "library", "expected torch or flashinfer"),
        (TINY | {"processes": 2}, "processes", "only a GEMM benchmark has processes"),
        (TINY | {"timer": "cupti", "targets": ["gpu:GPU-1"]}, "timer", "only a GEMM benchmark has timer"),
        (TINY | {"library": "flashinfer"}, "targets", "FlashInfer runs on GPUs alone"),
        (TINY | {"backends": ["; ls"]}, "backends", "is no backend"),
        (TINY | {"contexts": list(range(1, 200)), "batches": [1, 2]}, "models", "398 cases: expected"),
        (TINY | {"tp": 2, "targets": ["gpu:GPU-1"]}, "targets", "take 2 GPUs (tp × ep), and this is 1"),
        (TINY | {"tp": 2, "targets": ["model:nvidia-h200"]}, "targets", "expected gang:UUID+UUID"),
        (TINY | {"targets": ["gang:GPU-1+GPU-2"]}, "targets", "take 1 GPU (tp × ep), and this is 2"),
        (TINY | {"tp": 2, "cases": ["all_reduce:tokens=8,hidden=64,ranks=4"]}, "cases", "of 2 and of 4"),
    ],
)  # fmt: skip
def test_each_field_that_cannot_be_asked_for_is_named(data, field, said):
    assert said in faults(data)[field]


def test_a_gemm_takes_no_models_and_a_survey_neither():
    said = faults({"what": "gemm", "models": ["tiny-gqa"], "suite": "cpu-smoke"})
    assert said == {"models": "Expected none: only MoE tokens per second has models to choose."}
    case = "decode:model=tiny-gqa,batch=1,context=8,layers=1,tp=1,ep=1"
    assert "asked for as MoE tokens per second" in faults({"what": "gemm", "cases": [case]})["cases"]
    said = faults({"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm90"], "tp": 2})
    assert said["tp"].startswith("Expected none")


def test_a_choice_is_each_phase_of_each_model_at_each_batch_and_context():
    data = {"models": ["tiny-gqa", "tiny-mla"], "phases": ["decode", "prefill"], "batches": [2, 4],
            "contexts": [8, 16], "ep": 2, "layers": 1}  # fmt: skip
    chosen = Ask.from_json({"what": "moe", "versions": ["2.13.0"], "targets": ["cpu"]} | data)
    cases = chosen.chosen_cases
    assert len(cases) == len(set(cases)) == 16
    assert str(cases[0]) == "decode:model=tiny-gqa,batch=2,context=8,layers=1,tp=1,ep=2,dtype=bf16"
    whole = Ask.from_json({"what": "moe", "versions": ["2.13.0"], "targets": ["cpu"]} | TINY | {"tp": 1})
    assert whole.tp is None and [str(case) for case in whole.chosen_cases] == [
        "decode:model=tiny-gqa,batch=4,context=1024,layers=3,tp=1,ep=1,dtype=bf16"
    ]
    assert str(whole) == "1 MoE case of tiny-gqa with torch 2.13.0 on any host's CPUs"


def test_each_target_becomes_a_run_of_its_kind(h200s):
    two = ask("gang:GPU-a3+GPU-a1", "gang:GPU-a0+GPU-a1", **QWEN, tp=2, foreign="flag", case_timeout_s=60,
              backends=["flashinfer+triton.fused_experts"])  # fmt: skip
    runs = [run for run, _ in asks.request(two, user=None, source=Job.Source.COMMAND).runs]
    assert [run.gpus for run in runs] == [["GPU-a1", "GPU-a3"], ["GPU-a0", "GPU-a1"]]
    assert [run.queue for run in runs] == ["gpu.uuid.GPU-a1", "gpu.uuid.GPU-a0"]
    run = runs[0]
    assert run.kind == Run.Kind.MOE and run.environment
    assert run.recipe.versions == {"flashinfer": "0.6.18", "torch": GPU_TORCH, "cuda": "13"}
    assert run.params == {
        "device": "cuda",
        "suite": "",
        "foreign": "flag",
        "case_timeout_s": 60,
        "backends": ["flashinfer+triton.fused_experts"],
        "cases": [as_row(case) for case in two.chosen_cases],
    }
    one = ask("model:nvidia-h200", "gpuarch:sm90", "gpu:GPU-b0", suite="qwen3-30b-decode")
    asked = asks.request(one, user=None, source=Job.Source.COMMAND)
    assert {run.queue for run, _ in asked.runs} == {
        "gpu.model.nvidia-h200", "gpu.arch.sm90", "gpu.uuid.GPU-b0",
    }  # fmt: skip
    assert asked.job.title == (
        "MoE suite qwen3-30b-decode with FlashInfer 0.6.18 on any nvidia-h200, any GPU of sm90, GPU-b0"
    )


def test_a_gang_is_of_one_host(h200s):
    with pytest.raises(ValidationError) as caught:
        ask("gang:GPU-a0+GPU-b0", **QWEN, tp=2)
    assert "no host has all of these" in caught.value.message_dict["targets"][0]


def test_a_request_by_itself_holds_as_many_gpus_as_its_cases_take():
    cases = MODEL_SUITES["qwen3-30b-tp2"]
    with pytest.raises(ValidationError) as caught:
        requests.moe(cases, suite="qwen3-30b-tp2", version="0.6.18", library="flashinfer",
                     queue=queues.gpu("GPU-1"), gpus=("GPU-1",))  # fmt: skip
    assert "take 2 GPUs together (tp × ep), and 1 would be held" in caught.value.message_dict["gpus"][0]
    on_cpu = requests.moe(MODEL_SUITES["tiny-2"], suite="tiny-2", version="2.13.0")
    assert on_cpu.versions == {"torch": "2.13.0"} and on_cpu.params["device"] == "cpu" and not on_cpu.gpus
    with pytest.raises(ValidationError):
        requests.moe(cases, suite="", version="0.3.21", library="sgl-kernel", queue=queues.gpu("GPU-1"))
    with pytest.raises(ValidationError):
        requests.moe((), suite="", version="2.13.0")


def test_a_model_that_cannot_fit_says_so_first_with_the_estimate_and_what_would(h200s):
    with pytest.raises(ValidationError) as caught:
        ask("gpu:GPU-a0", models=["GLM-5"], batches=[1])
    (said,) = caught.value.message_dict["models"]
    assert said.startswith(
        "Decode of GLM-5, batch 1 at 1,024 tokens each does not fit GPU-a0. GLM-5 with all 78"
    )
    assert "140.4 GiB are there" in said and "layers would fit" in said and "GPUs hold them all" in said
    assert not Run.objects.exists()
    layers = int(re.search(r"(\d+) layers would fit", said)[1])
    assert ask("gpu:GPU-a0", models=["GLM-5"], batches=[1], layers=layers).layers == layers
    with pytest.raises(ValidationError):
        ask("gpu:GPU-a0", models=["GLM-5"], batches=[1], layers=layers + 1)


def test_where_some_cases_fit_it_says_how_many(h200s):
    Gpu.objects.update(memory_bytes=76 * 2**30)
    with pytest.raises(ValidationError) as caught:
        ask("gpuarch:sm90", models=["Qwen3-30B-A3B"], batches=[1, 8, 256], contexts=[16384])
    (said,) = caught.value.message_dict["models"]
    assert "batch 256 at 16,384" in said and "any GPU of sm90, the smallest of them" in said
    assert "2 of 3 cases fit" in said


def test_of_several_gpus_the_smallest_counts_and_unknown_memory_is_told_and_allowed(h200s):
    Gpu.objects.filter(uuid="GPU-b0").update(memory_bytes=40 * 2**30)
    with pytest.raises(ValidationError) as caught:
        ask("model:nvidia-h200", suite="qwen3-30b-decode")
    assert "40.0 GiB are there" in caught.value.message_dict["suite"][0]
    fits = planning.plan(ask("gpu:GPU-a0", suite="qwen3-30b-decode"))
    (sentence,) = fits.memory
    assert sentence.startswith("GPU 0 of boxa, decode of Qwen3-30B-A3B, batch 256") and sentence.endswith(
        "it fits."
    )
    Gpu.objects.filter(uuid="GPU-b0").update(memory_bytes=None)
    unknown = planning.plan(ask("model:nvidia-h200", suite="qwen3-30b-decode"))
    assert "How much memory any NVIDIA H200 has is not known" in unknown.memory[0]


def test_the_ranks_of_a_cpu_share_its_memory(h200s):
    slice_ = {"library": "torch", "versions": ["2.13.0"], "models": ["Qwen3-30B-A3B"], "batches": [1]}
    with pytest.raises(ValidationError) as caught:
        ask("cpu", **slice_)
    assert "any host's CPUs, the smallest of them" in caught.value.message_dict["models"][0]
    assert "8.0 GiB are there" in caught.value.message_dict["models"][0]
    with pytest.raises(ValidationError) as caught:
        ask("cpu:aaaaaaaa", **slice_, tp=2)
    assert "4.0 GiB are there" in caught.value.message_dict["models"][0]
    assert ask("cpu", library="torch", versions=["2.13.0"], suite="tiny-2").suite == "tiny-2"


# what else knows of it


def test_the_command_of_a_plan_asks_for_the_same(h200s):
    wanted = ask("gang:GPU-a0+GPU-a1", **QWEN, phases=["decode", "prefill"], contexts=[512], tp=2, layers=24)
    words = shlex.split(plan_words.command(wanted))
    assert words[:3] == ["python", "manage.py", "trigger"]
    out = io.StringIO()
    call_command("trigger", *words[3:], stdout=out)
    run = Run.objects.get()
    assert out.getvalue() == f"queued as run {run.pk}\n"
    assert run.params["cases"] == [as_row(case) for case in wanted.chosen_cases]
    assert Ask.from_json(run.job.asked) == wanted
    out = io.StringIO()
    call_command("trigger", *words[3:], "--dry-run", stdout=out)
    assert "it fits." in out.getvalue() and f"joins run {run.pk}" in out.getvalue()


def test_a_run_is_asked_for_again_by_its_suite_or_its_cases(h200s):
    for wanted in (
        ask("gang:GPU-a0+GPU-a1", suite="qwen3-30b-tp2", foreign="flag", time_limit_s=900),
        ask("gpu:GPU-a0", suite="qwen3-30b", cases=[str(MODEL_SUITES["qwen3-30b"][2])]),
        ask("gpu:GPU-a0", **QWEN),
    ):
        ((run, _),) = asks.request(wanted, user=None, source=Job.Source.COMMAND).runs
        back = asks.clean(asks.from_query(QueryDict(again.of_run(run).partition("?")[2])))
        assert (back.targets, back.chosen_cases) == (wanted.targets, wanted.chosen_cases)
        assert (back.suite, back.foreign, back.time_limit_s) == (
            wanted.suite, wanted.foreign, wanted.time_limit_s,
        )  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("case", "target", "words"),
    [
        ("decode:model=tiny-gqa,batch=4,context=8,layers=2,tp=1,ep=1,dtype=bf16", "gpu:GPU-1", "gpu:GPU-1"),
        ("decode:model=tiny-gqa,batch=4,context=8,layers=2,tp=2,ep=1,dtype=bf16", "gpu:GPU-1", ""),
        ("all_reduce:tokens=8,hidden=64,ranks=2,dtype=bf16", "cpu:boxa", "cpu"),
    ],
)
def test_a_point_is_asked_for_again_where_one_gpu_is_all_of_it(case, target, words):
    row = as_row(from_text(case))
    address = again.of_point({"torch": "2.13.0"}, target, str(row.pop("kind")), row)
    query = QueryDict(address.partition("?")[2])
    assert query["what"] == "moe" and query.getlist("case") == [case]
    assert query.get("target", "") == words


def test_no_page_asks_a_server_again_by_the_trigger_page():
    params = {"model": "m", "concurrency": 1, "input": 8, "output": 8, "requests": 4}
    assert again.of_point({"torch": "2.13.0"}, "endpoint:x", "serving", params) == ""


def test_a_schedule_fires_it_and_a_backfill_sees_it(h200s):
    wanted = ask("gpu:GPU-a0", suite="qwen3-30b-decode")
    schedule = schedules.add(
        {"name": "nightly decode", "cron": "", "interval_s": 3600, "timezone": "UTC",
         "missed": Schedule.Missed.RUN, "skip_if_running": True, "ask": wanted.as_json()}, None
    )  # fmt: skip
    assert schedules.tick(schedule.next_due) == 1
    assert Run.objects.get().kind == Run.Kind.MOE
    (item,) = backfill.items(wanted)
    assert item.have is backfill.Have.UNDER_WAY
    assert backfill.fill(wanted, [item], user=None) == []


# a new release


def new_release() -> list[Run]:
    package = releases.PACKAGES[0]
    releases.record(package, ["0.6.3"])
    releases.record(package, ["0.6.3", "0.7.0"])
    releases.ask_for_new()
    return list(Run.objects.filter(kind=Run.Kind.MOE).order_by("queue"))


def test_a_new_release_decodes_on_the_gpus_that_hold_the_model(h200s, settings):
    settings.RELEASE_MODEL_SUITE = None
    host("boxc", "cccccccc", "GPU-c0", arch="sm120")
    Gpu.objects.filter(uuid="GPU-c0").update(memory_bytes=32 * 2**30)
    (run,) = new_release()
    assert (run.queue, run.params["suite"]) == ("gpu.arch.sm90", releases.MODEL_SUITE)
    assert run.recipe.versions["flashinfer"] == "0.7.0"
    assert run.job.source == Job.Source.RELEASE_WATCH
    assert WatchedRelease.objects.get(version="0.7.0").job != run.job


@pytest.mark.parametrize("suite", ["", "no-such-suite", "qwen3-30b-tp2"])
def test_no_suite_of_one_gpu_and_nothing_is_decoded(h200s, settings, suite):
    settings.RELEASE_MODEL_SUITE = suite
    assert new_release() == [] and Run.objects.exists()


# the page


def page(client, query: str = "", **headers) -> str:
    response = client.get(f"/trigger/?{query}", **headers)
    assert response.status_code == 200
    return response.content.decode()


def targets(html: str) -> list[str]:
    return re.findall(r'name="target" value="([^"]+)"', html)


def test_the_page_offers_gangs_as_large_as_the_cases(client, h200s):
    html = page(client, "what=moe")
    assert "any host&#x27;s CPUs" in html and 'id="suite-tiny" name="suite" value="tiny" checked' in html
    assert not [target for target in targets(html) if target.startswith("gang")]
    own = "what=moe&library=flashinfer&version=0.6.18&model=Qwen3-30B-A3B&batch=4"
    two = page(client, f"{own}&tp=2&target=gang:GPU-a2%2BGPU-a3")
    assert targets(two) == ["gang:GPU-a0+GPU-a1", "gang:GPU-a2+GPU-a3"]
    assert "GPUs 2 and 3 of boxa" in two and "1 run." in two and "it fits." in two
    four = page(client, f"{own}&tp=2&ep=2&target=gang:GPU-a0%2BGPU-a1%2BGPU-a2%2BGPU-a3")
    assert targets(four) == ["gang:GPU-a0+GPU-a1+GPU-a2+GPU-a3"] and "the 4 GPUs of boxa together" in four
    eight = page(client, f"{own}&tp=8&target=gang:GPU-a0%2BGPU-a1")
    assert "No host that has reported has so many" in eight
    assert "these cases take 8 GPUs (tp × ep), and this is 2" in eight


def test_any_gpus_of_a_host_can_be_ticked_to_be_a_gang(client, h200s):
    form = "was=moe&was_suite=&was_library=flashinfer&size=2&what=moe&library=flashinfer&version=0.6.18"
    form += "&suite=&model=Qwen3-30B-A3B&own_batches=4&tp=2&ep=1"
    response = client.get(f"/trigger/?{form}&member=GPU-a1&member=GPU-a3", headers={"HX-Request": "true"})
    html = response.content.decode()
    assert "GPUs 1 and 3 of boxa together" in html
    link = response["HX-Replace-Url"]
    assert link == (
        "/trigger/?what=moe&version=0.6.18&target=gang:GPU-a1%2BGPU-a3&library=flashinfer&model=Qwen3-30B-A3B"
        "&batch=4&tp=2"
    )
    again_ = page(client, link.partition("?")[2])
    ticked = re.findall(r'name="member" value="([^"]+)" checked', again_)
    assert ticked == ["GPU-a1", "GPU-a3"] and not re.findall(r'name="target" value="[^"]+" checked', again_)
    assert "take 2 GPUs (tp × ep), and this is 3" in page(
        client, f"{form}&member=GPU-a1&member=GPU-a3&member=GPU-a0"
    )
    assert "Expected where to run" in page(client, f"{form}&member=GPU-a1")


def test_another_number_of_gpus_moves_to_the_first_gang_that_has_it(client, h200s):
    form = "was=moe&was_suite=&was_library=flashinfer&size=1&what=moe&library=flashinfer&version=0.6.18"
    form += "&suite=&model=Qwen3-30B-A3B&own_batches=4&ep=1&target=gpu:GPU-a0"
    html = page(client, f"{form}&tp=2")
    assert 'value="gang:GPU-a0+GPU-a1" checked' in html and "1 run." in html


def test_a_suite_and_an_own_choice_replace_one_another(client, h200s):
    form = "was=moe&was_library=torch&size=1&what=moe&library=torch&version=2.13.0&target=cpu"
    html = page(client, f"{form}&was_suite=tiny&suite=")
    assert 'id="own-batches" name="own_batches" inputmode="numeric" value="1 8 64 256"' in html
    assert 'name="model" value="Qwen3-30B-A3B" checked' in html and "does not fit" in html
    html = page(client, f"{form}&was_suite=&suite=tiny&model=GLM-5&own_batches=1")
    assert "6 cases" in html and "There is no plan" not in html and 'name="model"' not in html
    typed = "decode:model=tiny-gqa,batch=4,context=8,layers=2,tp=1,ep=1"
    html = page(client, f"{form}&was_suite=&suite=&own_batches=1+8&own_cases={typed}")
    assert "1 case<" in html and f"{typed},dtype=bf16" in html


def test_what_the_page_showed_is_what_its_button_asks_for(client, h200s):
    client.force_login(User.objects.create_user("olga", password="x", role=Role.OPERATOR))
    Release.objects.create(package="flashinfer", version="0.6.18")
    query = "what=moe&library=flashinfer&version=newest&target=gang:GPU-a0%2BGPU-a1&suite=qwen3-30b-ep2"
    form = page(client, query).partition('action="/trigger/ask"')[2].partition("</form>")[0]
    sent = dict(re.findall(r'name="([a-z_]+)" value="([^"]*)"', form))
    response = client.post("/trigger/ask", sent)
    run = Run.objects.get()
    assert response.url == f"/runs/{run.pk}/" and run.gpus == ["GPU-a0", "GPU-a1"]
    assert run.params["suite"] == "qwen3-30b-ep2" and run.recipe.versions["flashinfer"] == "0.6.18"
    assert client.get("/runs/?kind=moe").status_code == 200
