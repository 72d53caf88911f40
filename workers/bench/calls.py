"""How often one decode step of a model computes a case: what makes time saved per call time saved per step.

Pure. Counted are kernels launched one by one for each layer; a server that fuses some of them, or splits a
step, launches others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.bench.models import TENSOR_PARALLEL, Model, models, projections


def calls_per_step(kind: str, params: Mapping[str, Any]) -> dict[str, int]:
    """Calls a decode step on one GPU, by model: "GLM-5", and "GLM-5 TP 8" where eight GPUs share its layers.

    Only models that compute the case at all are there; the number of tokens does not matter.
    """
    found = {}
    for each in models():
        for tp in TENSOR_PARALLEL:
            calls = _calls(each, tp, kind, params)
            if calls:
                found[each.name if tp == 1 else f"{each.name} TP {tp}"] = calls
    return found


def _calls(of: Model, tp: int, kind: str, params: Mapping[str, Any]) -> int:
    heads, kv_heads = of.heads(tp)
    match kind:
        case "gemm" | "grouped_gemm":
            same = [each for each in projections(of, tp) if (each.n, each.k) == (params["n"], params["k"])]
            if kind == "gemm":
                return sum(each.calls for each in same)
            return sum(each.grouped for each in same) if params["groups"] == of.experts else 0
        case "moe":
            widths = (of.hidden, of.moe_intermediate, of.top_k, of.experts, tp, 1)
            same_layer = tuple(params[name] for name in ("hidden", "inter", "topk", "experts", "tp", "ep"))
            return of.moe_layers if same_layer == widths else 0
        case "decode_attention":
            same_heads = (params["q_heads"], params["kv_heads"]) == (heads, kv_heads)
            matches = of.mla is None and same_heads and params["head_dim"] == of.head_dim
            return of.full_attention_layers if matches else 0
        case "rmsnorm":
            return _norms(of, params["hidden"])
        case "silu_and_mul":
            # The shared expert's rows are the batch, the routed experts' top_k times as many: one case is
            # either, and each is computed once a layer that has experts.
            return of.moe_layers if params["hidden"] == of.expert_width(tp) else 0
        case "rope":
            turned = of.mla.qk_rope_head_dim if of.mla else of.head_dim
            same_heads = (params["q_heads"], params["kv_heads"]) == (heads, kv_heads)
            return of.layers if same_heads and params["head_dim"] == turned else 0
        case "quantize":
            return _quantised(of, tp, params["hidden"])
        case "sampling":
            return int(params["vocab"] == of.vocab)
    return 0


def _norms(of: Model, width: int) -> int:
    """Before attention and before the experts or MLP of each layer, at the end, and of both latents."""
    calls = 2 * of.layers + 1 if width == of.hidden else 0
    if of.mla:
        calls += of.layers * [of.mla.q_lora_rank, of.mla.kv_lora_rank].count(width)
    return calls


def _quantised(of: Model, tp: int, width: int) -> int:
    """Inputs of that width to products with quantised weights: once each for all that multiply the same."""
    # FC1 of the shared and of the routed experts reads the same rows.
    return sum(max(each.calls, each.grouped) for each in projections(of, tp) if each.k == width)
