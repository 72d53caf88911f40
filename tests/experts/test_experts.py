"""Backends of routed experts held against the layer written out, and what FlashInfer's are handed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.experts.base import Layer
from workers.bench.experts.triton_fused import Fused, blocks_at_most, tiles

ACTIVATIONS = [("swiglu", False), ("clamped_swiglu", True), ("plain", False)]


@pytest.mark.parametrize(("activation", "bias"), ACTIVATIONS)
def test_the_reference_is_the_layer_of_the_models_own_code(experts_say, activation, bias):
    assert experts_say("reference_is_right", activation=activation, bias=bias) < 1e-5


@pytest.mark.parametrize("name", ["torch.grouped_mm", "torch.loop"])
@pytest.mark.parametrize(("activation", "bias"), ACTIVATIONS)
@pytest.mark.parametrize(("tp", "ep"), [(1, 1), (2, 1), (1, 4), (2, 2)])
def test_each_rank_computes_its_part_and_all_parts_are_the_layer(experts_say, name, activation, bias, tp, ep):
    found = experts_say("backend", name=name, activation=activation, bias=bias, tp=tp, ep=ep)
    limit = 1e-5 if name == "torch.loop" else 2e-2  # fp32 and bf16
    assert found["part"] < limit and found["whole"] < limit


def test_a_python_without_triton_and_flashinfer_has_torchs_backends_and_says_so(experts_say):
    assert experts_say("names") == ["torch.grouped_mm", "torch.loop"]
    assert experts_say("unknown", name="triton.fused_experts") == (
        "Experts by triton.fused_experts: expected one of torch.grouped_mm, torch.loop, as installed here."
    )


def test_what_a_backend_does_not_do_it_says(experts_say):
    assert "not fp8" in experts_say("refusal", name="torch.grouped_mm", dtype="fp8")
    assert "not fp8" in experts_say("refusal", name="torch.loop", dtype="fp8")
    assert "16 bytes" in experts_say("refusal", name="torch.grouped_mm", dtype="bf16", hidden=60)


@given(
    counts=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    rows=st.sampled_from([16, 32, 64, 128]),
)
def test_no_routing_fills_more_blocks_than_the_grid_has(counts, rows):
    filled = sum(-(-count // rows) for count in counts)
    assert filled <= blocks_at_most(sum(counts), rows, len(counts))


@given(pairs=st.integers(1, 400_000), experts=st.sampled_from([8, 32, 128, 256, 384]))
def test_tiles_are_what_tensor_cores_and_shared_memory_take(pairs, experts):
    at = tiles(pairs, Layer(2048, 768, experts, 8, "bf16"))
    assert at.rows in (16, 32, 64, 128)
    for tile, products in ((at.fc1, 2), (at.fc2, 1)):
        held = tile.stages * tile.k * (at.rows + products * tile.n) * 2
        assert held <= 227 * 1024 and tile.warps in (4, 8)


def test_tritons_kernels_are_known_by_their_part():
    kernels = ["moe_count", "moe_place", "moe_fc1", "moe_fc2", "moe_combine", "moe_else"]
    parts = ["dispatch", "dispatch", "fc1", "fc2", "combine", None]
    assert [Fused().part_of(kernel) for kernel in kernels] == parts


@pytest.mark.parametrize("dtype", ["fp8", "fp8_block", "nvfp4", "w4a16_mxfp4"])
def test_weights_on_a_formats_grid_are_exact_in_bf16_and_quantising_them_again_loses_nothing(
    experts_say, dtype
):
    found = experts_say("grid", dtype=dtype)
    assert found["same"] and 0.01 < found["off"] < 0.15


@pytest.mark.parametrize(
    ("dtype", "most"), [("fp8", 0.04), ("fp8_block", 0.04), ("w4a8_mxfp4_mxfp8", 0.04), ("nvfp4", 0.12)]
)
def test_rows_are_rounded_as_the_format_does(experts_say, dtype, most):
    assert 0.005 < experts_say("activations", dtype=dtype) < most


@pytest.mark.parametrize(
    ("dtype", "major", "weights", "scales"),
    [
        ("bf16", 9, ["bfloat16", 3, 256, 256], []),
        ("fp8", 9, ["float8_e4m3fn", 3, 256, 256],
         [["float32", 3], ["float32"], ["float32", 3], ["float32"]]),
        ("fp8_block", 9, ["float8_e4m3fn", 3, 256, 256], [["float32", 3, 2, 2], ["float32", 3, 2, 1]]),
        ("nvfp4", 10, ["int64", 3, 256, 16],
         [["float32"], ["int32", 3, 256, 4], ["float32", 3], ["float32"], ["int32", 3, 256, 2],
          ["float32", 3]]),
    ],
)  # fmt: skip
def test_cutlass_is_handed_what_its_binding_checks_and_it_stands_for_the_weights(
    experts_say, dtype, major, weights, scales
):
    found = experts_say("cutlass", dtype=dtype, major=major)
    assert found == {"equal": True, "weights": weights, "scales": scales}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dtype": "nvfp4", "major": 9}, "nvfp4 from SM100 on"),
        ({"dtype": "w4a8_mxfp4_mxfp8", "major": 9}, "from SM100 on"),
        ({"dtype": "w4a16_mxfp4", "major": 10}, "on SM90 only"),
        ({"dtype": "nvfp4", "major": 12, "inter": 96}, "width of an expert, 96,"),
        ({"dtype": "fp8_block", "major": 9, "hidden": 192}, "192 is no multiple"),
    ],
)
def test_what_cutlass_does_not_do_is_said(experts_say, asked, said):
    assert said in experts_say("cutlass", **asked)["unsupported"]


def test_cutlass_is_told_of_ranks_and_of_gpt_oss_activation(experts_say):
    plain = {"tp_size": 2, "tp_rank": 1, "ep_size": 4, "ep_rank": 3}
    assert experts_say("common", activation="swiglu") == {**plain, "activation_type": 3}
    assert experts_say("common", activation="plain") == {**plain, "activation_type": 6}
    clamped = experts_say("common", activation="clamped_swiglu")
    assert clamped["activation_type"] == 3 and clamped["swiglu_limit"] == [7.0, 7.0]
    assert clamped["swiglu_alpha"] == pytest.approx([1.702] * 2) and clamped["swiglu_beta"] == [1.0, 1.0]


def test_ids_and_weights_share_an_int_for_trtllm(experts_say):
    assert experts_say("packed_ids") == [[0, 5], [255, 383], [0.5, 1.0], [0.125, 2.0]]


def test_cute_dsl_gets_up_and_gate_in_turn(experts_say):
    assert experts_say("cute_dsl") == {"equal": True, "finite": True}
