"""The case of a MoE layer: what one GPU's share of it costs at least."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench import hardware, roofline
from workers.bench.cases.moe import FORMATS, Moe
from workers.bench.cases.parse import from_params, from_text
from workers.bench.document import BenchError

GLM5 = Moe(16, 6144, 2048, 8, 256, 1, 1, "gated", "uniform", "nvfp4")


def test_glm5_at_16_tokens_touches_102_experts_and_is_capped_at_8_tflops():
    server = hardware.lookup("NVIDIA RTX PRO 6000 Blackwell Server Edition")
    assert GLM5.hit == pytest.approx(102, abs=0.1)
    work = GLM5.work
    assert work.flops == roofline.moe_flops(16, 8, 6144, 2048)
    assert work.rate == "fp4"
    peak = server.dense_peak("fp4")
    assert peak is not None
    assert roofline.ceiling(work.flops, peak, work.bytes, server.bandwidth) / 1e12 == pytest.approx(
        8, abs=0.1
    )


def test_a_rank_does_its_share():
    whole = Moe(512, 6144, 2048, 8, 256, 1, 1, "gated", "balanced", "fp8").work
    by_experts = Moe(512, 6144, 2048, 8, 256, 1, 8, "gated", "balanced", "fp8").work
    by_width = Moe(512, 6144, 2048, 8, 256, 8, 1, "gated", "balanced", "fp8").work
    assert by_experts.flops == by_width.flops == whole.flops / 8
    assert by_experts.read_bytes < by_width.read_bytes + whole.read_bytes / 8
    plain = Moe(512, 6144, 2048, 8, 256, 1, 1, "plain", "balanced", "fp8").work
    assert plain.flops == pytest.approx(whole.flops * 2 / 3)


def test_weight_only_formats_multiply_at_the_rate_of_their_activations():
    rates = {dtype: Moe(1, 64, 64, 1, 2, 1, 1, "gated", "balanced", dtype).work.rate for dtype in FORMATS}
    assert rates == {
        "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "int4_wo": "bf16",
        "w4a16_mxfp4": "bf16", "w4a8_mxfp4_mxfp8": "fp8",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ep": 3}, "case.ep: expected a divisor of experts."),
        ({"tp": 3}, "case.tp: expected a divisor of inter."),
        ({"topk": 257}, "case.topk: expected a whole number from 1 to 256."),
        ({"distribution": "power_law_2.5"}, "case.distribution: expected one of balanced, uniform, "),
        ({"distribution": "power_law_1.20"}, "case.distribution: expected one of"),
        ({"distribution": 1}, "case.distribution: expected one of"),
        ({"dtype": "int4"}, "case.dtype: expected one of bf16"),
        ({"rank": 1}, "case: unknown field 'rank'."),
    ],
)  # fmt: skip
def test_a_wrong_case_is_told_by_its_field(change, said):
    with pytest.raises(BenchError) as caught:
        from_params("moe", GLM5.params | change, "case")
    assert caught.value.sentence.startswith(said)


@given(
    tokens=st.integers(1, 20_000),
    experts=st.sampled_from([8, 128, 256]),
    topk=st.integers(1, 8),
    distribution=st.sampled_from(["balanced", "uniform", "power_law_1.01", "power_law_1.2", "power_law_1.9"]),
    dtype=st.sampled_from(sorted(FORMATS)),
    ep=st.sampled_from([1, 2, 8]),
)
def test_it_is_read_back_from_its_words_and_touches_between_k_and_all_experts(
    tokens, experts, topk, distribution, dtype, ep
):
    case = Moe(tokens, 2048, 768, topk, experts, 1, ep, "gated", distribution, dtype)
    assert from_text(str(case)) == case == from_params("moe", case.params, "case")
    assert topk - 1e-9 <= case.hit <= min(experts, tokens * topk) + 1e-9
    assert case.work.read_bytes > 0 and case.work.write_bytes > 0
