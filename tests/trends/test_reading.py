"""What a stranger reads first: which GPU, what changed, and that a wrong result is no speed."""

from __future__ import annotations

import dataclasses

import pytest

from tests.trends.cases import RTX, put, timed
from tests.trends.compares import compare
from tests.trends.test_trends_metrics import text_of

pytestmark = pytest.mark.django_db
SAMPLING = "sampling:batch=4096,vocab=151936,dtype=fp32"
JOINT, FIRST = "flashinfer.sampling.joint", "flashinfer.sampling.top_k_first"
OLD, NEW = "0.5.3", "0.6.18.post1"


@pytest.fixture
def sampled():
    put(timed(SAMPLING, 3.1e-3, backend=JOINT), timed(SAMPLING, 10.3e-3, backend=FIRST), flashinfer=OLD)
    put(timed(SAMPLING, 3.0e-3, backend=JOINT), timed(SAMPLING, 1.9e-3, backend=FIRST), flashinfer=NEW)


def test_versions_open_on_the_largest_change(client, sampled):
    page = client.get("/trends/?view=versions")
    said = text_of(page)
    assert "top_k_first took 10.3 ms in 0.5.3 and takes 1.90 ms in 0.6.18.post1, 5.4 times as fast" in said
    assert [line["label"] for line in page.context["chart"]["series"]] == [
        "batch = 4,096, joint",
        "batch = 4,096, top_k_first",
    ]
    assert client.get(page.context["compare"]).context["apart"].startswith(f"flashinfer {OLD} → {NEW}")


def test_orders_of_sampling_are_paired_with_themselves(client, sampled):
    found = compare(client, a=f"flashinfer {OLD}", b=f"flashinfer {NEW}", show="uncertain").context
    assert sum(found["whole"].counts.values()) == 2
    assert all(each["row"].before.backend == each["row"].after.backend for each in found["rows"])


def test_gpus_of_one_model_are_told_apart(client):
    for host in ("boxa", "boxb"):
        put(timed(SAMPLING, 3e-3), target=dataclasses.replace(RTX, uuid=f"GPU-{host}", host=host))
    for page in ("/trends/", "/trends/?view=coverage", "/compare/"):
        said = client.get(page).content.decode()
        assert f"{RTX.model}, boxa" in said and f"{RTX.model}, boxb" in said


def test_a_wrong_result_shows_no_time(client):
    wrong = "quantize:tokens=4096,hidden=7168,dtype=bf16,to=nvfp4"
    put(timed(wrong, 0.64e-6, backend="flashinfer.nvfp4_quantize", outcome="incorrect"))
    said = text_of(client.get("/trends/"))
    assert "may rank as a speed: 1 incorrect" in said and "640 ns" not in said


def test_a_backend_without_a_speed_is_a_mark_and_no_line(client):
    put(
        timed("16x4096x7168:nvfp4", 9e-6),
        timed("16x4096x7168:nvfp4", None, backend="flashinfer.mm_fp4.trtllm", outcome="unsupported"),
    )
    labels = [line["label"] for line in client.get("/trends/").context["chart"]["series"]]
    assert "0.6.18.post1, cutlass" in labels and "– not supported" in labels
    assert not any("trtllm" in label for label in labels)
