"""Random weights at a model's own shapes, drawn where they will lie.

Each tensor has a seed of its own, made of the decoder's seed, the layer and its name, so that a rank of a
gang draws exactly its slice of what one GPU would hold, and a layer can be drawn again to be checked.

Products keep the size of what they multiply: normal with a deviation of 1 / √K. Those that add to the
residual stream are smaller by √(2 · layers), so that all of them together weigh about as much as a token's
embedding: hidden states stay finite and as different as the tokens are, and routing stays near uniform.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

from workers.bench.experts import base
from workers.bench.model_work import Layout
from workers.bench.models import Mla
from workers.bench.operators.base import UnsupportedError


@dataclasses.dataclass(frozen=True, slots=True)
class Grouped:
    """Grouped-query attention. `qkv`: [(q + 2 kv heads) · dim, hidden], in that order; `o`: [hidden, q heads
    · dim]; norms [dim]; `sinks` [q heads] float32. Of this rank's heads."""

    qkv: Any
    o: Any
    qkv_bias: Any = None
    o_bias: Any = None
    q_norm: Any = None
    k_norm: Any = None
    sinks: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention. `qkv_a`: [q rank + kv rank + rope, hidden]; `q_b`: [heads · (nope + rope), q rank];
    `k_b`: [heads, nope, kv rank]; `v_b`: [heads, v dim, kv rank]; `o`: [hidden, heads · v dim]."""

    qkv_a: Any
    q_a_norm: Any
    kv_a_norm: Any
    q_b: Any
    k_b: Any
    v_b: Any
    o: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Gated:
    """A gated product without routing. `gate_up`: [2 · width, hidden], the rows of gate first; `down`:
    [hidden, width]."""

    gate_up: Any
    down: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Routed:
    """`router`: [experts, hidden], `router_bias` [experts] or None; `experts` of this rank, until a backend
    has them."""

    router: Any
    router_bias: Any
    experts: base.Weights | None
    shared: Gated | None


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    attention_norm: Any
    attention: Grouped | Latent
    mlp_norm: Any
    mlp: Gated | Routed


def expert_layer(layout: Layout, rank: int) -> base.Layer:
    """What the experts' backends are told of a layer on `rank`."""
    of = layout.model
    return base.Layer(
        hidden=of.hidden,
        inter=of.expert_width(layout.tp),
        experts=of.experts,
        top_k=of.top_k,
        dtype=layout.dtype,
        tp=layout.tp,
        ep=layout.ep,
        tp_rank=rank % layout.tp,
        ep_rank=rank // layout.tp,
        activation=of.activation,
        bias=of.expert_bias,
    )


class Source:
    """Weights of one rank. `drawn` counts bytes of all that was handed out."""

    def __init__(self, torch: Any, layout: Layout, rank: int, device: str, seed: int) -> None:
        of = layout.model
        widths = {"moe_intermediate": of.moe_intermediate, "dense_intermediate": of.dense_intermediate}
        for name, width in widths.items():
            if width % layout.tp:
                raise UnsupportedError(f"{name} {width} of {of.name} does not divide among tp={layout.tp}.")
        if of.mla is None and max(of.kv_heads, layout.tp) % min(of.kv_heads, layout.tp):
            raise UnsupportedError(
                f"The {of.kv_heads} heads of the cache of {of.name} are neither split nor copied evenly among"
                f" tp={layout.tp}."
            )
        self._torch = torch
        self._layout = layout
        self._tp_rank, self._ep_rank = rank % layout.tp, rank // layout.tp
        self._device = device
        self._seed = seed
        self._generator = torch.Generator(device=device)
        self.drawn = 0

    def embedding(self) -> Any:
        """[vocab, hidden], whole on every rank."""
        of = self._layout.model
        return self._filled("embedding", (of.vocab, of.hidden), 1.0)

    def head(self) -> Any:
        """[vocab / tp, hidden], rounded up: rows behind the vocabulary are zero."""
        of, tp = self._layout.model, self._layout.tp
        rows = -(-of.vocab // tp)
        first = rows * self._tp_rank
        out = self._empty((rows, of.hidden), zero=rows * tp != of.vocab)
        here = max(0, min(rows, of.vocab - first))
        self._fill(out[:here], "head", (of.vocab, of.hidden), of.hidden**-0.5, _rows(first, here))
        return out

    def norm(self, name: str, width: int) -> Any:
        return self._filled(name, (width,), 0.1).add_(1.0)

    def layer(self, index: int) -> Layer:
        of = self._layout.model
        name = f"{index}."
        attention = self._latent(name, of.mla) if of.mla is not None else self._grouped(name)
        dense = index < of.dense_layers
        return Layer(
            self.norm(name + "attention_norm", of.hidden),
            attention,
            self.norm(name + "mlp_norm", of.hidden),
            self._gated(name + "dense", of.dense_intermediate) if dense else self._routed(name),
        )

    @property
    def _residual(self) -> float:
        """Deviation of what a branch adds, beside a branch that keeps its size."""
        return float((2 * self._layout.layers) ** -0.5)

    def _grouped(self, name: str) -> Grouped:
        of, tp = self._layout.model, self._layout.tp
        heads, kv_heads = of.heads(tp)
        dim = of.head_dim
        first_kv = self._tp_rank * of.kv_heads // tp
        scale = of.hidden**-0.5
        # Rows of each part on this rank: how many there are of it in all, and the first one here.
        parts = (
            ("q", of.q_heads * dim, self._tp_rank * heads * dim, heads * dim),
            ("k", of.kv_heads * dim, first_kv * dim, kv_heads * dim),
            ("v", of.kv_heads * dim, first_kv * dim, kv_heads * dim),
        )
        rows = (heads + 2 * kv_heads) * dim
        qkv = self._empty((rows, of.hidden))
        bias = self._empty((rows,)) if of.attention_bias else None
        at = 0
        for part, full, first, here in parts:
            taken = _rows(first, here)
            self._fill(qkv[at : at + here], name + part, (full, of.hidden), scale, taken)
            if bias is not None:
                self._fill(bias[at : at + here], name + part + "_bias", (full,), 0.1, taken)
            at += here
        return Grouped(
            qkv,
            self._down(name + "o", of.q_heads * dim),
            bias,
            self._once(name + "o_bias", of.hidden) if of.attention_bias else None,
            self.norm(name + "q_norm", dim) if of.qk_norm else None,
            self.norm(name + "k_norm", dim) if of.qk_norm else None,
            self._sinks(name + "sinks", of.q_heads, heads) if of.sinks else None,
        )

    def _latent(self, name: str, mla: Mla) -> Latent:
        of = self._layout.model
        heads = of.heads(self._layout.tp)[0]
        here = _rows(self._tp_rank * heads, heads)
        rank, nope, rope, value = mla.kv_lora_rank, mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim

        def by_head(part: str, rows: int, k: int) -> Any:
            out = self._empty((heads, rows, k))
            self._fill(out, name + part, (of.q_heads, rows, k), k**-0.5, here)
            return out

        return Latent(
            self._filled(name + "qkv_a", (mla.q_lora_rank + rank + rope, of.hidden), of.hidden**-0.5),
            self.norm(name + "q_a_norm", mla.q_lora_rank),
            self.norm(name + "kv_a_norm", rank),
            by_head("q_b", nope + rope, mla.q_lora_rank).flatten(0, 1),
            by_head("k_b", nope, rank),
            by_head("v_b", value, rank),
            self._down(name + "o", of.q_heads * value),
        )

    def _gated(self, name: str, width: int) -> Gated:
        """`width` of all ranks."""
        of, tp = self._layout.model, self._layout.tp
        here = width // tp
        gate_up = self._empty((2, here, of.hidden))
        first = self._tp_rank * here
        self._fill(
            gate_up, name + ".gate_up", (2, width, of.hidden), of.hidden**-0.5,
            lambda full: full[:, first : first + here],
        )  # fmt: skip
        return Gated(gate_up.flatten(0, 1), self._down(name + ".down", width))

    def _routed(self, name: str) -> Routed:
        of = self._layout.model
        return Routed(
            self._filled(name + "router", (of.experts, of.hidden), of.hidden**-0.5),
            self._filled(name + "router_bias", (of.experts,), 0.1) if of.expert_bias else None,
            self._experts(name),
            self._gated(name + "shared", of.shared_experts * of.moe_intermediate)
            if of.shared_experts
            else None,
        )

    def _experts(self, name: str) -> base.Weights:
        """Expert by expert, so that no rank ever holds another's. Rows that padding adds are zero, and give
        zero: neither activation makes something of a gate of 0."""
        of, layout = self._layout.model, self._layout
        count, full, width = of.experts // layout.ep, of.moe_intermediate, of.expert_width(layout.tp)
        here = full // layout.tp
        first = self._tp_rank * here
        padded = width != here
        up_gate = self._empty((count, 2, width, of.hidden), zero=padded)
        down = self._empty((count, of.hidden, width), zero=padded)
        up_gate_bias = self._empty((count, 2, width), zero=padded) if of.expert_bias else None
        down_bias = self._empty((count, of.hidden)) if of.expert_bias else None
        std = self._residual * full**-0.5
        columns = _columns(first, here)
        for local in range(count):
            expert = f"{name}{self._ep_rank * count + local}."
            self._fill(
                up_gate[local, :, :here], expert + "up_gate", (2, full, of.hidden), of.hidden**-0.5,
                lambda whole: whole[:, first : first + here],
            )  # fmt: skip
            self._fill(down[local, :, :here], expert + "down", (of.hidden, full), std, columns)
            if up_gate_bias is not None and down_bias is not None:
                self._fill(up_gate_bias[local, :, :here], expert + "up_gate_bias", (2, full), 0.1, columns)
                # Which rank adds it is the backend's affair.
                self._fill(down_bias[local], expert + "down_bias", (of.hidden,), 0.1 * self._residual)
        if up_gate_bias is not None:
            up_gate_bias = up_gate_bias.flatten(1, 2)
        return base.Weights(up_gate.flatten(1, 2), down, up_gate_bias, down_bias)

    def _down(self, name: str, full: int) -> Any:
        """[hidden, full / tp] of a product that adds to the residual stream."""
        of, here = self._layout.model, full // self._layout.tp
        out = self._empty((of.hidden, here))
        columns = _columns(self._tp_rank * here, here)
        self._fill(out, name, (of.hidden, full), self._residual * full**-0.5, columns)
        return out

    def _once(self, name: str, width: int) -> Any:
        """A bias that only the first rank of a sum adds: zero on the others."""
        out = self._filled(name, (width,), 0.1 * self._residual)
        return out if self._tp_rank == 0 else out.zero_()

    def _sinks(self, name: str, full: int, here: int) -> Any:
        out = self._empty((here,))
        self._fill(out, name, (full,), 1.0, _rows(self._tp_rank * here, here))
        return out.float()

    def _filled(self, name: str, shape: tuple[int, ...], std: float) -> Any:
        out = self._empty(shape)
        self._fill(out, name, shape, std)
        return out

    def _empty(self, shape: tuple[int, ...], zero: bool = False) -> Any:
        make = self._torch.zeros if zero else self._torch.empty
        out = make(shape, dtype=self._torch.bfloat16, device=self._device)
        self.drawn += out.numel() * out.element_size()
        return out

    def _fill(
        self,
        out: Any,
        name: str,
        shape: tuple[int, ...],
        std: float,
        taken: Callable[[Any], Any] = lambda full: full,
    ) -> None:
        """Draws a tensor of `shape` and puts what `taken` leaves of it into `out`; in place where that is all
        of it."""
        self._generator.manual_seed(zlib.crc32(f"{self._seed}/{name}".encode()))
        if tuple(out.shape) == shape and out.is_contiguous():
            out.normal_(0.0, std, generator=self._generator)
            return
        full = self._torch.empty(shape, dtype=out.dtype, device=self._device)
        out.copy_(taken(full.normal_(0.0, std, generator=self._generator)))


def _rows(first: int, count: int) -> Callable[[Any], Any]:
    return lambda full: full[first : first + count]


def _columns(first: int, count: int) -> Callable[[Any], Any]:
    return lambda full: full[..., first : first + count]


def without_experts(layer: Layer) -> Layer:
    """The layer without its routed experts' weights, which their backend holds in whatever form it wants."""
    assert isinstance(layer.mlp, Routed)
    return dataclasses.replace(layer, mlp=dataclasses.replace(layer.mlp, experts=None))
