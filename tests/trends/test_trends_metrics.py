"""Peaks, recoverable time, flags and backends on the trends page: figures worked out by hand."""

from __future__ import annotations

import html
import re

import pytest

from benchapp.trends.utilisation import UNRATED
from tests.trends.cases import FLOOR, floor, put, timed
from workers.bench import hardware
from workers.bench.cases.parse import from_text

pytestmark = pytest.mark.django_db
SHAPE = "4096x6144"


def text_of(page) -> str:
    """A page's words, without tags and with plain spaces."""
    words = re.sub(r"<[^>]+>", "", html.unescape(page.content.decode()))
    return re.sub(r"\s+", " ", words.replace("\u00a0", " "))


def line(page, at=0):
    return page.context["chart"]["series"][at]["points"]


@pytest.fixture
def fast():
    """1,300 TFLOP/s of nvfp4 at 2,430 MHz, on a GPU whose brochure says 4 PFLOPS."""
    case = from_text(f"8192x{SHAPE}:nvfp4")
    return put(timed(str(case), case.work.flops / 1300e12, clock=2430.0))


def test_1300_tflops_are_two_thirds_of_the_dense_peak_and_a_third_of_the_sparse_one(client, fast):
    said = text_of(client.get("/trends/"))
    assert "1,300 TFLOP/s of nvfp4 at M = 8,192 is 64.5 % of 2,015 dense (2,617 MHz)" in said
    assert "69.5 % at the 2,430 MHz it ran at" in said
    assert "32.3 % of 4,030 TFLOP/s sparse" in said
    assert "needs 2:4 sparsity" in said and "none of these kernels uses" in said


@pytest.mark.parametrize("metric, share", [("peak", 64.5), ("sparse", 32.3), ("peak_measured", 69.5)])
def test_the_switch_changes_what_is_drawn_and_says_which_end_is_on(client, fast, metric, share):
    page = client.get(f"/trends/?metric={metric}")
    assert line(page)[0]["y"] == pytest.approx(share, abs=0.05)
    on = [label for label, _, on in page.context["switch"] if on]
    assert on == {"peak": ["dense peak"], "sparse": ["2:4 sparse peak"]}.get(metric, [])
    assert "of sparse peak" in text_of(page) if metric == "sparse" else "of dense peak" in text_of(page)


def test_recoverable_time_counts_the_calls_of_a_decode_step(client):
    put(timed(f"16x{SHAPE}:nvfp4", 20e-6), floor("cupti"))
    page = client.get(f"/trends/?kind=gemm&metric=recoverable&shape={SHAPE}")
    gpu = hardware.lookup("NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
    roofline = from_text(f"16x{SHAPE}:nvfp4").work.bytes / gpu.bandwidth
    assert roofline > FLOOR
    calls = page.context["points"][0].calls
    assert page.context["model"] == "GLM-5" and calls > 1
    assert line(page)[0]["y"] == pytest.approx((20e-6 - roofline) * calls * 1e6)
    assert f"{calls} calls in a decode step of GLM-5" in text_of(page)
    assert page.context["chart"]["y"]["title"] == f"Recoverable time, GLM-5 step: {calls} calls"


def test_a_shape_below_the_launch_floor_recovers_nothing_beyond_it(client):
    small = "rmsnorm:tokens=1,hidden=7168,dtype=bf16"
    put(timed(small, 3e-6, timer="cuda_graph", backend="flashinfer.rmsnorm"), floor("cupti", 9e-6))
    page = client.get("/trends/?kind=rmsnorm&metric=recoverable")
    assert "Launch floor unknown here" in text_of(page)  # of another timer there is one
    put(floor("cuda_graph", 2e-6), flashinfer="0.6.13")
    page = client.get("/trends/?kind=rmsnorm&metric=recoverable")
    [point] = page.context["points"]
    assert point.at("recoverable") == pytest.approx(1.0 * point.calls)
    assert "Launch floor 2.00 µs by CUDA graph" in text_of(page)


def test_a_document_without_an_empty_kernel_may_tell_its_floor(client):
    put(
        timed(f"1x{SHAPE}:nvfp4", 20e-6),
        costs={"launch_floor_cupti_seconds": 1.5e-6, "launch_floor_seconds": 9e-6},
    )
    assert "Launch floor 1.50 µs by CUPTI" in text_of(client.get("/trends/?metric=recoverable"))


def test_host_time_is_a_metric_of_its_own(client):
    put(timed(f"1x{SHAPE}:nvfp4", 20e-6))
    [point] = line(client.get("/trends/?metric=host"))
    assert (point["low"], point["y"], point["high"]) == pytest.approx((11, 12, 14))


def test_a_kernel_without_a_stated_peak_shows_its_traffic(client):
    case = from_text("rmsnorm:tokens=1024,hidden=7168,dtype=bf16")
    put(timed(str(case), 2 * case.work.bytes / 1.792e12, backend="flashinfer.rmsnorm"))
    page = client.get("/trends/")
    assert page.context["metric"].unit == "GB/s" and page.context["peaks"] is None
    assert line(page)[0]["y"] == pytest.approx(896, rel=1e-3)
    assert line(client.get("/trends/?metric=bandwidth"))[0]["y"] == pytest.approx(50)
    assert line(client.get("/trends/?metric=roofline"))[0]["y"] == pytest.approx(50)
    said = text_of(page)
    assert "RMSNorm with hidden 7168" in said and "TFLOP/s" not in said
    assert "no peak is stated for its arithmetic" in said
    refused = client.get("/trends/?metric=tflops")
    assert "cannot be used" in text_of(refused) and line(refused)


@pytest.mark.parametrize(
    "text",
    [
        "1x8x8:bf16",
        "grouped_gemm:groups=1,m=1,n=8,k=8,dtype=bf16",
        "decode_attention:batch=1,context=8,q_heads=8,kv_heads=8,head_dim=64,dtype=bf16",
        "prefill_attention:batch=1,context=8,q_heads=8,kv_heads=8,head_dim=8,dtype=bf16",
        "rmsnorm:tokens=1,hidden=8,dtype=bf16",
        "silu_and_mul:tokens=1,hidden=8,dtype=bf16",
        "quantize:tokens=1,hidden=64,dtype=bf16,to=fp8",
        "rope:tokens=1,q_heads=8,kv_heads=8,head_dim=64,dtype=bf16",
        "sampling:batch=1,vocab=8,dtype=fp32",
        "copy:bytes=8",
        "empty_kernel:timer=cupti",
    ],
)
def test_kinds_without_a_rate_are_known_by_their_name(text):
    case = from_text(text)
    assert (case.work.rate is None) == (case.kind in UNRATED)


def test_flags_and_borrowed_points_look_like_what_they_are(client):
    put(
        timed(f"1x{SHAPE}:nvfp4", 20e-6, flags=("throttled", "few_samples")),
        timed(f"2x{SHAPE}:nvfp4", 20e-6, flags=("borrowed", "imported")),
        timed(f"4x{SHAPE}:nvfp4", 2e-6, l2="unknown"),
    )
    page = client.get("/trends/")
    one, two, four = line(page)
    assert one.get("flagged") and not one.get("hollow") and "throttled, few samples" in one["note"]
    assert two.get("hollow") and not two.get("flagged") and "imported" in text_of(page)
    assert "L2-warm, above roofline" in four["note"] and four["y"] is not None
    assert "L2-warm, above roofline 1" in text_of(page)
    assert "Ringed points carry a flag. Hollow points are borrowed" in text_of(page)


def test_a_backend_that_is_nvidias_own_library_is_named_so(client):
    put(
        timed(f"1x{SHAPE}:bf16", 40e-6, backend="torch.mm"),
        timed(f"1x{SHAPE}:nvfp4", 20e-6, backend="flashinfer.mm_fp4.cudnn"),
    )
    said = text_of(client.get("/trends/"))
    assert "flashinfer.mm_fp4.cudnn: cuDNN, so that a FlashInfer version changes little here." in said
    assert "torch.mm: cuBLAS" in said
