"""Cases of layers with experts: their routing, their work, and what becomes of them on a CPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.cases.moe import Moe, MoeLayer, expected_hit
from workers.bench.cases.parse import from_params, from_text, work_of
from workers.bench.document import BenchError
from workers.bench.experts import routing
from workers.bench.models import model, models

DISTRIBUTIONS = ["uniform", "balanced", "worst", "power_law_1.2", "power_law_1.9"]
LAYER = MoeLayer("Qwen3-30B-A3B", 64, 1, 1, "uniform", "bf16")


@given(
    tokens=st.integers(1, 400),
    experts=st.sampled_from([8, 32, 128, 256]),
    top_k=st.integers(1, 8),
    distribution=st.sampled_from(DISTRIBUTIONS),
    seed=st.integers(0, 3),
)
def test_each_token_gets_different_experts_and_the_histogram_counts_them(
    tokens, experts, top_k, distribution, seed
):
    drawn = routing.draw(tokens, experts, top_k, distribution, seed)
    assert len(drawn.ids) == tokens and sum(drawn.histogram) == tokens * top_k
    assert all(
        len(set(chosen)) == top_k and 0 <= min(chosen) <= max(chosen) < experts for chosen in drawn.ids
    )
    assert all(
        sum(expert in chosen for chosen in drawn.ids) == drawn.histogram[expert] for expert in range(8)
    )
    hit = sum(map(bool, drawn.histogram))
    if distribution in ("balanced", "worst"):
        assert hit == expected_hit(distribution, experts, top_k, tokens)
    if distribution == "balanced":
        assert max(drawn.histogram) - min(drawn.histogram) <= 1


@given(ranks=st.sampled_from([1, 2, 4, 8]), distribution=st.sampled_from(DISTRIBUTIONS))
def test_shares_of_all_ranks_are_the_whole_and_the_busiest_has_most(ranks, distribution):
    drawn = routing.draw(60, 32, 4, distribution)
    shares = [drawn.share(rank, ranks) for rank in range(ranks)]
    assert sum(pairs for pairs, _, _ in shares) == 240
    assert sum(hit for _, hit, _ in shares) == sum(map(bool, drawn.histogram))
    assert shares[drawn.busiest(ranks)][0] == max(pairs for pairs, _, _ in shares)
    assert all(pairs / 4 <= tokens <= min(60, pairs) or not pairs for pairs, _, tokens in shares)


def test_the_same_seed_draws_the_same_and_another_seed_another():
    routing.draw.cache_clear()
    first = routing.draw(40, 64, 4, "power_law_1.2")
    routing.draw.cache_clear()
    assert routing.draw(40, 64, 4, "power_law_1.2") == first
    assert routing.draw(40, 64, 4, "power_law_1.2", seed=2) != first


@pytest.mark.parametrize("distribution", ["uniform", "power_law_1.2"])
def test_drawn_hits_lie_about_the_expected(distribution):
    hits = [sum(map(bool, routing.draw(16, 256, 8, distribution, seed).histogram)) for seed in range(40)]
    assert sum(hits) / len(hits) == pytest.approx(expected_hit(distribution, 256, 8, 16), rel=0.1)


@given(
    name=st.sampled_from([each.name for each in models()]),
    tokens=st.integers(1, 16_384),
    tp=st.sampled_from([1, 2, 4, 8]),
    ep=st.sampled_from([1, 2, 4, 8]),
    distribution=st.sampled_from(DISTRIBUTIONS),
)
def test_a_layer_is_read_back_from_its_words_and_does_more_than_its_routed_experts(
    name, tokens, tp, ep, distribution
):
    case = MoeLayer(name, tokens, tp, ep, distribution, "bf16")
    assert from_text(str(case)) == case == from_params("moe_layer", case.params, "case")
    work, routed = case.work, case.routed.work
    assert work.flops > routed.flops and work.read_bytes > routed.read_bytes
    assert case.held_bytes > routed.read_bytes / 4
    told = work_of("moe_layer", case.params)
    assert told is not None and told == work


def test_a_width_that_tensor_parallelism_leaves_is_rounded_up():
    case = MoeLayer("gpt-oss-20b", 64, 8, 1, "uniform", "bf16")
    assert case.routed.inter // 8 == model("gpt-oss-20b").expert_width(8) == 384


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "gpt-5"}, "case.model: expected one of GLM-5, "),
        ({"ep": 3}, "case.ep: expected a divisor of the 128 experts of Qwen3-30B-A3B."),
        ({"tokens": 0}, "case.tokens: expected a whole number"),
        ({"distribution": "skewed"}, "case.distribution: expected one of balanced, uniform, worst,"),
        ({"experts": 8}, "case: unknown field 'experts'."),
    ],
)  # fmt: skip
def test_a_wrong_layer_is_told_by_its_field(change, said):
    with pytest.raises(BenchError) as caught:
        from_params("moe_layer", LAYER.params | change, "case")
    assert caught.value.sentence.startswith(said)


ROUTED = "moe:tokens=33,hidden=64,inter=32,topk=2,experts=8,tp=1,ep=2,activation=gated,distribution=uniform,dtype=bf16"  # noqa: E501


@pytest.mark.parametrize(
    "case",
    [
        ROUTED,
        "moe_layer:model=tiny-gqa,tokens=40,tp=1,ep=1,distribution=power_law_1.2,dtype=bf16",
        "moe_layer:model=tiny-mla,tokens=17,tp=2,ep=4,distribution=balanced,dtype=bf16",
        "moe_layer:model=tiny-oss,tokens=33,tp=1,ep=2,distribution=worst,dtype=bf16",
        "moe_layer:model=tiny-oss,tokens=1,tp=4,ep=1,distribution=uniform,dtype=bf16",
    ],
)
def test_a_layer_is_computed_right_by_the_drawn_routing_and_its_work_follows_the_experts_hit(
    experts_say, case
):
    found = experts_say("measured", case=case)
    assert [each["backend"] for each in found] == ["torch.grouped_mm", "torch.loop"]
    read = from_text(case)
    of = read.routed if isinstance(read, MoeLayer) else read
    assert isinstance(of, Moe)
    drawn = routing.draw(of.tokens, of.experts, of.topk, of.distribution)
    work = of.work_of(*drawn.share(drawn.busiest(of.ep), of.ep))
    work = read.with_rest(work) if isinstance(read, MoeLayer) else work
    for each in found:
        assert each["passes"], each
        assert each["routing"] == list(drawn.histogram)
        assert (each["flops"], each["bytes"]) == (work.flops, work.bytes)
        assert f"{of.distribution} routing, seed {routing.SEED}" in each["inputs"]
        assert len(each["inputs"]) <= 80


def test_padding_is_said(experts_say):
    case = "moe_layer:model=tiny-oss,tokens=3,tp=4,ep=1,distribution=uniform,dtype=bf16"
    assert experts_say("measured", case=case)[0]["inputs"].endswith("; width 16 padded to 32")


def test_a_wrong_output_does_not_pass(experts_say):
    assert not any(each["passes"] for each in experts_say("measured", case=ROUTED, spoil=True))


def test_a_format_that_torch_does_not_multiply_is_unsupported(experts_say):
    for dtype in ("fp8", "int4_wo"):
        found = experts_say("measured", case=ROUTED.replace("dtype=bf16", f"dtype={dtype}"))
        assert [sorted(each) for each in found] == [["backend", "unsupported"]] * 2
