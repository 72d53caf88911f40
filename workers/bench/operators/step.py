"""Kernels of a decode step beside its GEMMs and its attention, as FlashInfer offers them.

Outputs never lie over inputs: rotary embedding is timed by the entry that writes elsewhere, which launches
the same kernel as the one in place, so that an element that was not written cannot pass for right.
"""

from __future__ import annotations

from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.step import Quantize, RmsNorm, Rope, Sampling, SiluAndMul
from workers.bench.document import Correctness
from workers.bench.operators import step_quantize, step_sampling
from workers.bench.operators.base import Operator, Ready
from workers.bench.operators.correctness import Tally, whole
from workers.bench.operators.support import NORMAL, Simple, device, flashinfer

EPSILON = 1e-6
#: bf16 rounds an output by 2^-9 of itself, and some kernels round once more on the way
TOLERANCE = 1e-2
#: positions of a context; a table shorter than this would lie in cache whatever the case
POSITIONS = 32_768
ROPE_BASE = 10_000.0


def operators(torch: Any, case: Case) -> list[Operator]:
    """What this Python's libraries offer for `case` on this device."""
    library = flashinfer(torch)
    match case:
        case RmsNorm():
            return [
                *_of(library, "rmsnorm", lambda torch, case: _rms_norm(torch, case, library)),
                Simple("torch.rms_norm", _torch_rms_norm),
            ]
        case SiluAndMul():
            return _of(library, "silu_and_mul", lambda torch, case: _silu_and_mul(torch, case, library))
        case Rope():
            name = "apply_rope_with_cos_sin_cache"
            return _of(library, name, lambda torch, case: _rope(torch, case, library))
        case Quantize():
            return step_quantize.operators(library, case)
        case Sampling():
            return step_sampling.operators(library)
    return []


def _of(library: Any | None, function: str, make: Any) -> list[Operator]:
    return [Simple(f"flashinfer.{function}", make)] if hasattr(library, function) else []


def _rms_norm_inputs(torch: Any, case: RmsNorm) -> tuple[Any, Any]:
    where = {"dtype": torch.bfloat16, "device": device(torch)}
    return torch.randn(case.tokens, case.hidden, **where), torch.randn(case.hidden, **where)


def rms_norm_reference(x: Any, weight: Any) -> Any:
    """x / sqrt(mean(x²) + ε) · w, in float64."""
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight.double()


def _rms_norm_check(x: Any, weight: Any, y: Any) -> Correctness:
    return whole(y, rms_norm_reference(x, weight), "float64 RMS norm of the same inputs", TOLERANCE)


def _rms_norm(torch: Any, case: RmsNorm, library: Any) -> Ready:
    x, weight = _rms_norm_inputs(torch, case)
    out = torch.empty_like(x)

    def call() -> tuple[Any, ...]:
        library.rmsnorm(x, weight, EPSILON, out=out)
        return (out,)

    return Ready(call, lambda made: _rms_norm_check(x, weight, made[0]), NORMAL)


def _torch_rms_norm(torch: Any, case: RmsNorm) -> Ready:
    x, weight = _rms_norm_inputs(torch, case)
    norm = torch.nn.functional.rms_norm
    return Ready(
        lambda: (norm(x, (case.hidden,), weight, EPSILON),),
        lambda made: _rms_norm_check(x, weight, made[0]),
        NORMAL,
    )


def silu_and_mul_reference(x: Any) -> Any:
    """gate · sigmoid(gate) · up in float64; a row of `x` holds gate and up side by side."""
    gate, up = x.double().chunk(2, -1)
    return gate * gate.sigmoid() * up


def _silu_and_mul(torch: Any, case: SiluAndMul, library: Any) -> Ready:
    where = {"dtype": torch.bfloat16, "device": device(torch)}
    x = torch.randn(case.tokens, 2 * case.hidden, **where)
    out = torch.empty(case.tokens, case.hidden, **where)

    def call() -> tuple[Any, ...]:
        library.silu_and_mul(x, out=out)
        return (out,)

    def check(made: tuple[Any, ...]) -> Correctness:
        return whole(
            made[0], silu_and_mul_reference(x), "float64 SiLU and product of the same inputs", TOLERANCE
        )

    return Ready(call, check, NORMAL)


def rope_table(torch: Any, positions: int, head_dim: int, where: str) -> Any:
    """[positions, head_dim] in float32: cosines in the first half of a row, sines in the second.

    Angle of position p and pair i: p · base^(−2i / head_dim) (Su et al., RoFormer, 2021).
    """
    pair = torch.arange(0, head_dim, 2, dtype=torch.float64, device=where)
    angle = torch.arange(positions, dtype=torch.float64, device=where)[:, None] * ROPE_BASE ** (
        -pair / head_dim
    )
    return torch.cat([angle.cos(), angle.sin()], -1).float()


def rope_reference(torch: Any, x: Any, table: Any, positions: Any, head_dim: int) -> Any:
    """`x` [tokens, heads · head_dim] with pairs (i, i + head_dim/2) of each head turned, in float64."""
    heads = x.double().view(x.shape[0], -1, head_dim)
    cosine, sine = table[positions.long()].double()[:, None, :].chunk(2, -1)
    first, second = heads.chunk(2, -1)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
    return turned.view(x.shape)


def _rope(torch: Any, case: Rope, library: Any) -> Ready:
    where = device(torch)
    query, key = (
        torch.randn(case.tokens, heads * case.head_dim, dtype=torch.bfloat16, device=where)
        for heads in (case.q_heads, case.kv_heads)
    )
    length = max(POSITIONS, case.tokens)
    table = rope_table(torch, length, case.head_dim, where)
    positions = torch.randperm(length, device=where)[: case.tokens].int()

    def check(made: tuple[Any, ...]) -> Correctness:
        tally = Tally()
        for got, given in zip(made, (query, key), strict=True):
            tally.count(got)
            tally.compare(got, rope_reference(torch, given, table, positions, case.head_dim))
        return tally.correctness("float64 rotation of the same inputs, NeoX halves", TOLERANCE)

    return Ready(
        lambda: tuple(
            library.apply_rope_with_cos_sin_cache(positions, query, key, case.head_dim, table, is_neox=True)
        ),
        check,
        f"{NORMAL}; positions without repeats",
    )
