"""Norms, rotary embedding and activation of a decoder: torch's own, or FlashInfer's. Needs torch.

Those whose names end in an underscore write into their arguments.
"""

from __future__ import annotations

from typing import Any, Protocol

from workers.bench.models import Model


class Kernels(Protocol):
    def norm(self, x: Any, weight: Any) -> Any:
        """RMSNorm over the last dimension of [rows, width], in a new tensor."""

    def norm_(self, x: Any, weight: Any) -> None:
        """The same in place, of [rows, width] or [rows, heads, dim]; rows need not be dense."""

    def add_norm_(self, x: Any, residual: Any, weight: Any) -> None:
        """residual += x, then x = RMSNorm(residual); both [rows, hidden]."""

    def rope_(self, q: Any, k: Any, positions: Any) -> None:
        """Rotates [rows, heads, dim] of queries and keys by the [rows] int32 positions of their tokens."""

    def silu_and_mul(self, x: Any) -> Any:
        """[rows, 2 · width] of gate beside up → [rows, width]."""


class TorchKernels:
    """Plain torch, in float32 between reading and writing."""

    def __init__(self, torch: Any, model: Model) -> None:
        self._torch = torch
        self._eps = model.rms_norm_eps
        self._theta = model.rope_theta
        self._interleaved = model.mla is not None

    def norm(self, x: Any, weight: Any) -> Any:
        return self._torch.nn.functional.rms_norm(x, weight.shape, weight, self._eps)

    def norm_(self, x: Any, weight: Any) -> None:
        x.copy_(self.norm(x, weight))

    def add_norm_(self, x: Any, residual: Any, weight: Any) -> None:
        residual.add_(x)
        x.copy_(self.norm(residual, weight))

    def rope_(self, q: Any, k: Any, positions: Any) -> None:
        dim = q.shape[-1]
        turns = self._torch.arange(0, dim, 2, dtype=self._torch.float32, device=q.device) / dim
        angles = positions.float()[:, None] * self._theta**-turns
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        for x in (q, k):
            if self._interleaved:
                one, two = x[..., ::2], x[..., 1::2]
            else:
                one, two = x[..., : dim // 2], x[..., dim // 2 :]
            turned = one * cos - two * sin, two * cos + one * sin
            one.copy_(turned[0])
            two.copy_(turned[1])

    def silu_and_mul(self, x: Any) -> Any:
        gate, up = x.chunk(2, -1)
        return self._torch.nn.functional.silu(gate) * up


class FlashInferKernels:
    """FlashInfer's, of whatever version is installed."""

    def __init__(self, library: Any, model: Model) -> None:
        self._library = library
        self._eps = model.rms_norm_eps
        self._theta = model.rope_theta
        self._interleaved = model.mla is not None

    def norm(self, x: Any, weight: Any) -> Any:
        return self._library.norm.rmsnorm(x, weight, self._eps)

    def norm_(self, x: Any, weight: Any) -> None:
        self._library.norm.rmsnorm(x, weight, self._eps, out=x)

    def add_norm_(self, x: Any, residual: Any, weight: Any) -> None:
        self._library.norm.fused_add_rmsnorm(x, residual, weight, self._eps)

    def rope_(self, q: Any, k: Any, positions: Any) -> None:
        self._library.rope.apply_rope_pos_ids_inplace(
            q, k, positions, interleave=self._interleaved, rope_theta=self._theta
        )

    def silu_and_mul(self, x: Any) -> Any:
        return self._library.activation.silu_and_mul(x)
