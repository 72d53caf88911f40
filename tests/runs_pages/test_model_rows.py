"""What a run says of whole models, servers under load and collectives: tokens over a window, never FLOP/s."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.catalog.models import Recipe
from benchapp.ingest.actions import ingest
from benchapp.runs import work
from benchapp.runs.models import Document, Job, Run
from tests.moe.loads import EIGHT, GANG, VLLM, decode, exchange, load, store
from workers.bench.document import Document as Written

pytestmark = pytest.mark.django_db
STACK = {"torch": "2.11.0+cu130", "nccl": "2.28.9", "flashinfer": "0.6.3"}


def run_of(kind, *measurements, target, stack):
    recipe = Recipe.objects.create(digest=kind, versions={"torch": "2.11.0"})
    job = Job.objects.create(title="t", source="person")
    run = Run.objects.create(job=job, kind=kind, queue="q", recipe=recipe)
    work.claim(["q"], "gpu@here")
    at = measurements[0].measured_at
    written = Written(
        kind=kind, command=("python",), started_at=at, finished_at=at, target=target, stack=stack,
        measurements=measurements,
    )  # fmt: skip
    document = ingest(work.deliver(run.pk, 1, written.dumps().encode()))
    assert document.state == Document.State.ACCEPTED, document.fault
    return run, document


def table(client, run) -> str:
    page = client.get(f"/runs/{run.pk}/").content.decode().replace("&nbsp;", " ").replace("\u00a0", " ")
    page = " ".join(page.split())
    return page[page.index("Table of results") : page.index("</table>")]


def test_steps_and_exchanges_are_told_in_their_own_units(client):
    whole, part = decode(64, 0.016), decode(64, 0.004, layers=8)
    whole, part = (
        dataclasses.replace(
            each,
            flops=1e12,
            step=dataclasses.replace(
                each.step, experts_hit=125.9, traced_s=0.02, left_out=("The indexer is left out.",),
                parts={"fc1": 0.012, "fc2": 0.005, "attention": 0.002, "gaps": 0.001},
            ),
        )
        for each in (whole, part)
    )  # fmt: skip
    run, document = run_of("moe", whole, part, exchange(64, 2e-5), target=GANG, stack=STACK)
    found = table(client, run)
    assert "4,000 tok/s" in found and "64 tokens a step × 200 steps in 3.2 s" in found
    assert "2,667 tok/s, 8 of 48 layers, projected" in found and "TPOT 24.0 ms, projected" in found
    assert "FC1 (gate, up) 12.0 ms (60%), FC2 (down) 5.00 ms (25%), attention 2.00 ms (10%)" in found
    assert "experts hit: 125.9 a layer" in found and "The indexer is left out." in found
    assert "256 KiB a rank, 2 ranks" in found
    assert "FLOP/s" not in found and "GB/s" not in found
    assert "best 4,000 tok/s: 64 tokens a step" in document.facts["summary"].replace("\u00a0", " ")


def test_a_server_is_told_by_its_tokens_latencies_and_errors(client):
    run, document = run_of("serving", load(8, errors={"timeout": 2}), target=EIGHT, stack=VLLM)
    found = table(client, run)
    assert "4,096 tok/s out" in found and "16,384 tokens out of 64 requests in 4 s" in found
    assert "TTFT p50 100 ms, p99 200 ms" in found and "TPOT p50 20.0 ms, p99 40.0 ms" in found
    assert "errors: 2 timeout" in found and "FLOP/s" not in found
    assert "best 4,096 tok/s out" in document.facts["summary"]


def test_the_overview_has_each_models_newest_tokens_a_second(client):
    store("moe", decode(1, 0.005), decode(64, 0.016), target=GANG, stack=STACK)
    page = " ".join(client.get("/").content.decode().replace("&nbsp;", " ").split())
    models = page[page.index("Table of tokens per second") :]
    models = models[: models.index("</table>")]
    assert "4,000 tok/s" in models and "batch 64, context 1,024" in models
    assert "flashinfer 0.6.3" in models and "2 × NVIDIA H200" in models and "recorded" not in models
