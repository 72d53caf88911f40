"""What fits is said before anything is loaded."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.cases.model import Decode, Prefill
from workers.bench.model_work import Layout, weight_bytes
from workers.bench.models import model, models
from workers.bench.moe import capacity, fit

H200 = int(139.8 * 2**30)


@pytest.mark.parametrize(
    ("name", "layers", "fits"),
    [("Qwen3-30B-A3B", 48, True), ("gpt-oss-20b", 24, True), ("GLM-5", 8, True), ("GLM-5", 78, False)],
)
def test_what_one_h200_holds(name, layers, fits):
    found = fit.estimate(Layout(model(name), layers), 64, 1400, H200)
    assert found.fits == fits and ("it fits" in found.sentence) == fits


def test_a_model_that_cannot_fit_is_told_in_one_sentence():
    found = fit.estimate(Layout(model("GLM-5"), 78), 64, 1024, H200)
    assert found.layers_that_fit == 9 and found.gpus_that_fit == 16
    assert found.sentence.startswith("GLM-5 with all 78 layers needs about 1,4")
    assert "139.8 GiB are there: 9 layers would fit, or 16 GPUs hold them all." in found.sentence
    hopeless = fit.estimate(Layout(model("GLM-5"), 78), 64, 1024, 2**30)
    assert hopeless.layers_that_fit is None
    assert hopeless.sentence.endswith("no number of layers or GPUs would do.")


@given(
    st.sampled_from([each.name for each in models()]),
    st.integers(1, 4096),
    st.integers(1, 2**20),
    st.integers(2**30, 2**40),
    st.sampled_from(["decode", "prefill"]),
)
def test_what_is_said_to_fit_does(name, batch, context, memory, phase):
    layout = Layout(model(name), model(name).layers)
    found = fit.estimate(layout, batch, context, memory, phase=phase)
    assert found.weight_bytes == weight_bytes(layout) and found.need_bytes > found.weight_bytes
    if found.fits:
        assert (found.layers_that_fit, found.gpus_that_fit) == (layout.layers, 1)
    elif found.layers_that_fit is not None:
        fewer = dataclasses.replace(layout, layers=found.layers_that_fit)
        assert fewer.moe_layers and fit.estimate(fewer, batch, context, memory, phase=phase).fits
        more = dataclasses.replace(layout, layers=found.layers_that_fit + 1)
        assert not fit.estimate(more, batch, context, memory, phase=phase).fits


def decode(batch, context):
    return Decode("Qwen3-30B-A3B", batch, context, 48, 1, 1, "bf16")


def test_cases_share_a_decoder_while_it_fits():
    cases = [
        decode(1, 1024),
        decode(64, 1024),
        decode(1, 16_384),
        Prefill("Qwen3-30B-A3B", 1, 512, 48, 1, 1, "bf16"),
    ]
    (batch, context), members = capacity.together(
        cases, 100, lambda room, prefill: room[0] * room[1] <= 100_000
    )
    assert members == cases[:2]
    assert batch == 64 and context >= 1024 + 100
    # whatever is alone has its own decoder, fitting or not: that was asked before
    assert capacity.together(cases, 100, lambda room, prefill: False)[1] == cases[:1]
    assert capacity.lead(decode(1, 7)) == 6 and capacity.lead(decode(1, 4096)) == capacity.LEAD
