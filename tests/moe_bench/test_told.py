"""What a trace adds to a measurement."""

import dataclasses
import json

import pytest

from workers.bench import timing
from workers.bench.cases.model import Decode
from workers.bench.document import Measurement, Step, now
from workers.bench.moe import told

TRACE = {
    "parts": {"fc1": 0.009, "gaps": 0.002}, "libraries": {"triton": 0.009}, "traced_s": 0.011,
    "overlap_s": 0.0, "kernels": 7, "layer_s": 0.0011, "kernel": "k" * 400,
}  # fmt: skip


def measured(layers):
    case = Decode("tiny-oss", 4, 24, layers, 1, 1, "bf16")
    return Measurement(
        kind=case.kind, params=case.params, outcome="ok", measured_at=now(), backend="torch+torch.loop",
        samples=(0.010,), statistics=timing.summarise([0.010]), timer="cuda_events",
        step=Step(
            tokens=4, steps=1, window_s=0.010, gpus=1, layers=layers, layers_total=4, weight_bytes=1,
            kv_bytes=1, peak_memory_bytes=1, rank_medians=(0.010,), routing=(1, 2), left_out=("Something.",),
        ),
    )  # fmt: skip


def test_a_measurement_comes_back_as_it_was_told():
    whole = measured(4)
    assert told.rebuild(json.loads(json.dumps(dataclasses.asdict(whole)))) == whole
    without = dataclasses.replace(whole, step=None)
    assert told.rebuild(json.loads(json.dumps(dataclasses.asdict(without)))) == without


def test_missing_layers_are_projected_by_the_time_of_a_layer_and_said():
    found = told.with_trace(measured(2), TRACE)
    # a traced step of 11 ms took 10 untraced: so did its layers
    assert found.step.projected_s == pytest.approx(0.010 + 2 * 0.001)
    assert found.step.left_out == (
        "2 of 4 layers, projected: 2 more of 1,000.0 µs each, as between two layers with experts in"
        " the traced step.", "Something.",
    )  # fmt: skip
    assert told.complete(found) == found and found.kernel == 300 * "k"


def test_a_slice_without_a_time_of_a_layer_tells_no_time():
    found = told.complete(told.with_trace(measured(2), {**TRACE, "layer_s": None}))
    assert found.outcome == "unsupported" and found.statistics is None and "slice" in found.error
    whole = told.with_trace(measured(4), {**TRACE, "layer_s": None})
    assert told.complete(whole) == whole and whole.step.projected_s is None


def test_a_trace_that_disagrees_is_said():
    assert "+10.0%" in told.disagreement(told.with_trace(measured(4), TRACE))
    assert told.disagreement(told.with_trace(measured(4), {**TRACE, "traced_s": 0.0104})) is None
    assert told.disagreement(measured(4)) is None
