"""The whole model in float32, recomputed from all tokens for every one that follows: what a decoder is held
against where it is small. Needs torch, and one rank's weights of the whole model."""

from __future__ import annotations

from typing import Any

from workers.bench.decoder.router import choose
from workers.bench.decoder.weights import Gated, Grouped, Latent, Layer, Source, expert_layer
from workers.bench.experts.reference import routed_experts
from workers.bench.model_work import Layout
from workers.bench.models import Model


class Reference:
    """Draws every weight again by `source`, layer by layer, so that only one is ever held."""

    def __init__(self, torch: Any, layout: Layout, source: Source) -> None:
        self._torch = torch
        self._layout = layout
        self._of = layout.model
        self._source = source

    def logits(self, tokens: Any) -> Any:
        """[batch, length] int64 → [batch, length, vocab] float32: of what follows each token."""
        x = self.residual(tokens, self._layout.layers)
        weight = self._source.norm("final_norm", self._of.hidden)
        return self._norm(x, weight) @ self._source.head()[: self._of.vocab].float().t()

    def residual(self, tokens: Any, layers: int) -> Any:
        """[batch, length, hidden] float32 of the residual stream behind the first `layers`."""
        x = self._source.embedding()[tokens].float()
        for index in range(layers):
            x = self.layer(index, self._source.layer(index), x)
        return x

    def layer(self, index: int, layer: Layer, x: Any) -> Any:
        """[batch, length, hidden] of the residual stream before a layer → after it, in the dtype of x."""
        h = self._norm(x, layer.attention_norm)
        if isinstance(layer.attention, Grouped):
            x = x + self._grouped(index, layer.attention, h)
        else:
            x = x + self._latent(layer.attention, h)
        h = self._norm(x, layer.mlp_norm)
        if isinstance(layer.mlp, Gated):
            return x + self._gated(layer.mlp, h)
        rows = h.flatten(0, 1)
        logits = rows @ layer.mlp.router.float().t()
        if layer.mlp.router_bias is not None:
            logits = logits + layer.mlp.router_bias.float()
        ids, scales = choose(self._torch, self._of, logits)
        assert layer.mlp.experts is not None
        of_layer = expert_layer(self._layout, 0)
        out = routed_experts(self._torch, of_layer, layer.mlp.experts, rows, ids, scales).view_as(h)
        if layer.mlp.shared is not None:
            out = out + self._gated(layer.mlp.shared, h)
        return x + out

    def _norm(self, x: Any, weight: Any) -> Any:
        return x / (x.square().mean(-1, keepdim=True) + self._of.rms_norm_eps).sqrt() * weight.float()

    def _gated(self, mlp: Gated, h: Any) -> Any:
        gate, up = (h @ mlp.gate_up.float().t()).chunk(2, -1)
        return (gate * gate.sigmoid() * up) @ mlp.down.float().t()

    def _grouped(self, index: int, weights: Grouped, h: Any) -> Any:
        of = self._of
        qkv = h @ weights.qkv.float().t()
        if weights.qkv_bias is not None:
            qkv = qkv + weights.qkv_bias.float()
        heads = qkv.unflatten(-1, (-1, of.head_dim)).transpose(1, 2)
        q, k, v = heads.split((of.q_heads, of.kv_heads, of.kv_heads), 1)
        if weights.q_norm is not None:
            q, k = self._norm(q, weights.q_norm), self._norm(k, weights.k_norm)
        q, k = (rotated(self._torch, of, each) for each in (q, k))
        k, v = (each.repeat_interleave(of.q_heads // of.kv_heads, 1) for each in (k, v))
        window = of.sliding_window if index % 2 == 0 else 0
        out = self._attend(q, k, v, window, weights.sinks).transpose(1, 2).flatten(2) @ weights.o.float().t()
        return out if weights.o_bias is None else out + weights.o_bias.float()

    def _latent(self, weights: Latent, h: Any) -> Any:
        of = self._of
        mla = of.mla
        assert mla is not None
        made = h @ weights.qkv_a.float().t()
        q, latent, rope = made.split((mla.q_lora_rank, mla.kv_lora_rank, mla.qk_rope_head_dim), -1)
        q = self._norm(q, weights.q_a_norm) @ weights.q_b.float().t()
        q = q.unflatten(-1, (of.q_heads, -1)).transpose(1, 2)
        q_nope, q_rope = q.split((mla.qk_nope_head_dim, mla.qk_rope_head_dim), -1)
        latent = self._norm(latent, weights.kv_a_norm)[:, None]
        k_nope = latent @ weights.k_b.float().transpose(1, 2)
        v = latent @ weights.v_b.float().transpose(1, 2)
        k_rope = rotated(self._torch, of, rope[:, None]).expand(-1, of.q_heads, -1, -1)
        q = self._torch.cat((q_nope, rotated(self._torch, of, q_rope)), -1)
        k = self._torch.cat((k_nope, k_rope), -1)
        return self._attend(q, k, v, 0, None).transpose(1, 2).flatten(2) @ weights.o.float().t()

    def _attend(self, q: Any, k: Any, v: Any, window: int, sinks: Any) -> Any:
        """[batch, heads, length, dim] of each. A sink is one more logit in a head's softmax."""
        length = q.shape[2]
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        place = self._torch.arange(length, device=q.device)
        hidden = place[None] > place[:, None]
        if window:
            hidden |= place[None] <= place[:, None] - window
        powers = scores.masked_fill(hidden, float("-inf")).exp()
        total = powers.sum(-1, keepdim=True)
        if sinks is not None:
            total = total + sinks.exp()[:, None, None]
        return powers / total @ v


def rotated(torch: Any, of: Model, x: Any) -> Any:
    """Rotary embedding of [batch, heads, length, dim] at positions 0 and on: pairs are neighbours in latent
    attention, and a half apart elsewhere (Su et al., 2021)."""
    length, dim = x.shape[-2:]
    place = torch.arange(length, dtype=torch.float32, device=x.device)
    turn = of.rope_theta ** (-torch.arange(0, dim, 2, dtype=torch.float32, device=x.device) / dim)
    spin = torch.polar(torch.ones(length, dim // 2, device=x.device), place[:, None] * turn)
    if of.mla is not None:
        pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * spin).flatten(-2)
    turned = torch.complex(x[..., : dim // 2].contiguous(), x[..., dim // 2 :].contiguous()) * spin
    return torch.cat((turned.real, turned.imag), -1)
