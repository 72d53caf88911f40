"""Models as data, and the matrix products of their layers.

Widths and counts stand in `models.json` beside this file. Standard library only.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Literal

DATA = Path(__file__).with_name("models.json")
#: tensor parallelism that shapes are made for: one GPU, and the eight of a host
TENSOR_PARALLEL = (1, 8)
#: A width that tensor parallelism leaves is rounded up to a multiple of this, the largest block that shares a
#: scale along a row. Of the models here only gpt-oss needs it: 2880 / 8 = 360 becomes 384.
WIDTH_MULTIPLE = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Mla:
    """Widths of multi-head latent attention (DeepSeek-V2, 2024), names as in config.json."""

    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """One model. `mla` where attention is latent; `kv_heads` and `head_dim` where it is not."""

    name: str
    hidden: int
    layers: int
    #: the first layers, which have no experts
    dense_layers: int
    #: of one expert
    moe_intermediate: int
    experts: int
    top_k: int
    shared_experts: int
    q_heads: int
    vocab: int
    source: str
    mla: Mla | None = None
    kv_heads: int = 0
    head_dim: int = 0
    #: layers that attend to the whole context; the others, every second from the first on, to the last
    #: `sliding_window` tokens
    full_attention_layers: int = 0
    sliding_window: int = 0
    #: of the layers without experts
    dense_intermediate: int = 0
    qk_norm: bool = False
    attention_bias: bool = False
    #: a learned logit a head that the softmax of attention also counts
    sinks: bool = False
    #: of the router and of both products of an expert
    expert_bias: bool = False
    activation: Literal["swiglu", "clamped_swiglu"] = "swiglu"
    scoring: Literal["softmax", "sigmoid"] = "softmax"
    routed_scaling: float = 1.0
    #: experts stand in `groups`, of which a token sees `top_groups`
    groups: int = 1
    top_groups: int = 1
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers

    def heads(self, tp: int) -> tuple[int, int]:
        """Heads of queries and of the cache on one of `tp` GPUs; heads of the cache are copied where they are
        fewer than the GPUs. Latent attention turns one key for all heads."""
        kv_heads = 1 if self.mla else max(1, self.kv_heads // tp)
        return self.q_heads // tp, kv_heads

    def expert_width(self, tp: int) -> int:
        return rounded(self.moe_intermediate / tp)


@dataclasses.dataclass(frozen=True, slots=True)
class Projection:
    """One product of a layer on one GPU: N × K, and how often a decode step computes it.

    `grouped` is how often it is computed for all routed experts at once.
    """

    name: str
    n: int
    k: int
    calls: int
    grouped: int = 0


@functools.cache
def models() -> tuple[Model, ...]:
    """Every model of models.json, in its order."""
    return _read("models")


@functools.cache
def tiny() -> tuple[Model, ...]:
    """Configurations made up for tests and for machines without a GPU."""
    return _read("tiny")


def _read(part: str) -> tuple[Model, ...]:
    rows = json.loads(DATA.read_text(encoding="utf-8"))[part]
    return tuple(Model(**{**row, "mla": Mla(**row["mla"]) if "mla" in row else None}) for row in rows)


def model(name: str) -> Model:
    """The model called `name`, a tiny one too. KeyError where there is none."""
    return {each.name: each for each in (*models(), *tiny())}[name]


def rounded(width: float) -> int:
    """Up to the next multiple of WIDTH_MULTIPLE."""
    return -int(-width // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


@functools.cache
def projections(of: Model, tp: int) -> tuple[Projection, ...]:
    """Products of a layer on one of `tp` GPUs: attention's, then FC1 (gate and up) and FC2 of the experts.

    Dense, FC1 and FC2 are the shared expert's, once a layer that has experts; where a model has none they are
    never computed alone, but their shape is what each routed expert multiplies with.
    """
    width, experts = of.expert_width(tp), of.moe_layers
    shared = experts if of.shared_experts else 0
    return (
        *_attention(of, tp),
        Projection("fc1", 2 * width, of.hidden, shared, experts),
        Projection("fc2", of.hidden, width, shared, experts),
    )


def _attention(of: Model, tp: int) -> tuple[Projection, ...]:
    heads, kv_heads = of.heads(tp)
    if of.mla is None:
        rows = (heads + 2 * kv_heads) * of.head_dim
        return (
            Projection("qkv", rows, of.hidden, of.layers),
            Projection("o", of.hidden, heads * of.head_dim, of.layers),
        )
    mla = of.mla
    return (
        # Every GPU computes both latents whole, in one product.
        Projection("qkv_a", mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim, of.hidden, of.layers),
        Projection("q_b", heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim), mla.q_lora_rank, of.layers),
        # A decode step never expands the cache: this weight is multiplied into query and output by heads.
        Projection("kv_b", heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank, 0),
        Projection("o", of.hidden, heads * mla.v_head_dim, of.layers),
    )
