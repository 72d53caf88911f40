"""Suites, the shapes of the models they are made from, and calls per decode step."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench import models
from workers.bench.calls import calls_per_step
from workers.bench.cases import parse
from workers.bench.suites import DESCRIPTIONS, SUITES
from workers.bench.suites.gemms import DECODE_M, PREFILL_M

FACTS = Path(__file__).resolve().parents[2].parent / "shared" / "facts" / "moe_models.json"


def calls_of(text):
    case = parse.from_text(text)
    return calls_per_step(case.kind, case.params)


def shapes(name, tp):
    return {each.name: (each.n, each.k) for each in models.projections(models.model(name), tp)}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_can_be_asked_for(name):
    cases = SUITES[name]
    assert 0 < len(cases) <= parse.MAX_CASES and len(set(cases)) == len(cases)
    assert 10 < len(DESCRIPTIONS[name]) < 80
    assert all(parse.from_text(str(case)) == case for case in cases)
    assert [parse.from_row(row, name) for row in map(parse.as_row, cases)] == list(cases)


def test_the_core_fits_a_short_visit_and_holds_both_traps():
    core = {str(case) for case in SUITES["h200-core"]}
    assert len(core) <= 60
    assert {
        "16x4096x7168:fp8",
        "quantize:tokens=4096,hidden=7168,dtype=bf16,to=nvfp4",
        "quantize:tokens=16384,hidden=7168,dtype=bf16,to=nvfp4",
    } <= core
    of_other_benches = {"jit_module", "decode", "prefill", "all_reduce", "all_to_all", "serving"}
    in_suites_of_their_own = {"moe", "moe_layer"}
    kinds = {case.kind for case in SUITES["h200-core"]}
    assert kinds == set(parse.KINDS) - of_other_benches - in_suites_of_their_own


def test_the_suite_that_was_recorded_is_as_it_was():
    assert len(SUITES["h200-first"]) == 26
    assert str(SUITES["h200-first"][0]) == "1x4096x7168:bf16"


def test_decode_and_prefill_suites_hold_every_model_at_every_number_of_tokens():
    for dtype in ("bf16", "fp8", "nvfp4"):
        decode, prefill = set(SUITES[f"decode-{dtype}"]), set(SUITES[f"prefill-{dtype}"])
        for of in models.models():
            for tp in models.TENSOR_PARALLEL:
                for each in models.projections(of, tp):
                    made = {
                        parse.from_shape(f"{m}x{each.n}x{each.k}", [dtype])[0]
                        for m in (DECODE_M if each.name != "kv_b" else ())
                    }
                    assert made <= decode
                    made = {parse.from_shape(f"{m}x{each.n}x{each.k}", [dtype])[0] for m in PREFILL_M}
                    assert made <= prefill
    assert {96, 4352} <= {*DECODE_M, *PREFILL_M}


def test_shapes_of_a_layer():
    assert shapes("GLM-5", 1)["fc1"] == (4096, 6144)
    assert shapes("GLM-5", 8) == {
        "qkv_a": (2624, 6144),
        "q_b": (2048, 2048),
        "kv_b": (3584, 512),
        "o": (6144, 2048),
        "fc1": (512, 6144),
        "fc2": (6144, 256),
    }
    assert shapes("Qwen3-235B-A22B", 1)["qkv"] == (9216, 4096)
    # four heads of the cache on eight GPUs: each holds a copy of one
    assert shapes("Qwen3-235B-A22B", 8)["qkv"] == ((8 + 2) * 128, 4096)


def test_a_width_that_does_not_divide_is_rounded_up():
    assert 2880 / 8 == 360
    assert shapes("gpt-oss-120b", 8)["fc1"] == (2 * 384, 2880)
    assert shapes("gpt-oss-120b", 8)["fc2"] == (2880, 384)


@given(st.integers(1, 2**20), st.sampled_from((1, 2, 4, 8, 16)))
def test_rounding_up_wastes_less_than_a_block(width, parts):
    rounded = models.rounded(width / parts)
    assert rounded % models.WIDTH_MULTIPLE == 0
    assert 0 <= rounded - width / parts < models.WIDTH_MULTIPLE


def test_models_are_those_of_the_facts():
    if not FACTS.exists():
        pytest.skip("the facts that models.json was made from are not beside this project")
    facts = {row["name"]: row for row in json.loads(FACTS.read_text(encoding="utf-8"))["models"]}
    assert set(facts) == {each.name for each in models.models()}
    for each in models.models():
        row = facts[each.name]
        experts = row.get("n_routed_experts") or row.get("num_experts") or row.get("num_local_experts")
        assert (each.hidden, each.layers, each.q_heads, each.vocab, each.experts) == (
            row["hidden_size"],
            row["num_hidden_layers"],
            row["num_attention_heads"],
            row["vocab_size"],
            experts,
        )
        assert each.moe_intermediate == row.get("moe_intermediate_size", row["intermediate_size"])
        assert each.top_k == row["num_experts_per_tok"]
        assert (each.mla is not None) == ("kv_lora_rank" in row)


def test_calls_of_a_decode_step():
    assert calls_of("16x4096x6144:nvfp4") == {"GLM-5": 75}
    assert calls_of("grouped_gemm:groups=256,m=512,n=4096,k=6144,dtype=nvfp4") == {"GLM-5": 75}
    assert calls_of("grouped_gemm:groups=8,m=512,n=4096,k=6144,dtype=nvfp4") == {}
    # the same shape in two roles: O on eight GPUs, FC2 on one
    same = calls_of("1x7168x2048:fp8")
    assert (same["DeepSeek-V3"], same["DeepSeek-V3 TP 8"]) == (58, 61)
    layer = {"hidden": 6144, "inter": 2048, "topk": 8, "experts": 256, "tp": 8, "ep": 1}
    assert calls_per_step("moe", layer) == {"GLM-5 TP 8": 75}
    assert calls_per_step("moe", layer | {"ep": 2}) == {}
    heads = "q_heads=32,kv_heads=4,head_dim=128,dtype=bf16"
    assert calls_of(f"decode_attention:batch=1,context=4096,{heads}") == {"Qwen3-30B-A3B": 48}
    assert calls_of(f"rope:tokens=1,{heads}") == {"Qwen3-30B-A3B": 48}
    # two latents are normalised beside the hidden states
    assert calls_of("rmsnorm:tokens=1,hidden=1536,dtype=bf16")["DeepSeek-V3"] == 61
    assert calls_of("rmsnorm:tokens=1,hidden=7168,dtype=bf16")["DeepSeek-V3"] == 2 * 61 + 1
    assert calls_of("sampling:batch=1,vocab=154880,dtype=fp32") == {"GLM-5": 1, "GLM-5 TP 8": 1}
    assert calls_of("quantize:tokens=1,hidden=2048,dtype=bf16,to=nvfp4")["GLM-5"] == 78 + 75
    assert calls_of("silu_and_mul:tokens=1,hidden=256,dtype=bf16")["GLM-5 TP 8"] == 75


def test_what_is_no_part_of_a_decode_step_has_no_calls():
    heads = "q_heads=32,kv_heads=4,head_dim=128,dtype=bf16"
    for text in (
        f"prefill_attention:batch=1,context=4096,{heads}",
        "copy:bytes=1024",
        "empty_kernel:timer=cupti",
        "8192x8192x8192:bf16",
    ):
        assert calls_of(text) == {}
    # latent attention never expands its cache in a decode step
    assert "GLM-5" not in calls_of("1x28672x512:nvfp4")


def test_the_docs_list_every_suite():
    text = (Path(__file__).resolve().parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([a-z0-9-]+)` \| ([\d,]+) \| (.+) \|$", text, re.M)
    assert told == [(name, f"{len(cases):,}", DESCRIPTIONS[name]) for name, cases in SUITES.items()]
