import pytest

TINY = ("tiny-gqa", "tiny-mla", "tiny-oss")


@pytest.mark.parametrize("name", TINY)
def test_a_prompt_and_five_steps_agree_with_the_reference(decoder_says, name):
    found = decoder_says("against_reference", name=name)
    # bf16 may flip a choice of experts that is nearly even, which turns that row.
    assert sorted(found["cosines"])[3] > 0.999
    assert min(found["cosines"]) > 0.9
    assert found["clear"] > 5  # so many tokens whose choice bf16 cannot turn
    assert found["greedy"]
    held, expected = found["bytes"]
    assert expected <= held < 1.03 * expected  # norms, sinks and biases beside the products
    assert found["kv_bytes"][0] == found["kv_bytes"][1]


@pytest.mark.parametrize("name", TINY)
def test_invariants_hold(decoder_says, name):
    found = decoder_says("checked", name=name)
    assert found["holds"]
    assert found["nan_count"] == 0 and found["elements"] > 0
    assert "float32 reference of the first" in found["reference"]


@pytest.mark.parametrize(
    "fault", ["overwrites the last token", "turns by the next position", "leaves out a layer"]
)
def test_faults_break_the_invariants(decoder_says, fault):
    found = decoder_says("checked_broken", name="tiny-gqa", fault=fault)
    assert not found["holds"], found


def test_steps_grow_the_cache_and_count_what_was_routed(decoder_says):
    found = decoder_says("stepping", name="tiny-gqa")
    assert found["name"] == "torch+torch.loop"
    begun, full = found["context"]
    assert (begun, full) == (10, 25)  # the second batch stepped on until its cache was full
    assert all(len(tokens) == 3 for tokens in found["chosen"])
    assert len(found["smaller"]) == 2
    # Of the one step since the last begin: two tokens, two experts each, three layers.
    assert sum(found["rows"]) == 2 * 2 * 3
    assert 2 <= found["hit"] <= 4
    assert found["left_out"] == []
    assert found["refusals"] == [
        "A CPU has no CUDA graphs.",
        "4 sequences of 10 tokens: expected up to 3 of 25.",
        "2 sequences of 999 tokens: expected up to 3 of 25.",
        "The cache is full: it holds 25 tokens of each sequence.",
    ]


def test_two_ranks_equal_one(decoder_says):
    for found in decoder_says("gang", names=TINY, sizes=[[2, 1], [1, 2]]):
        for cosines in found["cosines"]:
            assert sorted(cosines)[1] > 0.999
        assert found["greedy"] == [True, True]
        assert found["rows"][0] == found["rows"][1]
        assert sum(found["rows"][0]) == sum(found["rows"][2])
        assert found["hit"][0] == found["hit"][1] == pytest.approx(found["hit"][2], abs=0.3)
        assert max(found["bytes"][:2]) < 0.95 * found["bytes"][2]


def test_what_cannot_be_split_or_served_is_refused_in_words(decoder_says):
    said = decoder_says("refused", attention="flashinfer")
    assert said == "FlashInfer has no kernels for a CPU."
    said = decoder_says("refused", attention="cudnn")
    assert said == "Attention by cudnn: expected one of flashinfer, torch."
    assert decoder_says("slices") == []


def test_the_choice_of_experts_is_counted(decoder_says):
    found = decoder_says("counted", name="tiny-gqa")
    ids = [expert for row in found["ids"] for expert in row]
    assert found["rows"][0] == [0] * 8
    assert found["rows"][1] == [3 * ids.count(expert) for expert in range(8)]
    assert found["touched"] == [0, 2 * len(set(ids))]  # two steps, the second in two pieces
    assert found["sums"] == pytest.approx([1.0] * 5)


def test_sigmoid_scores_are_renormalised_and_scaled(decoder_says):
    assert decoder_says("counted", name="tiny-mla")["sums"] == pytest.approx([2.5] * 5)


def test_only_experts_of_the_best_groups_are_seen(decoder_says):
    # Groups of three: the first has the best expert, but the second and the last have the better pairs.
    logits = [3.0, -9, -9, 2, 2.1, -9, -9, -9, 0, 1.9, 2.2, 1.8]
    ids, weights = decoder_says("grouped_choice", logits=logits)
    assert sorted(ids) == [3, 4, 10]
    assert sum(weights) == pytest.approx(1)


@pytest.mark.parametrize("name", TINY)
def test_rotating_in_place_equals_complex_numbers(decoder_says, name):
    assert decoder_says("rotation", name=name) < 1e-5


def test_parts_are_marked_only_while_somebody_traces(decoder_says):
    unmarked, marked = decoder_says("marked")
    assert unmarked == []
    parts = ("attention", "dense", "embedding", "head", "norms", "router", "shared")
    assert marked == [f"tilewatch:{part}" for part in parts]
