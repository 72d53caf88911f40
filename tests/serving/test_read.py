"""AIPerf's records, as 0.13.0 writes them, into what the document holds."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.ingest import schema
from workers.bench.document import BenchError
from workers.bench.serving import read

OUTPUT = 20


def line(started: int = 0, phase: str = "profiling", error: Any = None, **metrics: Any) -> str:
    """A record of a request that ended well, but for what is given."""
    good = {
        "time_to_first_token": (100.0, "ms"),
        "request_latency": (480.0, "ms"),
        "inter_chunk_latency": ([20.0] * 19, "ms"),
        "usage_completion_tokens": (OUTPUT, "tokens"),
        "usage_prompt_tokens": (100, "tokens"),
    }
    told = {
        "metadata": {
            "benchmark_phase": phase,
            "request_start_ns": started,
            "request_end_ns": started + 480_000_000,
            "was_cancelled": False,
        },
        "metrics": {
            name: {"value": value[0], "unit": value[1]} for name, value in (good | metrics).items() if value
        },
    }
    return json.dumps(told if error is None else {**told, "metrics": {}, "error": error})


def test_a_request_that_ended_well_is_read_whole():
    (found,) = read.records([line()], OUTPUT)
    assert found.fault == ""
    assert (found.ttft, found.latency) == (0.1, 0.48)
    assert found.tpot == pytest.approx(0.02)
    assert (found.input_tokens, found.output_tokens, len(found.itl)) == (100, 20, 19)


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"usage_completion_tokens": None}, "cut"),
        ({"usage_completion_tokens": (19, "tokens")}, "short"),
        ({"usage_completion_tokens": (21, "tokens")}, "long"),
        ({"inter_chunk_latency": None}, "not_streamed"),
        ({"time_to_first_token": (480.0, "ms")}, "not_streamed"),
        ({"time_to_first_token": None}, "garbage"),
        ({"request_latency": (float("nan"), "ms")}, "garbage"),
        ({"error": {"code": 503, "type": "Service Unavailable", "message": "busy"}}, "http_503"),
        ({"error": {"type": "TimeoutError", "message": "TimeoutError()"}}, "timeout"),
        ({"error": {"type": "ClientConnectorError", "message": "refused"}}, "connection"),
        ({"error": {"type": "ClientPayloadError", "message": "cut"}}, "cut"),
        ({"error": {"type": "SomethingNew", "message": "?"}}, "other"),
        ({"error": {"code": "x" * 90, "type": 7}}, "other"),
    ],
)
def test_what_went_wrong_is_counted_by_kind_and_gives_no_time(told, fault):
    found = read.records([line(), line(1, **told)], OUTPUT)
    assert [record.fault for record in found] == ["", fault]
    seen = read.serving(found, stack_by="stated", gpus=None)
    assert (seen.sent, seen.completed, seen.errors) == (2, 1, {fault: 1})
    assert seen.output_tokens == OUTPUT
    assert seen.ttft.n == seen.tpot.n == seen.latency.n == 1


def test_few_pieces_of_many_tokens_are_no_stream():
    told = line(usage_completion_tokens=(1000, "tokens"))
    assert read.records([told], 1000)[0].fault == ""
    few = line(usage_completion_tokens=(1000, "tokens"), inter_chunk_latency=([0.1], "ms"))
    assert read.records([few], 1000)[0].fault == "not_streamed"


def test_the_warm_up_counts_for_nothing_and_half_a_line_is_passed_over():
    assert read.records([line(phase="warmup"), line()[:50], "", "7", "{}"], OUTPUT) == []
    assert read.serving([], stack_by="told", gpus=1) is None


def test_a_unit_that_is_not_known_is_no_time():
    with pytest.raises(BenchError, match="fortnights"):
        read.records([line(request_latency=(1.0, "fortnights"))], OUTPUT)


def test_the_window_holds_what_went_wrong_too():
    late = {"type": "TimeoutError", "message": "TimeoutError()"}
    found = read.records([line(2_000_000_000, error=late), line(0)], OUTPUT)
    assert read.serving(found, stack_by="told", gpus=8).window_s == pytest.approx(2.48)


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        (["timeout", "cancelled"], "timeout"),
        (["connection"], "init_failed"),
        (["connection", "http_500"], "crashed"),
        (["garbage"], "crashed"),
    ],
)
def test_without_a_good_request_the_outcome_says_why(faults, outcome):
    found = [read.Record(0, 1, fault, "it said so") for fault in faults]
    told, sentence = read.without_any(found)
    assert told == outcome
    assert sentence.startswith(f"None of {len(faults)} requests ended well: ")
    assert sentence.endswith("The first: it said so.")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
metric = st.fixed_dictionaries({"value": json_values, "unit": st.sampled_from(["ms", "tokens", "ns"])})
records = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "benchmark_phase": st.just("profiling"),
                "request_start_ns": st.integers(0, 2**62) | json_values,
                "request_end_ns": st.integers(0, 2**62),
            }
        ),
        "metrics": st.dictionaries(
            st.sampled_from(
                ["time_to_first_token", "request_latency", "inter_chunk_latency", "usage_completion_tokens"]
            ),
            metric,
        ),
        "error": st.none() | json_values | st.fixed_dictionaries({"code": json_values, "type": json_values}),
    }
)


@settings(max_examples=40)
@given(st.lists(records | json_values, max_size=3))
def test_whatever_stands_there_becomes_a_document_that_is_accepted(told):
    try:
        found = read.records([json.dumps(each) for each in told], OUTPUT)
        seen = read.serving(found, stack_by="told", gpus=None)
    except BenchError as refused:
        assert "unit" in refused.sentence or "expected" in refused.sentence
        return
    if seen is not None:
        schema.Serving.model_validate(dataclasses.asdict(seen))


@given(st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=60))
def test_percentiles_are_in_order_and_within_what_was_seen(values):
    found = read.percentiles(values)
    assert min(values) <= found.p50 <= found.p90 <= found.p95 <= found.p99 <= max(values)
    assert min(values) <= found.mean * (1 + 1e-12)
    assert found.mean <= max(values) * (1 + 1e-12)
    assert found.n == len(values)
