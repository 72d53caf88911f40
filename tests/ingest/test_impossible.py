"""Which times are impossible: the hard bound of every kind of case."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.catalog.models import Target
from benchapp.ingest import schema
from benchapp.ingest.impossible import hard_bound, is_impossible
from workers.bench import hardware, model_work
from workers.bench.cases.parse import from_text

H200 = Target(kind="gpu", arch="sm90", model="NVIDIA H200")
MODEL = hardware.lookup("NVIDIA H200")
KINDS = [
    "64x4096x7168:bf16",
    "64x4096x7168:fp8_block",
    "grouped_gemm:groups=8,m=64,n=4096,k=7168,dtype=fp8",
    "quantize:tokens=16384,hidden=7168,dtype=bf16,to=nvfp4",
    "rmsnorm:tokens=16384,hidden=7168,dtype=bf16",
    "sampling:batch=4096,vocab=151936,dtype=fp32",
    "prefill_attention:batch=1,context=8192,q_heads=64,kv_heads=8,head_dim=128,dtype=bf16",
    "moe:tokens=64,hidden=7168,inter=2048,topk=8,experts=256,tp=1,ep=1,distribution=uniform,dtype=fp8",
]


def timed(text: str, median: float, policy: str = "rotated", **values: Any) -> schema.Measurement:
    case = from_text(text)
    return schema.Measurement(
        **{
            "kind": case.kind,
            "params": case.params,
            "outcome": "incorrect",
            "measured_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
            "statistics": schema.Statistics(n=1, median=median, q1=median, q3=median, min=median),
            "timer": "cuda_graph",
            "l2_policy": policy,
            **values,
        }
    )


@pytest.mark.parametrize("policy", ["rotated", "flushed", "warm"])
def test_a_quantisation_that_does_nothing_is_impossible_once_its_input_exceeds_the_l2(policy: str):
    nothing = "quantize:tokens=16384,hidden=7168,dtype=bf16,to=nvfp4"
    assert is_impossible(timed(nothing, 0.63e-6, policy), H200)
    assert not is_impossible(timed(nothing, 80e-6, policy), H200)


def test_an_input_that_may_lie_in_l2_shows_nothing_by_its_time():
    small = "quantize:tokens=4096,hidden=7168,dtype=bf16,to=nvfp4"
    assert not is_impossible(timed(small, 0.63e-6, "rotated"), H200)
    assert is_impossible(timed(small, 0.63e-6, "flushed"), H200)  # nothing of it can


@pytest.mark.parametrize("text", KINDS)
def test_every_kind_has_a_bound_and_an_unknown_l2_policy_none(text: str):
    bound = hard_bound(timed(text, 1.0, "flushed"), H200)
    assert bound is not None and bound > 0
    assert is_impossible(timed(text, bound * 0.94, "flushed"), H200)
    assert not is_impossible(timed(text, bound * 0.96, "flushed"), H200)
    assert not is_impossible(timed(text, 1e-12, "unknown"), H200)


def test_arithmetic_bounds_at_the_highest_clock_seen():
    square = "8192x8192x8192:bf16"
    at_1980 = hard_bound(timed(square, 1.0), H200)
    assert at_1980 == pytest.approx(2 * 8192**3 / (132 * 1980e6 * 4096))
    faster = hard_bound(timed(square, 1.0, readings=schema.Readings(sm_clock_mhz_max=2000.0)), H200)
    assert faster == pytest.approx(at_1980 * 1980 / 2000)


def test_where_no_peak_is_known_memory_alone_bounds():
    nvfp4 = from_text("1x16384x16384:nvfp4")  # no FP4 tensor cores on Hopper
    bound = hard_bound(timed(str(nvfp4), 1.0, "flushed"), H200)
    assert bound == pytest.approx(nvfp4.work.read_bytes / 4.8e12)


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ({"params": {"m": 1, "n": 2}}, H200),
        ({"params": {"m": True, "n": 1, "k": 1, "dtype": "bf16"}}, H200),
        ({"kind": "conv", "params": {"m": 1}}, H200),
        ({"metric": "size"}, H200),
        ({"statistics": None}, H200),
        ({}, Target(kind="gpu", arch="sm99", model="Some GPU")),
        ({}, Target(kind="cpu", arch="x86_64", model="Some CPU")),
    ],
)
def test_without_a_bound_nothing_is_impossible(values: dict[str, Any], target: Target):
    assert not is_impossible(timed("1x1x1:bf16", 1e-12, "flushed"), H200)  # its bound is below that
    assert not is_impossible(timed("8192x8192x8192:bf16", 1e-12, "flushed", **values), target)


@given(
    st.sampled_from(KINDS),
    st.floats(1e-9, 1.0),
    st.sampled_from(["flushed", "rotated", "warm"]),
    st.integers(0, 2**30),
)
def test_a_larger_l2_never_makes_a_time_impossible(text: str, median: float, policy: str, l2_bytes: int):
    item = timed(text, median, policy)
    least = Target(kind="gpu", arch="sm90", model="NVIDIA H200", properties={"l2_bytes": 1})
    larger = Target(kind="gpu", arch="sm90", model="NVIDIA H200", properties={"l2_bytes": l2_bytes + 1})
    assert hard_bound(item, larger) <= hard_bound(item, least)
    # and none above the cold roofline ever is
    assert MODEL is not None
    work = from_text(text).work
    assert hard_bound(item, larger) <= max(
        work.bytes / MODEL.bandwidth, work.flops / (MODEL.highest_peak(work.rate) or float("inf"))
    )


DECODE = "decode:model=Qwen3-30B-A3B,batch=64,context=1024,layers=48,tp=1,ep=1,dtype=bf16"
PREFILL = "prefill:model=Qwen3-30B-A3B,batch=1,context=1024,layers=48,tp=1,ep=1,dtype=bf16"


def step(hit: float | None) -> schema.Step:
    return schema.Step(
        tokens=6400, steps=100, window_s=1.8, gpus=1, layers=48, layers_total=48, weight_bytes=1, kv_bytes=1,
        peak_memory_bytes=1, experts_hit=hit,
    )  # fmt: skip


@pytest.mark.parametrize("text", [DECODE, PREFILL])
def test_a_steps_bound_is_that_of_the_experts_it_hit(text: str):
    few, all_of_them = (timed(text, 1.0, "warm", step=step(hit)) for hit in (8, 126))
    low, high = hard_bound(few, H200), hard_bound(all_of_them, H200)
    assert low is not None and high is not None
    time = (low + high) / 2
    assert is_impossible(timed(text, time, "warm", step=step(126)), H200)
    assert not is_impossible(timed(text, time, "warm", step=step(8)), H200)  # an honest one with few experts
    assert not is_impossible(timed(text, low * 0.96, "warm", step=step(8)), H200)
    assert is_impossible(timed(text, low * 0.94, "warm", step=step(8)), H200)
    assert hard_bound(timed(text, 1.0, "warm", step=step(None)), H200) is None


def test_a_decode_reads_the_cache_of_the_middle_of_its_window():
    assert MODEL is not None
    layout = from_text(DECODE).layout  # type: ignore[attr-defined]
    work = model_work.step_work(layout, "decode", 64, 1024 + 50, 126)
    bound = hard_bound(timed(DECODE, 1.0, "flushed", step=step(126)), H200)
    assert bound == pytest.approx(work.read_bytes / MODEL.bandwidth)


@pytest.mark.parametrize(
    "text",
    [
        "all_reduce:tokens=64,hidden=7168,ranks=8,dtype=bf16",
        "all_to_all:tokens=64,hidden=7168,ranks=8,dtype=bf16",
        "serving:model=m,concurrency=8,input=128,output=128,requests=64",
    ],
)
def test_an_exchange_and_a_server_have_no_bound(text: str):
    assert not is_impossible(timed(text, 1e-12, "flushed"), H200)


def test_a_layer_is_bound_by_the_experts_its_routing_hit():
    layer = "moe:tokens=64,hidden=7168,inter=2048,topk=8,experts=256,tp=1,ep=1"
    text = f"{layer},distribution=power_law_1.2,dtype=fp8"
    work = from_text(text).work
    median = 0.8 * work.bytes / 4.8e12
    expected = timed(text, median, flops=work.flops, bytes=work.bytes)
    half = timed(text, median, flops=work.flops, bytes=work.bytes / 2, routing=(512, *(0,) * 255))
    assert is_impossible(expected, H200) and not is_impossible(half, H200)


def test_no_other_document_lowers_its_bound_by_a_routing():
    text = "gemm:m=8192,n=8192,k=8192,dtype=bf16"
    told = timed(text, 1e-9, "flushed", flops=1.0, bytes=1.0, routing=(1,))
    assert is_impossible(told, H200)


def test_a_step_that_tells_of_no_experts_reads_those_of_one_token():
    fewest, none = (hard_bound(timed(DECODE, 1.0, "warm", step=step(hit)), H200) for hit in (8, 0))
    assert fewest == none
