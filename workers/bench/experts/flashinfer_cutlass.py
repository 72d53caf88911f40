"""Routed experts by FlashInfer's `cutlass_fused_moe`, as it chooses by itself and autotuned.

Untuned it takes the first of its tactics, whatever the shape (read in 0.6.18.post1's binding), so both are
backends of their own. bf16 ran on SM90 with 0.6.18.post1.
"""

from __future__ import annotations

import importlib
from typing import Any

from workers.bench.experts.activation import ALPHA, LIMIT, SHIFT
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.operators import no_jit
from workers.bench.operators.asking import in_its_words, takes
from workers.bench.operators.base import UnsupportedError

#: the most tokens that tactics are profiled for; larger calls take those of this many
TUNED_TOKENS = 8192
#: of the rows of both products, in bytes (TMA)
_ALIGNMENT = 16
_PARTS = (
    ("expandInputRows", "dispatch"),
    ("ExpertPrefixSum", "dispatch"),
    ("fusedBuildExpertMaps", "dispatch"),
    ("buildExpertMaps", "dispatch"),
    ("computeStrides", "dispatch"),
    ("doActivation", "activation"),
    ("doGatedActivation", "activation"),
    ("finalizeMoeRouting", "combine"),
    ("GroupProblemShape", "product"),
    ("fused_moe", "product"),
    ("GemmGrouped", "product"),
    ("MoeFCGemm", "product"),
)


def backends(torch: Any) -> list[Backend]:
    if no_jit.flashinfer(torch) is None:
        return []
    return [FusedMoe(tuned=False), FusedMoe(tuned=True)]


class FusedMoe:
    """Dispatch, both products, activation and the weighted sum behind one function."""

    def __init__(self, *, tuned: bool) -> None:
        self._tuned = tuned
        self.name = f"flashinfer.cutlass_fused_moe{'.autotuned' if tuned else ''}"

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        if layer.dtype != "bf16":
            raise UnsupportedError(f"cutlass_fused_moe is asked for bf16 here, not {layer.dtype}.")
        for width in (layer.hidden, layer.inter):
            if width * weights.down.element_size() % _ALIGNMENT:
                raise UnsupportedError(
                    f"cutlass_fused_moe wants rows at multiples of {_ALIGNMENT} bytes, and {width} elements"
                    f" of {layer.dtype} are none."
                )
        library = no_jit.flashinfer(torch, "flashinfer.fused_moe")
        tuner = importlib.import_module("flashinfer.autotuner")
        if library is None:
            raise UnsupportedError("FlashInfer's fused_moe is not here, or no GPU is.")
        with in_its_words():
            made = _FusedExperts(torch, library.cutlass_fused_moe, layer, weights, max_tokens)
            if self._tuned:
                made.tune(tuner)
            else:
                # What another backend of this process had tuned would be taken here too.
                tuner.AutoTuner.get().clear_cache()
        return made

    def part_of(self, kernel: str) -> str | None:
        return next((part for word, part in _PARTS if word in kernel), None)


class _FusedExperts:
    def __init__(self, torch: Any, function: Any, layer: Layer, weights: Weights, max_tokens: int) -> None:
        self._torch = torch
        self._layer = layer
        self._weights = weights
        self._function = function
        self._max_tokens = min(max_tokens, TUNED_TOKENS)
        self._options = arguments(torch, function, layer, weights, self._max_tokens)

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        out = self._torch.empty_like(hidden)
        self._function(
            hidden, ids, weights, self._weights.up_gate, self._weights.down, hidden.dtype, output=out,
            **self._options,
        )  # fmt: skip
        return out

    def tune(self, tuner: Any) -> None:
        """Profiles every tactic that the library lists, once a process and shape.

        Raises UnsupportedError where none could be run: the library then keeps its first tactic, and says so
        in its log alone.
        """
        torch, layer = self._torch, self._layer
        device = self._weights.down.device
        hidden = torch.randn(self._max_tokens, layer.hidden, device=device, dtype=self._weights.down.dtype)
        drawn = torch.rand(self._max_tokens, layer.experts, device=device)
        weights, ids = drawn.topk(layer.top_k, -1)
        with tuner.autotune(True):
            self(hidden, ids.int(), weights)
        torch.cuda.synchronize()
        if not tuner.AutoTuner.get().profiling_cache:
            raise UnsupportedError(
                "FlashInfer's autotuner could run none of the tactics of cutlass_fused_moe, and would have"
                " kept the first."
            )


def arguments(torch: Any, function: Any, layer: Layer, weights: Weights, max_tokens: int) -> dict[str, Any]:
    """What `cutlass_fused_moe` is told beside activations, routing and weights of a bf16 layer.

    FC1's rows are up, then gate, as in `Weights`. Ids are global; a rank's own experts follow from its place.
    The library turns Swiglu with alpha, beta and limit into gpt-oss's, each of which is one value an expert.
    """
    options: dict[str, Any] = {
        "quant_scales": None if takes(function, "profile_ids") else [],
        "fc1_expert_biases": weights.up_gate_bias,
        "fc2_expert_biases": weights.down_bias,
        "tp_size": layer.tp,
        "tp_rank": layer.tp_rank,
        "ep_size": layer.ep,
        "ep_rank": layer.ep_rank,
        "tune_max_num_tokens": max_tokens,
    }
    if layer.activation == "clamped_swiglu":
        for name, value in (("alpha", ALPHA), ("beta", SHIFT), ("limit", LIMIT)):
            options[f"swiglu_{name}"] = torch.full(
                (layer.local_experts,), value, dtype=torch.float32, device=weights.down.device
            )
    elif layer.activation != "swiglu":
        raise UnsupportedError(f"cutlass_fused_moe is asked for swiglu here, not {layer.activation}.")
    return options
