"""Routed experts by FlashInfer's cutlass_fused_moe, with its default tactics and with tuned ones.

FC1's weights are up above gate, the order of `Weights` (doGatedActivationKernel: linear first, then gate).
Layouts of scales are those that getQuantParams of the library's binding checks; read in 0.6.3, 0.6.9, 0.6.13
and 0.6.18.post1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from workers.bench.experts import activation
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.experts.flashinfer_common import Tuning, needs, only, swizzled
from workers.bench.experts.quantised import FORMATS, FP8_ACTIVATION_SCALE, Packed, pack
from workers.bench.operators import formats, no_jit
from workers.bench.operators.asking import in_its_words, module_of
from workers.bench.operators.base import UnsupportedError

#: rows of a swizzled scale come in tiles, and up and gate each begin one
_SCALE_ROWS = 128
#: the library's own kernels, by a word of their names
_PARTS = (
    # first of all: the products' names tell of their epilogues, activations among them
    ("device_kernel", "product"),
    ("run_global", "product"),
    ("finalizeMoeRouting", "combine"),
    ("Activation", "activation"),
    ("expandInputRows", "dispatch"),
    ("PrefixSum", "dispatch"),
    ("SortFirstToken", "dispatch"),
    ("computeStrides", "dispatch"),
    ("RadixSort", "dispatch"),
    ("gemm", "product"),
    ("Gemm", "product"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Operands:
    """What a format makes of a layer: keyword arguments of every call, and what it makes of its tokens."""

    arguments: dict[str, Any]
    tokens: Callable[[Any], dict[str, Any]]


def backends(torch: Any) -> list[Backend]:
    library = no_jit.flashinfer(torch, "flashinfer.fused_moe")
    if not hasattr(library, "cutlass_fused_moe"):
        return []
    return [Cutlass(library, tuned=False), Cutlass(library, tuned=True)]


class Cutlass:
    def __init__(self, library: Any, tuned: bool) -> None:
        self._library = library
        self._tuned = tuned
        self.name = "flashinfer.cutlass_fused_moe" + (".autotuned" if tuned else "")

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        major = torch.cuda.get_device_capability()[0]
        with in_its_words():
            operands = operands_of(torch, self._library, layer, weights, major)
        return _CutlassExperts(torch, self._library, layer, operands, max_tokens, Tuning(torch, self._tuned))

    def part_of(self, kernel: str) -> str | None:
        return next((part for word, part in _PARTS if word in kernel), None)


class _CutlassExperts:
    def __init__(
        self, torch: Any, library: Any, layer: Layer, operands: Operands, max_tokens: int, tuning: Tuning
    ) -> None:
        self._torch = torch
        self._call = library.cutlass_fused_moe
        self._operands = operands
        kinds = module_of(f"{library.__name__}.core").ActivationType  # type: ignore[union-attr]
        device = operands.arguments["fc2_expert_weights"].device
        self._common = common(torch, layer, kinds, device)
        # Without it every size up to 8192 tokens is tuned.
        self._common["tune_max_num_tokens"] = max_tokens
        self._tuning = tuning

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        with self._tuning.once(), in_its_words():
            made = self._call(
                token_selected_experts=ids,
                token_final_scales=weights,
                output_dtype=self._torch.bfloat16,
                **self._operands.tokens(hidden),
                **self._operands.arguments,
                **self._common,
            )
        return only(self._torch, made)


def common(torch: Any, layer: Layer, kinds: Any, device: Any) -> dict[str, Any]:
    """Arguments that no format changes: parallelism and activation, of the library's `kinds`."""
    made = {
        "tp_size": layer.tp,
        "tp_rank": layer.tp_rank,
        "ep_size": layer.ep,
        "ep_rank": layer.ep_rank,
        "activation_type": kinds.Relu2 if layer.activation == "plain" else kinds.Swiglu,
    }
    if layer.activation == "clamped_swiglu":
        # The library makes SwigluBias of Swiglu where any of these is there.
        for name, value in (
            ("swiglu_alpha", activation.ALPHA),
            ("swiglu_beta", activation.SHIFT),
            ("swiglu_limit", activation.LIMIT),
        ):
            made[name] = torch.full((layer.local_experts,), value, device=device)
    return made


def operands_of(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    """The layer in its format, on a GPU of compute capability `major`. UnsupportedError."""
    make = _MAKERS.get(layer.dtype)
    if make is None:
        raise UnsupportedError(f"cutlass_fused_moe is not asked for {layer.dtype} here.")
    if layer.bias and layer.dtype == "fp8_block":
        raise UnsupportedError("cutlass_fused_moe adds no biases to products with fp8 block scales.")
    made = make(torch, library, layer, weights, major)
    biases = {"fc1_expert_biases": weights.up_gate_bias, "fc2_expert_biases": weights.down_bias}
    return dataclasses.replace(made, arguments={**made.arguments, **(biases if layer.bias else {})})


def _as_given(hidden: Any) -> dict[str, Any]:
    return {"input": hidden}


def _bf16(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    return Operands(_weights(weights.up_gate.contiguous(), weights.down.contiguous(), None), _as_given)


def _weights(up_gate: Any, down: Any, scales: list[Any] | None) -> dict[str, Any]:
    return {"fc1_expert_weights": up_gate, "fc2_expert_weights": down, "quant_scales": scales}


def _packed(torch: Any, layer: Layer, weights: Weights) -> tuple[Packed, Packed]:
    form = FORMATS[layer.dtype][0]
    assert form is not None
    return pack(torch, weights.up_gate, form), pack(torch, weights.down, form)


def _fp8(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    """Scales: dequantising FC1's and FC2's sums by expert, quantising FC2's rows, dequantising tokens."""
    up_gate, down = _packed(torch, layer, weights)
    step = torch.tensor(FP8_ACTIVATION_SCALE, device=down.codes.device)
    scales = [up_gate.scale * step, 1 / step, down.scale * step, step]
    return Operands(
        _weights(up_gate.codes, down.codes, scales),
        lambda hidden: {"input": formats.to_e4m3(torch, hidden / step)},
    )


def _fp8_block(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    up_gate, down = _packed(torch, layer, weights)
    made = _weights(up_gate.codes, down.codes, [up_gate.blocks, down.blocks])
    return Operands({**made, "use_deepseek_fp8_block_scale": True}, _as_given)


def _nvfp4(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    """Tokens go in as bf16: the library quantises them, at a global scale of 1, where it gathers them."""
    needs(major >= 10, "cutlass_fused_moe multiplies nvfp4 from SM100 on.")
    _whole_tiles(layer)
    up_gate, down = _packed(torch, layer, weights)
    one = torch.ones((), device=down.codes.device)
    scales = [one, _scales(torch, up_gate), up_gate.scale, one, _scales(torch, down), down.scale]
    return Operands(_weights(_longs(torch, up_gate), _longs(torch, down), scales), _as_given)


def _w4a8(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    needs(major >= 10, "cutlass_fused_moe multiplies MXFP8 by MXFP4 from SM100 on.")
    _whole_tiles(layer)
    needs(
        layer.hidden % 128 == 0, "cutlass_fused_moe wants a hidden size divisible by 128 for MXFP4 weights."
    )
    quantise = getattr(module_of("flashinfer"), "mxfp8_quantize", None)
    needs(quantise is not None, "This FlashInfer has no mxfp8_quantize.")
    up_gate, down = _packed(torch, layer, weights)
    ones = torch.ones(layer.local_experts, device=down.codes.device)
    made = _weights(
        _longs(torch, up_gate),
        _longs(torch, down),
        [_scales(torch, up_gate), ones, _scales(torch, down), ones],
    )

    def tokens(hidden: Any) -> dict[str, Any]:
        codes, scales = quantise(hidden, True, formats.BLOCK["mxfp8"])  # type: ignore[misc]
        return {"input": codes, "input_sf": scales}

    return Operands({**made, "use_mxfp8_act_scaling": True}, tokens)


def _w4a16(torch: Any, library: Any, layer: Layer, weights: Weights, major: int) -> Operands:
    needs(major == 9, "cutlass_fused_moe multiplies bf16 by MXFP4 on SM90 only.")
    interleave_codes = getattr(library, "interleave_moe_weights_for_sm90_mixed_gemm", None)
    interleave_scales = getattr(library, "interleave_moe_scales_for_sm90_mixed_gemm", None)
    if interleave_codes is None or interleave_scales is None:
        raise UnsupportedError("This FlashInfer has no interleave_moe_weights_for_sm90_mixed_gemm.")
    for width in (layer.hidden, layer.inter):
        needs(
            width % 128 == 0, f"Interleaved MXFP4 scales come in groups of 128 elements, and {width} is none."
        )
    up_gate, down = _packed(torch, layer, weights)
    scales = [interleave_scales(each.blocks).view(torch.int32) for each in (up_gate, down)]
    made = _weights(interleave_codes(up_gate.codes, "fp4"), interleave_codes(down.codes, "fp4"), scales)
    return Operands({**made, "use_w4_group_scaling": True}, _as_given)


def _whole_tiles(layer: Layer) -> None:
    needs(
        layer.inter % _SCALE_ROWS == 0,
        f"cutlass_fused_moe wants the width of an expert, {layer.inter}, to be divisible by {_SCALE_ROWS} for"
        " block-scaled 4-bit weights.",
    )


def _scales(torch: Any, held: Packed) -> Any:
    """Swizzled block scales, four of them an int32."""
    return swizzled(torch, held).view(torch.int32)


def _longs(torch: Any, held: Packed) -> Any:
    """Sixteen E2M1 codes an int64, which is how the library knows block-scaled 4-bit weights."""
    return held.codes.contiguous().view(torch.int64)


_MAKERS: dict[str, Callable[[Any, Any, Layer, Weights, int], Operands]] = {
    "bf16": _bf16,
    "fp8": _fp8,
    "fp8_block": _fp8_block,
    "nvfp4": _nvfp4,
    "w4a16_mxfp4": _w4a16,
    "w4a8_mxfp4_mxfp8": _w4a8,
}
