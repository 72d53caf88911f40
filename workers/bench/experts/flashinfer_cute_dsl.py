"""Routed experts in nvfp4 by FlashInfer's CuTe DSL kernels: on SM100 `cute_dsl_fused_moe_nvfp4`, on SM12x
`b12x_fused_moe`. Never run here. Both from 0.6.9 on; weights as the library's own preparation in 0.6.18 lays
them."""

from __future__ import annotations

from typing import Any

from workers.bench.experts import activation
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.experts.flashinfer_common import Tuning, needs, only, swizzled
from workers.bench.experts.quantised import Packed, pack
from workers.bench.operators import formats, no_jit
from workers.bench.operators.asking import in_its_words, module_of, takes

#: rows of up and of gate that follow each other in FC1's weights
_INTERLEAVED = 64
_WIDTH = 128


def backends(torch: Any) -> list[Backend]:
    library = no_jit.flashinfer(torch, "flashinfer.fused_moe")
    found: list[Backend] = []
    if hasattr(library, "cute_dsl_fused_moe_nvfp4"):
        found += [CuteDsl(library, tuned=False), CuteDsl(library, tuned=True)]
    if hasattr(library, "b12x_fused_moe"):
        found.append(B12x(library))
    return found


class CuteDsl:
    def __init__(self, library: Any, tuned: bool) -> None:
        self._function = library.cute_dsl_fused_moe_nvfp4
        self._tuned = tuned
        self.name = "flashinfer.cute_dsl_moe" + (".autotuned" if tuned else "")

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        major = torch.cuda.get_device_capability()[0]
        needs(major == 10, "cute_dsl_fused_moe_nvfp4 is for SM100 and SM103.")
        with in_its_words():
            arguments = operands_of(torch, layer, weights, _mma_layout, interleaved=True)
        needs(layer.activation == "swiglu", "cute_dsl_fused_moe_nvfp4 is asked for SwiGLU only here.")
        arguments["local_expert_offset"] = layer.first_expert
        return _CuteDslExperts(torch, self._function, arguments, Tuning(torch, self._tuned))

    def part_of(self, kernel: str) -> str | None:
        return _part_of(kernel)


class _CuteDslExperts:
    def __init__(self, torch: Any, function: Any, arguments: dict[str, Any], tuning: Tuning) -> None:
        self._torch = torch
        self._function = function
        self._arguments = arguments
        self._tuning = tuning
        self._quantise = module_of("flashinfer").fp4_quantize  # type: ignore[union-attr]
        self._one = torch.ones(1, device=arguments["w2_alpha"].device)

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        with self._tuning.once(), in_its_words():
            codes, scales = self._quantise(hidden, self._one, is_sf_swizzled_layout=False)
            made = self._function(
                x=codes,
                x_sf=scales.reshape(hidden.shape[0], -1, 1),
                token_selected_experts=ids,
                token_final_scales=weights,
                **self._arguments,
            )
        return only(self._torch, made)


class B12x:
    name = "flashinfer.b12x_fused_moe"

    def __init__(self, library: Any) -> None:
        self._function = library.b12x_fused_moe

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        needs(torch.cuda.get_device_capability()[0] == 12, "b12x_fused_moe is for SM120 and SM121.")
        needs(layer.ep == 1, "b12x_fused_moe does not yet support Expert Parallelism.")
        # Without it one figure is FC1's weight scale and its input's scale as well.
        needs(takes(self._function, "input_global_scale"), "This b12x_fused_moe has no input_global_scale.")
        with in_its_words():
            arguments = operands_of(torch, layer, weights, _mma_layout, interleaved=False)
        arguments["input_global_scale"] = arguments["fc2_input_scale"]
        arguments.update(_b12x_activation(layer))
        return _B12xExperts(torch, self._function, arguments, max_tokens, layer.hidden)

    def part_of(self, kernel: str) -> str | None:
        """One kernel is all of it."""
        return None


class _B12xExperts:
    def __init__(
        self, torch: Any, function: Any, arguments: dict[str, Any], max_tokens: int, hidden: int
    ) -> None:
        self._function = function
        self._arguments = arguments
        device = arguments["w2_alpha"].device
        # A graph is captured only over an output that was there before.
        self._out = torch.empty(max_tokens, hidden, dtype=torch.bfloat16, device=device)

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        with in_its_words():
            return self._function(
                x=hidden,
                token_selected_experts=ids,
                token_final_scales=weights,
                output=self._out[: hidden.shape[0]],
                **self._arguments,
            )


def _b12x_activation(layer: Layer) -> dict[str, Any]:
    if layer.activation == "clamped_swiglu":
        return {
            "activation": "swigluoai_uninterleave",
            "swiglu_alpha": activation.ALPHA,
            "swiglu_beta": activation.SHIFT,
            "swiglu_limit": activation.LIMIT,
        }
    return {"activation": "relu2" if layer.activation == "plain" else "silu"}


def operands_of(torch: Any, layer: Layer, weights: Weights, lay: Any, *, interleaved: bool) -> dict[str, Any]:
    """Weights in nvfp4 and their scales, the arguments of both functions; activations at a global scale of 1.

    `lay(scales, rows, columns, experts)` puts swizzled scales in the order of the MMA. UnsupportedError.
    """
    needs(layer.dtype == "nvfp4", f"These kernels multiply nvfp4, not {layer.dtype}.")
    needs(not layer.bias, "These kernels add no biases.")
    for width in (layer.hidden, layer.inter):
        needs(width % _WIDTH == 0, f"These kernels are asked for widths divisible by {_WIDTH}, not {width}.")
    rows = weights.up_gate
    if interleaved:
        # [up, gate] in blocks of 64 rows in turn
        rows = rows.unflatten(1, (2, -1, _INTERLEAVED)).transpose(1, 2).flatten(1, 3)
    up_gate, down = pack(torch, rows, "nvfp4"), pack(torch, weights.down, "nvfp4")

    def laid(held: Packed) -> Any:
        experts, count, columns = held.blocks.shape
        return lay(swizzled(torch, held), count, columns * formats.BLOCK["nvfp4"], experts)

    return {
        "w1_weight": up_gate.codes,
        "w1_weight_sf": laid(up_gate),
        "w1_alpha": up_gate.scale,
        "fc2_input_scale": torch.ones(1, device=down.codes.device),
        "w2_weight": down.codes,
        "w2_weight_sf": laid(down),
        "w2_alpha": down.scale,
        "num_experts": layer.experts,
        "top_k": layer.top_k,
        "num_local_experts": layer.local_experts,
    }


def _mma_layout(scales: Any, rows: int, columns: int, experts: int) -> Any:
    convert = module_of("flashinfer.cute_dsl.utils").convert_sf_to_mma_layout  # type: ignore[union-attr]
    return convert(scales.flatten(0, 1), m=rows, k=columns, num_groups=experts, sf_vec_size=16)


def _part_of(kernel: str) -> str | None:
    if "finalize" in kernel or "unpermute" in kernel:
        return "fc2" if "gemm" in kernel.lower() else "combine"
    if "sort" in kernel or "permute" in kernel or "routing" in kernel:
        return "dispatch"
    return "fc1" if "gather" in kernel and "gemm" in kernel.lower() else None
