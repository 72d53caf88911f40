"""The contract between a mixture-of-experts layer's backends and what calls them: a timed case, a decoder."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Protocol


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """Routed experts of one layer as one rank of tp × ep GPUs holds them.

    `experts` and `top_k` are the whole layer's, `inter` is the width of an expert on this rank. Rank r of the
    `ep` groups holds experts r · experts / ep and those after it, whole but for the split of their width.
    """

    hidden: int
    inter: int
    experts: int
    top_k: int
    dtype: str
    tp: int = 1
    ep: int = 1
    tp_rank: int = 0
    ep_rank: int = 0
    activation: Literal["swiglu", "clamped_swiglu", "plain"] = "swiglu"
    #: gpt-oss: a bias beside each product of an expert
    bias: bool = False

    @property
    def local_experts(self) -> int:
        return self.experts // self.ep

    @property
    def first_expert(self) -> int:
        return self.ep_rank * self.local_experts


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """Of the local experts. `up_gate`: [local_experts, 2 · inter, hidden], the rows of up first, then gate
    (plain: [local_experts, inter, hidden]); `down`: [local_experts, hidden, inter]; biases [local_experts,
    2 · inter] and [local_experts, hidden], or None. In bf16 whatever the layer's format: backends quantise.
    """

    up_gate: Any
    down: Any
    up_gate_bias: Any = None
    down_bias: Any = None


class Experts(Protocol):
    """One layer, ready: it keeps what it needs of the weights in the form it wants."""

    def __call__(self, hidden: Any, ids: Any, weights: Any) -> Any:
        """[T, hidden] bf16 of the tokens, [T, top_k] int32 global ids of their experts and [T, top_k] fp32 of
        their weights → [T, hidden] bf16: this rank's part of the sum, to be added over all ranks.

        Launches on the current stream, waits for nothing, and can be captured in a CUDA graph; pairs of other
        ranks' experts add nothing.
        """


class Backend(Protocol):
    """One library's way to compute such layers."""

    @property
    def name(self) -> str:
        """As in series: "torch.grouped_mm", "triton.fused_experts", "flashinfer.cutlass_fused_moe",
        "flashinfer.cutlass_fused_moe.autotuned"."""

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        """Raises UnsupportedError (workers.bench.operators.base) in the library's words where it does not do
        such a layer here; may free nothing of `weights` that the caller still holds. Tuning, where the name
        says so, happens here or in the first call outside a graph."""

    def part_of(self, kernel: str) -> str | None:
        """The part of a step ("dispatch", "fc1", "activation", "fc2", "combine") that a kernel of this
        backend is, by its name; None where the name does not tell. "product" is fc1 or fc2, by its place:
        the first one of a call is fc1."""
