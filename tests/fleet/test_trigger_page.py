"""The trigger page: what it offers, the plan it shows, and what its button makes."""

from __future__ import annotations

import re
import uuid

import pytest
from django.http import QueryDict
from django.test import Client

from benchapp.catalog.models import Release
from benchapp.fleet import asks
from benchapp.fleet.models import Candidate, WatchedRelease
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs.models import Job, Run
from benchapp.runs.requests import GPU_TORCH
from tests.fleet.machines import host
from tests.querycount import at_most
from workers.bench.suites import DESCRIPTIONS

pytestmark = pytest.mark.django_db

SURVEY = "what=survey&version=0.6.3&target=arch:sm120"


def page(client, query: str = "", **headers) -> str:
    response = client.get(f"/trigger/?{query}", **headers)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def operator(client):
    user = User.objects.create_user("olga", password="x", role=Role.OPERATOR)
    client.force_login(user)
    return user


def sent(html: str) -> dict[str, list[str]]:
    """What the button of a page sends."""
    form = html.partition('action="/trigger/ask"')[2].partition("</form>")[0]
    values: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="([a-z_]+)" value="([^"]*)"', form):
        values.setdefault(name, []).append(value)
    return values


def test_with_an_empty_fleet_and_no_versions_it_says_what_is_missing(client):
    html = page(client)
    assert "No release is known here yet" in html
    assert "There is no plan yet" in html and "<strong>versions</strong>: Expected a version" in html
    html = page(client, "what=gemm")
    assert "any host&#x27;s CPUs" in html and "1 run." in html
    assert "No live worker serves any host&#x27;s CPUs" in html


def test_it_offers_what_exists(client):
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    for version in ("0.6.9", "0.6.10"):
        Release.objects.create(package="flashinfer", version=version)
    WatchedRelease.objects.create(package="flashinfer-python", version="0.7.0")
    Candidate.objects.create(
        package="flashinfer", version="0.6.3+candidate.1a", sha256="0" * 64, size=1, body=b"x", origin="x.whl"
    )
    html = page(client)
    offered = re.findall(r'name="version" value="([^"]+)"', html)
    assert offered == ["newest", "0.7.0", "0.6.10", "0.6.9", "0.6.3+candidate.1a"]
    assert "Candidates: wheels under test" in html
    assert "gpu:GPU" not in html
    html = page(client, "what=gemm")
    assert re.findall(r'name="target" value="([^"]+)"', html) == [
        "cpu", "cpu:aaaaaaaa", "model:nvidia-h200", "gpuarch:sm90", "gpu:GPU-a0", "gpu:GPU-a1",
        "gang:GPU-a0+GPU-a1",
    ]  # fmt: skip
    assert "GPU 1 of boxa, NVIDIA H200" in html and "the 2 GPUs of boxa together" in html


def test_finals_are_offered_first_and_the_rest_is_folded_before_the_candidates(client):
    finals = [f"0.6.{n}" for n in range(12)]
    for version in [*finals, "0.7.0rc1", "0.7.0rc2"]:
        Release.objects.create(package="flashinfer", version=version)
    Candidate.objects.create(
        package="flashinfer", version="0.6.3+candidate.1a", sha256="0" * 64, size=1, body=b"x", origin="x.whl"
    )
    html = page(client)
    shown, _, rest = html.partition("<details>")
    folded, _, candidates = rest.partition("</details>")
    offered = [re.findall(r'name="version" value="([^"]+)"', part) for part in (shown, folded, candidates)]
    assert offered == [
        ["newest", *finals[:3:-1]],
        ["0.7.0rc2", "0.7.0rc1", *finals[3::-1]],
        ["0.6.3+candidate.1a"],
    ]
    assert "<summary>6 older or pre-release</summary>" in folded
    assert "Candidates: wheels" in candidates
    Release.objects.filter(version__in=finals).delete()
    assert "<details>" not in page(client), "pre-releases alone are offered at once"


def test_an_address_fills_the_form_and_shows_the_plan(client):
    host("boxa", "aaaaaaaa", "GPU-a0")
    html = page(client, f"{SURVEY}&version=0.6.2")
    assert 'value="0.6.3" checked' in html and 'value="0.6.2" checked' in html
    assert 'value="arch:sm120" checked' in html
    assert "2 runs." in html and "No history of such runs" in html
    assert "python manage.py trigger --what survey --version 0.6.3 --version 0.6.2" in html


def test_the_fragment_says_the_address_that_fills_it(client):
    host("boxa", "aaaaaaaa")
    response = client.get(
        "/trigger/?was=survey&what=survey&version=0.6.3&target=arch:sm120&time_limit_s=",
        headers={"HX-Request": "true"},
    )
    assert response["HX-Replace-Url"] == f"/trigger/?{SURVEY}"
    assert b"<html" not in response.content
    assert "HX-Replace-Url" not in client.get("/trigger/?what=no", headers={"HX-Request": "true"})


def test_another_kind_of_work_begins_anew_and_another_suite_drops_the_cases(client):
    html = page(client, "was=survey&what=gemm&version=0.6.3&target=arch:sm120")
    assert 'value="0.6.3"' not in html and "There is no plan" not in html
    own = "was=gemm&was_suite=cpu-smoke&what=gemm&version=2.13.0&target=cpu&case=1x1024x1024:bf16"
    assert "Expected a suite" in page(client, own)
    assert "26 cases" in page(client, f"{own}&suite=h200-first")
    html = page(
        client, "was=gemm&was_suite=&what=gemm&version=2.13.0&target=cpu&own_cases=8x8x8:bf16,%0A9x9x9:fp32"
    )
    assert "8x8x8:bf16\n9x9x9:fp32</textarea>" in html and "2 GEMM case" not in html and "2 cases" in html


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("what=rm", "what</strong>: &#x27;rm&#x27; cannot be asked for: expected survey"),
        ("what=survey&version=%3Cb%3E&target=arch:sm120", "&#x27;&lt;b&gt;&#x27; is not a version"),
        ("what=survey&version=0.6.3&target=arch:sm1", "targets</strong>: &#x27;arch:sm1&#x27; is no target"),
        ("what=gemm&version=2.13.0&target=gpu:GPU-9&suite=cpu-smoke", "GPU-9 is no GPU that has reported"),
        ("what=gemm&version=2.13.0&target=cpu&suite=x", "cannot be asked for: expected cpu-smoke"),
        ("what=gemm&version=2.13.0&target=cpu&case=1x", "expected MxNxK"),
        (f"{SURVEY}&time_limit_s=soon", "whole seconds from 10"),
        (f"{SURVEY}%00&version=%00", "is not a version"),
        ("what=gemm&library=../../x&version=1&target=cpu&suite=cpu-smoke", "expected torch, flash"),
        ("what=gemm&version=2.13.0&target=cpu&suite=cpu-smoke&processes=300", "whole processes from 1 to 10"),
        ("what=gemm&version=2.13.0&target=cpu&suite=cpu-smoke&backend=%22x%22", "is no backend: exp"),
        ("what=gemm&library=flashinfer&version=0.6.9&target=cpu&suite=step", "FlashInfer runs on GPUs"),
        ("what=survey&was=survey", "versions</strong>: Expected a version"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_with_its_field_and_no_button_is_there(client, operator, query, said):
    html = page(client, query)
    assert said in html
    assert 'action="/trigger/ask"' not in html


def test_two_clicks_make_one_job(client, operator):
    host("boxa", "aaaaaaaa")
    pressed = sent(page(client, f"{SURVEY}&version=0.6.2&time_limit_s=900"))
    first, second = (client.post("/trigger/ask", pressed) for _ in range(2))
    job = Job.objects.get()
    assert first.url == second.url == f"/runs/?job={job.pk}"
    assert Run.objects.count() == 2 and set(Run.objects.values_list("time_limit_s", flat=True)) == {900}
    assert (job.requested_by, job.source) == (operator, Job.Source.PERSON)
    assert asks.Ask.from_json(job.asked).query() == f"{SURVEY}&version=0.6.2&time_limit_s=900".replace(
        "&target=arch:sm120&version=0.6.2", "&version=0.6.2&target=arch:sm120"
    )
    assert AuditEntry.objects.filter(user=operator, action="request_run").count() == 2
    assert b"was asked for before" in client.get(second.url).content


def test_one_run_leads_to_its_page_and_another_plan_makes_another_job(client, operator):
    first = client.post("/trigger/ask", sent(page(client, SURVEY)))
    run = Run.objects.get()
    assert first.url == f"/runs/{run.pk}/"
    client.post("/trigger/ask", sent(page(client, f"{SURVEY}&version=0.6.1")))
    assert Job.objects.count() == 2 and Run.objects.count() == 2  # the equal one is joined


def test_only_operators_can_ask_and_everybody_sees_the_plan(client):
    data = QueryDict(f"{SURVEY}&key={uuid.uuid4()}").dict()
    html = page(client, SURVEY)
    assert "Operators can ask for it" in html and 'action="/trigger/ask"' not in html
    assert client.post("/trigger/ask", data).status_code == 302
    client.force_login(User.objects.create_user("vic", password="x", role=Role.VIEWER))
    assert 'action="/trigger/ask"' not in page(client, SURVEY)
    assert client.post("/trigger/ask", data).status_code == 403
    assert client.get("/trigger/ask").status_code == 405
    assert not Job.objects.exists()


def test_a_button_without_its_csrf_token_asks_for_nothing(operator):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post("/trigger/ask", QueryDict(SURVEY).dict()).status_code == 403
    assert not Job.objects.exists()


def test_a_wrong_post_is_answered_by_the_form(client, operator):
    response = client.post("/trigger/ask", {"what": "survey", "version": "; ls", "target": "arch:sm120"})
    assert response.status_code == 422
    assert "is not a version" in response.content.decode()
    assert client.post("/trigger/ask", QueryDict(f"{SURVEY}&key=../x").dict()).status_code == 302


@pytest.mark.parametrize("number", [1, 60])
def test_the_page_asks_a_fixed_number_of_queries(client, number):
    host("boxa", "aaaaaaaa", *(f"GPU-a{n}" for n in range(8)))
    versions = "&".join(f"version=0.{n}" for n in range(number))
    with at_most(20):
        page(client, f"what=survey&target=arch:sm120&{versions}")


FLASHINFER = "what=gemm&library=flashinfer&version=0.6.9&target=gpuarch:sm90&suite=h200-core"


def test_a_flashinfer_benchmark_is_asked_for_as_simply_as_one_of_torch(client, operator):
    host("boxa", "aaaaaaaa", "GPU-a0")
    html = page(client, FLASHINFER)
    assert "FlashInfer versions" in html and "its kernels are built first on boxa" in html
    assert 'value="cpu"' not in html, "no CPU is offered"
    assert "--library flashinfer" in html
    assert re.search(r"<details><summary>More", html), "options are folded while none is set"
    client.post("/trigger/ask", sent(html))
    run = Run.objects.get()
    assert run.recipe.versions == {"flashinfer": "0.6.9", "torch": GPU_TORCH, "cuda": "13"}
    assert asks.Ask.from_json(run.job.asked).query() == (
        "what=gemm&version=0.6.9&target=gpuarch:sm90&library=flashinfer&suite=h200-core"
    )


def test_options_that_are_set_unfold_and_backends_are_typed(client, operator):
    host("boxa", "aaaaaaaa", "GPU-a0")
    typed = "&processes=3&case_timeout_s=60&timer=cupti&own_backends=torch.mm,+flashinfer.mm_fp4.cutlass"
    html = page(client, f"was=gemm&was_library=flashinfer&was_suite=h200-core&{FLASHINFER}{typed}")
    assert "<details open><summary>More" in html
    assert 'value="torch.mm flashinfer.mm_fp4.cutlass"' in html
    client.post("/trigger/ask", sent(html))
    params = Run.objects.get().params
    assert [params[name] for name in ("processes", "case_timeout_s", "timer", "backends")] == [
        3, 60, "cupti", ["torch.mm", "flashinfer.mm_fp4.cutlass"],
    ]  # fmt: skip


def test_another_library_takes_its_own_versions_and_leaves_the_cpus(client):
    host("boxa", "aaaaaaaa", "GPU-a0")
    Release.objects.create(package="flashinfer", version="0.6.10")
    was = "was=gemm&was_suite=cpu-smoke&was_library=torch&own_backends=torch.mm"
    html = page(client, f"{was}&what=gemm&library=flashinfer&version=2.13.0&target=cpu&suite=cpu-smoke")
    assert 'value="0.6.10" checked' in html and 'value="2.13.0"' not in html
    assert 'value="gpuarch:sm90" checked' in html and 'placeholder="all that the library offers"' in html
    assert "There is no plan" not in html
    html = page(client, "what=gemm&library=sgl-kernel")
    assert "sgl-kernel versions" in html and "--library sgl-kernel --version" in html


def test_a_long_suite_is_described_and_not_listed(client):
    host("boxa", "aaaaaaaa", "GPU-a0")
    html = page(client, FLASHINFER.replace("h200-core", "decode-nvfp4"))
    assert DESCRIPTIONS["decode-nvfp4"].replace("'", "&#x27;") in html
    assert 'name="case"' not in html and "<textarea" not in html
