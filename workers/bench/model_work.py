"""The compulsory work of one step of a whole model on one GPU of a gang. Pure.

FLOP and bytes of a decode step or of a prefill, weights read once, the KV cache read once and written once,
activations not counted: they may stay in the L2 between two kernels. Work that both kinds of parallelism
leave whole, such as the router, is counted on each GPU.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from workers.bench import roofline
from workers.bench.cases.base import Work
from workers.bench.models import Model, projections
from workers.bench.roofline import BYTES_PER_ELEMENT

Phase = Literal["decode", "prefill"]
#: tokens of a rank that a prefill computes at once; whole sequences, at least one
PREFILL_TOKENS = 16_384


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """How a model stands on tp × ep GPUs, `layers` of it.

    Attention is split by heads over `tp` GPUs, and each of `ep` such groups has its own share of the
    sequences. Experts are split over the `ep` groups, and each one's width over `tp`. `layers` are the first
    ones, those without experts among them. `dtype` is of weights, cache and activations.
    """

    model: Model
    layers: int
    tp: int = 1
    ep: int = 1
    dtype: str = "bf16"

    @property
    def gpus(self) -> int:
        return self.tp * self.ep

    @property
    def dense_layers(self) -> int:
        return min(self.layers, self.model.dense_layers)

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers

    @property
    def full_attention_layers(self) -> int:
        """Of the layers that are here, those that attend to the whole context: the second of each two where
        there is a window, else all."""
        return self.layers // 2 if self.model.sliding_window else self.layers

    @property
    def cached_elements(self) -> int:
        """Elements that one token of one layer leaves in the cache of one GPU."""
        of = self.model
        if of.mla is not None:
            return of.mla.kv_lora_rank + of.mla.qk_rope_head_dim
        return 2 * of.heads(self.tp)[1] * of.head_dim


def attention_weights(at: Layout) -> int:
    """Elements of one layer's projections on one GPU."""
    of, mla = at.model, at.model.mla
    elements = sum(
        each.n * each.k for each in projections(of, at.tp) if each.name in ("qkv", "o", "qkv_a", "q_b")
    )
    if mla is not None:
        elements += of.heads(at.tp)[0] * (mla.qk_nope_head_dim + mla.v_head_dim) * mla.kv_lora_rank
    return elements


def expert_weights(at: Layout) -> int:
    """Elements of one routed expert on one GPU: gate, up and down."""
    return 3 * at.model.expert_width(at.tp) * at.model.hidden


def fixed_weights(at: Layout) -> int:
    """Elements on one GPU that every step reads, whatever is routed where: all but the routed experts and the
    embedding, of which a step reads a row a token."""
    of = at.model
    dense = 3 * -(-of.dense_intermediate // at.tp) * of.hidden
    moe = of.experts * of.hidden + of.shared_experts * expert_weights(at)
    head = -(-of.vocab // at.tp) * of.hidden
    return at.layers * attention_weights(at) + at.dense_layers * dense + at.moe_layers * moe + head


def prefill_tokens(sequences: int, context: int) -> int:
    """The most tokens of prompts that a decoder with room for so many takes in at once."""
    return min(sequences * context, max(PREFILL_TOKENS, context))


def weight_bytes(at: Layout) -> int:
    """Bytes of all weights of one GPU, as they lie in memory."""
    of = at.model
    experts = at.moe_layers * -(-of.experts // at.ep) * expert_weights(at)
    embedding = of.vocab * of.hidden
    return int((fixed_weights(at) + experts + embedding) * BYTES_PER_ELEMENT[at.dtype])


def kv_bytes(at: Layout, batch: int, context: int) -> int:
    """Bytes of the cache of one GPU for `batch` sequences of all GPUs, of `context` tokens each.

    The whole context is kept in every layer, in those with a window too.
    """
    sequences = -(-batch // at.ep)
    return int(at.layers * sequences * context * at.cached_elements * BYTES_PER_ELEMENT[at.dtype])


def experts_hit(at: Layout, tokens: int) -> float:
    """Expected distinct experts a layer touches, of all ranks, if every token's choice is uniform."""
    return roofline.experts_hit_uniform(at.model.experts, at.model.top_k, tokens)


def step_work(at: Layout, phase: Phase, batch: int, context: int, hit: float | None = None) -> Work:
    """One step of `batch` sequences on one GPU.

    decode: one token each, after `context` tokens in the cache. prefill: `context` tokens each, of which only
    the last one's logits are computed. `hit`: distinct experts a layer touched; None: `experts_hit`.
    """
    of, per = at.model, BYTES_PER_ELEMENT[at.dtype]
    sequences = batch / at.ep
    tokens = sequences * (context if phase == "prefill" else 1)
    everybody = batch * (context if phase == "prefill" else 1)
    hit = experts_hit(at, everybody) if hit is None else hit

    head = -(-of.vocab // at.tp) * of.hidden
    active = fixed_weights(at) - head
    flops = 2.0 * tokens * active + 2.0 * sequences * head
    flops += 2.0 * everybody * of.top_k / at.ep * at.moe_layers * expert_weights(at)
    flops += _attention_flops(at, phase, sequences, context)

    read = fixed_weights(at) + at.moe_layers * hit / at.ep * expert_weights(at) + tokens * of.hidden
    if phase == "decode":
        read += (
            sequences
            * at.cached_elements
            * (
                at.full_attention_layers * context
                + (at.layers - at.full_attention_layers) * min(context, of.sliding_window)
            )
        )
    written = tokens * at.layers * at.cached_elements
    return Work(flops, read * per, written * per, roofline.RATE_OF_FORMAT[at.dtype])


def _attention_flops(at: Layout, phase: Phase, sequences: float, context: int) -> float:
    """Both products of attention: of queries with keys, and of probabilities with values."""
    of = at.model
    heads = of.heads(at.tp)[0]
    # Latent attention multiplies with the latent itself while decoding.
    if of.mla is None:
        widths = 2 * of.head_dim
    elif phase == "decode":
        widths = 2 * of.mla.kv_lora_rank + of.mla.qk_rope_head_dim
    else:
        widths = of.mla.qk_nope_head_dim + of.mla.qk_rope_head_dim + of.mla.v_head_dim

    def pairs(window: int | None) -> float:
        if phase == "decode":
            return float(min(context, window or context))
        seen = min(context, window or context)
        return seen * (seen + 1) / 2 + (context - seen) * seen

    windowed = at.layers - at.full_attention_layers
    return (
        2.0
        * sequences
        * heads
        * widths
        * (at.full_attention_layers * pairs(None) + windowed * pairs(of.sliding_window or None))
    )
