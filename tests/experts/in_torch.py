"""What the tests of this folder ask of torch, in a Python that has it: JSON lines in, JSON lines out."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import torch

from tests.asked_in_torch import answer
from workers.bench.cases.parse import from_text
from workers.bench.document import BenchError
from workers.bench.experts import (
    flashinfer_cute_dsl,
    flashinfer_cutlass,
    flashinfer_trtllm,
    quantised,
    reference,
    registry,
)
from workers.bench.experts.base import Layer, Weights
from workers.bench.operators import registry as operators
from workers.bench.operators.base import UnsupportedError, passes

HIDDEN, INTER, EXPERTS, TOP_K, TOKENS = 64, 32, 8, 2, 19


def drawn(activation: Any, bias: bool, dtype: Any = torch.float32) -> tuple[Layer, Weights, Any, Any, Any]:
    torch.manual_seed(7)
    rows = INTER if activation == "plain" else 2 * INTER
    layer = Layer(HIDDEN, INTER, EXPERTS, TOP_K, "fp32" if dtype == torch.float32 else "bf16",
                  activation=activation, bias=bias)  # fmt: skip

    def normal(*shape: int) -> Any:
        return (torch.randn(shape) / shape[-1] ** 0.5).to(dtype)

    biases = (torch.randn(EXPERTS, rows).to(dtype), torch.randn(EXPERTS, HIDDEN).to(dtype))
    weights = Weights(
        normal(EXPERTS, rows, HIDDEN), normal(EXPERTS, HIDDEN, INTER), *(biases if bias else (None, None))
    )
    ids = torch.rand(TOKENS, EXPERTS).topk(TOP_K, 1).indices.int()
    return layer, weights, torch.randn(TOKENS, HIDDEN).to(dtype), ids, torch.rand(TOKENS, TOP_K)


def slice_of(layer: Layer, weights: Weights, tp: int, ep: int, rank: int) -> tuple[Layer, Weights]:
    """What rank ep_rank · tp + tp_rank holds of a whole layer."""
    ep_rank, tp_rank = divmod(rank, tp)
    inter = INTER // tp
    part = dataclasses.replace(layer, inter=inter, tp=tp, ep=ep, tp_rank=tp_rank, ep_rank=ep_rank)
    experts = slice(part.first_expert, part.first_expert + part.local_experts)
    columns = slice(tp_rank * inter, (tp_rank + 1) * inter)

    def rows(each: Any) -> Any:
        return each[experts].unflatten(1, (-1, INTER))[:, :, columns].flatten(1, 2).contiguous()

    bias = weights.up_gate_bias
    return part, Weights(
        rows(weights.up_gate),
        weights.down[experts, :, columns].contiguous(),
        None if bias is None else rows(bias.unsqueeze(2)).squeeze(2),
        None if bias is None else weights.down_bias[experts],
    )


def written_out(layer: Layer, weights: Weights, hidden: Any, ids: Any, scales: Any) -> Any:
    """The layer pair by pair in float64, by the formulas of the models' own code."""
    total = torch.zeros(hidden.shape[0], HIDDEN, dtype=torch.float64)
    for token in range(hidden.shape[0]):
        for slot in range(TOP_K):
            expert = int(ids[token, slot])
            product = weights.up_gate[expert].double() @ hidden[token].double()
            if layer.bias:
                product = product + weights.up_gate_bias[expert].double()
            up, gate = product[:INTER], product[-INTER:]
            if layer.activation == "plain":
                middle = torch.nn.functional.relu(up) ** 2
            elif layer.activation == "swiglu":
                middle = torch.nn.functional.silu(gate) * up
            else:
                gate, up = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
                middle = gate * torch.sigmoid(gate * 1.702) * (up + 1.0)
            out = weights.down[expert].double() @ middle
            if layer.bias:
                out = out + weights.down_bias[expert].double()
            total[token] += out * float(scales[token, slot])
    return total


def off(got: Any, wanted: Any) -> float:
    return float((got.double() - wanted.double()).abs().max() / wanted.abs().max())


def reference_is_right(activation: str, bias: bool) -> float:
    layer, weights, hidden, ids, scales = drawn(activation, bias)
    wanted = written_out(layer, weights, hidden, ids, scales)
    return off(reference.routed_experts(torch, layer, weights, hidden, ids, scales), wanted)


def backend(name: str, activation: str, bias: bool, tp: int, ep: int) -> dict[str, float]:
    """How far every rank's part is from its reference, and the sum of all from the whole layer."""
    dtype = torch.float32 if name == "torch.loop" else torch.bfloat16
    layer, weights, hidden, ids, scales = drawn(activation, bias, dtype)
    parts, worst = torch.zeros(TOKENS, HIDDEN), 0.0
    for rank in range(tp * ep):
        part, own = slice_of(layer, weights, tp, ep, rank)
        got = registry.by_name(torch, name).make(torch, part, own, TOKENS)(hidden, ids, scales)
        wanted = reference.routed_experts(torch, part, own, hidden, ids, scales)
        worst = max(worst, off(got, wanted))
        parts += got.float()
    whole = reference.routed_experts(torch, layer, weights, hidden, ids, scales)
    return {"part": worst, "whole": off(parts, whole)}


def names() -> list[str]:
    return [each.name for each in registry.backends(torch)]


def unknown(name: str) -> str:
    try:
        registry.by_name(torch, name)
    except BenchError as error:
        return error.sentence
    return ""


def refusal(name: str, dtype: str, hidden: int = HIDDEN) -> str:
    layer = Layer(hidden, INTER, EXPERTS, TOP_K, dtype)
    weights = Weights(torch.zeros(EXPERTS, 2 * INTER, hidden), torch.zeros(EXPERTS, hidden, INTER).bfloat16())
    try:
        registry.by_name(torch, name).make(torch, layer, weights, TOKENS)
    except UnsupportedError as error:
        return str(error)
    return ""


def measured(case: str, spoil: bool = False) -> list[dict[str, Any]]:
    """What each operator of the case brings; with one expert's weights gone where `spoil` says so."""
    found: list[dict[str, Any]] = []
    for operator in operators.operators(torch, from_text(case)):
        try:
            ready = operator.ready(torch, from_text(case))
        except UnsupportedError as error:
            found.append({"backend": operator.backend, "unsupported": str(error)})
            continue
        out = ready.call()
        if spoil:
            out[0][:, : HIDDEN // 2] = out[0][:, HIDDEN // 2 :].clone()
        check = ready.check(out)
        found.append({
            "backend": operator.backend, "passes": passes(check), "reference": check.reference,
            "inputs": ready.inputs, "routing": list(ready.routing), "bytes": ready.work.bytes,
            "flops": ready.work.flops,
        })  # fmt: skip
    return found


def grid(dtype: str) -> dict[str, Any]:
    """Whether quantising once more what bf16 holds of quantised weights changes it."""
    torch.manual_seed(3)
    weights = (torch.randn(3, 130, 256) * torch.rand(3, 130, 1)).bfloat16() / 16
    form: Any = quantised.FORMATS[dtype][0]
    held = quantised.pack(torch, weights, form)
    exact = quantised.values(torch, held, form)
    again = quantised.pack(torch, exact, form)
    same = torch.equal(quantised.values(torch, again, form), exact)
    return {"same": same, "off": float((exact.float() - weights.float()).norm() / weights.float().norm())}


def activations(dtype: str) -> float:
    torch.manual_seed(4)
    x = torch.randn(64, 256)
    rounded: Any = quantised.rounded(torch, dtype)
    return float((rounded(x) - x).norm() / x.norm())


class Kinds(enum.IntEnum):
    """As FlashInfer's ActivationType has them."""

    Swiglu = 3
    Relu2 = 6


def unswizzled(scales: Any, rows: int, columns: int) -> Any:
    """The inverse of `formats.swizzle`, by its formula."""
    flat, width = scales.flatten(), scales.shape[1]
    row = torch.arange(rows)[:, None]
    column = torch.arange(columns)[None, :]
    tile = (row // 128) * (width // 4) + column // 4
    within = (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4
    return flat[tile * 512 + within]


def cutlass(dtype: str, major: int, hidden: int = 256, inter: int = 128) -> dict[str, Any]:
    """Shapes of what a call is handed, and how far the weights it stands for are from those handed in."""
    torch.manual_seed(5)
    layer = Layer(hidden, inter, 3, 2, dtype)
    try:
        weights = Weights(
            quantised.on_grid(torch, torch.randn(3, 2 * inter, hidden).bfloat16() / 16, dtype),
            quantised.on_grid(torch, torch.randn(3, hidden, inter).bfloat16() / 16, dtype),
        )
        made = flashinfer_cutlass.operands_of(torch, None, layer, weights, major).arguments
    except UnsupportedError as error:
        return {"unsupported": str(error)}
    scales = made["quant_scales"] or []
    codes, form = made["fc1_expert_weights"], quantised.FORMATS[dtype][0]
    packed = quantised.Packed(codes)
    if dtype == "fp8":
        step = scales[3]
        packed = quantised.Packed(codes, scale=scales[0] / step)
    if dtype == "fp8_block":
        packed = quantised.Packed(codes, scales[0])
    if dtype == "nvfp4":
        bytes_of = scales[1].view(torch.uint8)
        blocks = torch.stack([unswizzled(each, 2 * inter, hidden // 16) for each in bytes_of])
        packed = quantised.Packed(codes.view(torch.uint8), blocks.view(torch.float8_e4m3fn), scales[2])
    stands_for = codes if form is None else quantised.values(torch, packed, form)
    return {
        "equal": torch.equal(stands_for, weights.up_gate),
        "scales": [[str(each.dtype).removeprefix("torch."), *each.shape] for each in scales],
        "weights": [str(codes.dtype).removeprefix("torch."), *codes.shape],
    }


def common(activation: Any) -> dict[str, Any]:
    layer = Layer(64, 32, 8, 2, "bf16", 2, 4, 1, 3, activation)
    made = flashinfer_cutlass.common(torch, layer, Kinds, "cpu")
    return {name: value.tolist() if torch.is_tensor(value) else int(value) for name, value in made.items()}


def packed_ids() -> list[list[float]]:
    """Ids and weights read back from the one int32 that TensorRT-LLM's kernels take."""
    ids = torch.tensor([[0, 5], [255, 383]], dtype=torch.int32)
    weights = torch.tensor([[0.5, 1.0], [0.125, 2.0]])
    both = flashinfer_trtllm.with_weights(torch, ids, weights)
    low = (both & 0xFFFF).to(torch.int16).view(torch.bfloat16).float()
    return [*(both >> 16).tolist(), *low.tolist()]


def cute_dsl() -> dict[str, Any]:
    """Whether blocks of 64 rows of up and gate follow each other in FC1, with their scales."""
    torch.manual_seed(6)
    hidden, inter = 128, 128
    layer = Layer(hidden, inter, 2, 1, "nvfp4")
    up_gate = quantised.on_grid(torch, torch.randn(2, 2 * inter, hidden).bfloat16() / 16, "nvfp4")
    down = quantised.on_grid(torch, torch.randn(2, hidden, inter).bfloat16() / 16, "nvfp4")

    def lay(scales: Any, rows: int, columns: int, experts: int) -> Any:
        return torch.stack([unswizzled(each, rows, columns // 16) for each in scales])

    made = flashinfer_cute_dsl.operands_of(torch, layer, Weights(up_gate, down), lay, interleaved=True)
    held = quantised.Packed(
        made["w1_weight"], made["w1_weight_sf"].view(torch.float8_e4m3fn), made["w1_alpha"]
    )
    rows = quantised.values(torch, held, "nvfp4")
    up, gate = up_gate[:, :inter], up_gate[:, inter:]
    wanted = torch.cat([up[:, :64], gate[:, :64], up[:, 64:], gate[:, 64:]], 1)
    return {"equal": torch.equal(rows, wanted), "finite": math.isfinite(float(made["w2_alpha"].sum()))}


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    answer(globals())
