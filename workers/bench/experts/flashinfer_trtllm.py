"""Routed experts by TensorRT-LLM's generated kernels in FlashInfer, on SM100. Never run here.

The functions that take ids and weights of a router elsewhere: `trtllm_bf16_routed_moe` (from 0.6.9 on),
`trtllm_fp8_block_scale_routed_moe` (0.6.3) and `trtllm_fp4_block_scale_routed_moe` (0.5.3). Rows of FC1 are
interleaved by the library's own permutations, up and gate in turn, and then shuffled for its tiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from workers.bench.experts import activation
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.experts.flashinfer_common import Tuning, needs, only
from workers.bench.experts.quantised import FORMATS, Packed, pack
from workers.bench.operators import formats, no_jit
from workers.bench.operators.asking import in_its_words, module_of, takes
from workers.bench.operators.base import UnsupportedError

#: rows of a tile of either product's output, and bytes of a block along K
_TILE_ROWS, _BLOCK_K = 128, 128
#: of RoutingMethodType: ids and weights are given, so that none is applied
_RENORMALIZE = 1
_PARTS = (("finalize", "combine"), ("routing", "dispatch"), ("bmm_", "product"), ("activation", "activation"))


@dataclasses.dataclass(frozen=True, slots=True)
class Operands:
    """The function that a format wants, its arguments, and what it makes of tokens."""

    function: str
    arguments: dict[str, Any]
    tokens: Callable[[Any], dict[str, Any]]


def backends(torch: Any) -> list[Backend]:
    library = no_jit.flashinfer(torch, "flashinfer.fused_moe")
    if not hasattr(library, "trtllm_fp4_block_scale_routed_moe"):
        return []
    return [Trtllm(library, tuned=False), Trtllm(library, tuned=True)]


class Trtllm:
    def __init__(self, library: Any, tuned: bool) -> None:
        self._library = library
        self._tuned = tuned
        self.name = "flashinfer.trtllm_moe" + (".autotuned" if tuned else "")

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        needs(torch.cuda.get_device_capability()[0] == 10, "TensorRT-LLM's generated kernels are for SM100.")
        core = module_of("flashinfer.fused_moe.core")
        with in_its_words():
            operands = operands_of(torch, core, layer, weights)
        function = getattr(self._library, operands.function, None)
        if function is None:
            raise UnsupportedError(f"This FlashInfer has no {operands.function}.")
        return _TrtllmExperts(torch, function, layer, operands, max_tokens, Tuning(torch, self._tuned))

    def part_of(self, kernel: str) -> str | None:
        return next((part for word, part in _PARTS if word in kernel), None)


class _TrtllmExperts:
    def __init__(
        self, torch: Any, function: Any, layer: Layer, operands: Operands, max_tokens: int, tuning: Tuning
    ) -> None:
        self._torch = torch
        self._function = function
        self._operands = operands
        self._tuning = tuning
        self._arguments = {
            **operands.arguments,
            "num_experts": layer.experts,
            "top_k": layer.top_k,
            "n_group": None,
            "topk_group": None,
            "intermediate_size": layer.inter,
            "local_expert_offset": layer.first_expert,
            "local_num_experts": layer.local_experts,
            "routed_scaling_factor": None,
            "routing_method_type": _RENORMALIZE,
            "tune_max_num_tokens": max_tokens,
        }
        if takes(function, "tile_tokens_dim"):  # 0.5.3: no default, and None lets it choose
            self._arguments["tile_tokens_dim"] = None

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        with self._tuning.once(), in_its_words():
            made = self._function(
                topk_ids=with_weights(self._torch, ids, weights),
                **self._operands.tokens(hidden),
                **self._arguments,
            )
        return only(self._torch, made)


def with_weights(torch: Any, ids: Any, weights: Any) -> Any:
    """Each id in the high half of an int32 and its weight in bf16 in the low one (PackedScoreIdx)."""
    return ids << 16 | weights.bfloat16().view(torch.int16).int() & 0xFFFF


def operands_of(torch: Any, core: Any, layer: Layer, weights: Weights) -> Operands:
    """The layer in its format; `core` holds the library's permutations. UnsupportedError."""
    needs(
        layer.activation != "plain", "TensorRT-LLM's generated kernels are asked for gated experts only here."
    )
    for width in (layer.hidden, layer.inter):
        needs(
            width % 128 == 0, f"TensorRT-LLM's generated kernels want widths divisible by 128, not {width}."
        )
    plain = layer.activation == "swiglu" and not layer.bias
    if layer.dtype == "bf16":
        needs(plain, "trtllm_bf16_routed_moe is asked for SwiGLU without biases only here.")
        return _bf16(torch, core, weights)
    if layer.dtype == "fp8_block":
        needs(plain, "trtllm_fp8_block_scale_routed_moe is asked for SwiGLU without biases only here.")
        return _fp8_block(torch, weights)
    if layer.dtype in ("nvfp4", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8"):
        needs(
            plain or layer.dtype != "nvfp4",
            "trtllm_fp4_block_scale_routed_moe is asked for clamped SwiGLU and biases with MXFP4 only here.",
        )
        return _fp4(torch, core, layer, weights)
    raise UnsupportedError(f"TensorRT-LLM's generated kernels are not asked for {layer.dtype} here.")


def _rows(core: Any, like: Any, gated: bool, per_scale: int | None = None) -> Any:
    """Order of an expert's rows, by the library: of FC1's where `gated`, else of FC2's. `per_scale`: of block
    scales. A cache of its own each time: older releases know an order by its shape alone."""
    order = core._maybe_get_cached_w3_w1_permute_indices if gated else core.get_w2_permute_indices_with_cache
    return order({}, like, _TILE_ROWS, num_elts_per_sf=per_scale).to(like.device)


def _shuffled(torch: Any, core: Any, each: Any, gated: bool) -> Any:
    """[E, rows, columns] of any type, each expert's rows in the library's order."""
    held = each.contiguous().view(torch.uint8)
    return held[:, _rows(core, held[0], gated)].contiguous()


def _bf16(torch: Any, core: Any, weights: Weights) -> Operands:
    def blocked(each: Any, gated: bool) -> Any:
        rows = _shuffled(torch, core, each, gated)
        return torch.stack([core.convert_to_block_layout(expert, _BLOCK_K) for expert in rows]).view(
            torch.bfloat16
        )

    arguments = {
        "gemm1_weights": blocked(weights.up_gate, True),
        "gemm2_weights": blocked(weights.down, False),
    }
    return Operands("trtllm_bf16_routed_moe", arguments, lambda hidden: {"hidden_states": hidden})


def _fp8_block(torch: Any, weights: Weights) -> Operands:
    """Weights stay as they are, K along rows; scales of tokens are transposed."""
    up_gate, down = pack(torch, weights.up_gate, "fp8_block"), pack(torch, weights.down, "fp8_block")

    def tokens(hidden: Any) -> dict[str, Any]:
        held = formats.quantise(torch, hidden.float(), "fp8_block")
        return {"hidden_states": held.data, "hidden_states_scale": held.scales.t().contiguous()}

    arguments = {
        "routing_bias": None,
        "gemm1_weights": up_gate.codes,
        "gemm1_weights_scale": up_gate.blocks,
        "gemm2_weights": down.codes,
        "gemm2_weights_scale": down.blocks,
    }
    return Operands("trtllm_fp8_block_scale_routed_moe", arguments, tokens)


def _fp4(torch: Any, core: Any, layer: Layer, weights: Weights) -> Operands:
    form = FORMATS[layer.dtype][0]
    assert form is not None
    up_gate, down = pack(torch, weights.up_gate, form), pack(torch, weights.down, form)
    device, local = weights.down.device, layer.local_experts
    ones = torch.ones(local, device=device)

    def full(value: float) -> Any:
        return torch.full((local,), value, device=device)

    clamped = layer.activation == "clamped_swiglu"
    arguments: dict[str, Any] = {
        "routing_bias": None,
        "gemm1_weights": _shuffled(torch, core, up_gate.codes, True),
        "gemm1_weights_scale": _shuffled_scales(torch, core, up_gate, True),
        "gemm1_bias": _shuffled_bias(torch, core, weights.up_gate_bias, True),
        "gemm1_alpha": full(activation.ALPHA) if clamped else None,
        "gemm1_beta": full(activation.SHIFT) if clamped else None,
        "gemm1_clamp_limit": full(activation.LIMIT) if clamped else None,
        "gemm2_weights": _shuffled(torch, core, down.codes, False),
        "gemm2_weights_scale": _shuffled_scales(torch, core, down, False),
        # One rank's of the tensor-parallel ones, so that the sum over them has it once.
        "gemm2_bias": _shuffled_bias(torch, core, weights.down_bias if layer.tp_rank == 0 else None, False),
        "output1_scale_scalar": ones if up_gate.scale is None else up_gate.scale,
        "output1_scale_gate_scalar": ones if up_gate.scale is None else up_gate.scale,
        "output2_scale_scalar": ones if down.scale is None else down.scale,
    }
    return Operands("trtllm_fp4_block_scale_routed_moe", arguments, _fp4_tokens(torch, layer.dtype, device))


def _shuffled_scales(torch: Any, core: Any, held: Packed, gated: bool) -> Any:
    """Block scales in the order of their rows, then swizzled, as E4M3 whatever they are."""
    scales = held.blocks.view(torch.uint8)
    per_scale = 16  # of the library's own preparation, for both block sizes
    order = _rows(core, scales[0], gated, per_scale)
    made = torch.stack([formats.swizzle(torch, expert[order]) for expert in scales])
    return made.view(scales.shape).view(torch.float8_e4m3fn)


def _shuffled_bias(torch: Any, core: Any, bias: Any, gated: bool) -> Any:
    if bias is None:
        return None
    column = bias.float().unsqueeze(2)
    return column[:, _rows(core, column[0], gated)].squeeze(2).contiguous()


def _fp4_tokens(torch: Any, dtype: str, device: Any) -> Callable[[Any], dict[str, Any]]:
    library = module_of("flashinfer")
    one = torch.ones(1, device=device)

    def nvfp4(hidden: Any) -> tuple[Any, Any]:
        codes, scales = library.fp4_quantize(hidden, one, is_sf_swizzled_layout=False)  # type: ignore[union-attr]
        return codes, scales

    def mxfp8(hidden: Any) -> tuple[Any, Any]:
        codes, scales = library.mxfp8_quantize(hidden, False)  # type: ignore[union-attr]
        return codes, scales

    def as_given(hidden: Any) -> dict[str, Any]:
        return {"hidden_states": hidden, "hidden_states_scale": None}

    def quantised(hidden: Any) -> dict[str, Any]:
        codes, scales = nvfp4(hidden) if dtype == "nvfp4" else mxfp8(hidden)
        return {
            "hidden_states": codes,
            "hidden_states_scale": scales.view(torch.float8_e4m3fn).reshape(hidden.shape[0], -1),
        }

    return as_given if dtype == "w4a16_mxfp4" else quantised
