"""Layers with experts: routed experts alone, and a whole layer from router to shared experts.

The routing is drawn by a seed and the same in every set of a case, so that all of them do the same work. Of
`ep` ranks the one that gets most rows is measured, of `tp` ranks the first.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case, Work
from workers.bench.cases.moe import Moe, MoeLayer
from workers.bench.decoder.router import Counts, choice
from workers.bench.document import Correctness
from workers.bench.experts import quantised, reference, registry, routing
from workers.bench.experts.base import Backend, Layer, Weights
from workers.bench.operators import correctness
from workers.bench.operators.base import Operator, Ready, UnsupportedError
from workers.bench.operators.support import Simple, device

#: Largest |difference| over the largest |reference|: rows of bf16 are rounded between the products and once
#: more after them, and partial sums of top_k experts are; an fp8, MXFP8 or nvfp4 row of FC2 is the nearest to
#: sums that differ in their last bits, which may be the next code.
TOLERANCE = {"bf16": 2e-2}
NARROW_TOLERANCE = 6e-2
#: rows whose reference is computed
MAX_ROWS = 128
#: logits of the experts that were drawn, and of the others: far enough apart for any rounding
CHOSEN_FROM, CHOSEN_WIDTH, OTHERS_FROM = 4.0, 2.0, -4.0
_BIAS = 0.1


def operators(torch: Any, case: Case) -> list[Operator]:
    """One for each backend of experts that this Python has."""
    match case:
        case Moe():
            make: Callable[..., Ready] = _experts
        case MoeLayer():
            make = _layer
        case _:
            return []
    return [
        Simple(backend.name, functools.partial(make, backend=backend))
        for backend in registry.backends(torch)
        if backend.name != "torch.loop" or device(torch) == "cpu"
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Set:
    """One draw of what routed experts need."""

    layer: Layer
    weights: Weights
    hidden: Any
    drawn: routing.Drawn
    work: Work


def _experts(torch: Any, case: Moe, *, backend: Backend) -> Ready:
    activation = "swiglu" if case.activation == "gated" else "plain"
    made = _draw(torch, case, activation=activation, bias=False)
    ids = _ids(torch, made.drawn)
    weights = torch.rand(ids.shape, device=device(torch)).softmax(-1)
    experts = backend.make(torch, made.layer, made.weights, case.tokens)

    def check(out: tuple[Any, ...]) -> Correctness:
        def of(rows: Any) -> Any:
            return _reference(torch, made, made.hidden[rows], ids[rows], weights[rows])

        return _compare(torch, made.layer, out[0], of)

    return Ready(lambda: (experts(made.hidden, ids, weights),), check, _inputs(case, made.layer), made.work,
                 made.drawn.histogram)  # fmt: skip


def _layer(torch: Any, case: MoeLayer, *, backend: Backend) -> Ready:
    of, routed, where = case.of, case.routed, device(torch)
    made = _draw(torch, routed, activation=of.activation, bias=of.expert_bias)
    # The rest of such a model's groups would forbid routings that are drawn here.
    counts = Counts(torch, 1, of.experts, where)
    choose = choice(torch, dataclasses.replace(of, groups=1, top_groups=1), counts, where)
    step = torch.ones(1, dtype=torch.int32, device=where)
    ids = _ids(torch, made.drawn)
    router = torch.zeros(of.experts, of.hidden, dtype=torch.bfloat16, device=where)
    router.fill_diagonal_(1.0)
    made.hidden[:, : of.experts] = _logits(torch, case, ids)
    shared = _shared(torch, case)
    first = made.layer.ep_rank * case.own_tokens
    start = min(first, case.tokens - case.own_tokens)
    own = slice(start, start + case.own_tokens)
    experts = backend.make(torch, made.layer, made.weights, case.tokens)
    linear = torch.nn.functional.linear

    def call() -> tuple[Any, ...]:
        chosen, weights = choose(linear(made.hidden, router), 0, step)
        out = experts(made.hidden, chosen, weights)
        if shared is not None:
            up_gate, down = shared
            up, gate = linear(made.hidden[own], up_gate).chunk(2, -1)
            out[own].addmm_(torch.nn.functional.silu(gate) * up, down.t())
        return (out,)

    def check(out: tuple[Any, ...]) -> Correctness:
        logits = made.hidden[:, : of.experts].float().gather(1, ids.long())
        scores = logits.softmax(-1)
        if of.scoring == "sigmoid":
            scores = logits.sigmoid()
            scores = scores / scores.sum(-1, keepdim=True) if of.top_k > 1 else scores
        weights = scores * of.routed_scaling

        def reference_of(rows: Any) -> Any:
            total = _reference(torch, made, made.hidden[rows], ids[rows], weights[rows])
            if shared is not None:
                up_gate, down = (each.float() for each in shared)
                up, gate = linear(made.hidden[rows].float(), up_gate).chunk(2, -1)
                here = (rows >= own.start) & (rows < own.stop)
                total += linear(gate * gate.sigmoid() * up, down) * here[:, None]
            return total

        return _compare(torch, made.layer, out[0], reference_of)

    return Ready(call, check, _inputs(routed, made.layer, of.moe_intermediate), case.with_rest(made.work),
                 made.drawn.histogram)  # fmt: skip


def _draw(torch: Any, case: Moe, *, activation: Any, bias: bool) -> _Set:
    """Products of normal(0, 1) rows stay near normal(0, 1); weights lie on the grid of the case's format."""
    if case.dtype not in quantised.FORMATS:
        raise UnsupportedError(f"No backend of experts here multiplies {case.dtype}.")
    drawn = routing.draw(case.tokens, case.experts, case.topk, case.distribution)
    rank = drawn.busiest(case.ep)
    layer = Layer(
        case.hidden, case.inter // case.tp, case.experts, case.topk, case.dtype, case.tp, case.ep,
        ep_rank=rank, activation=activation, bias=bias,
    )  # fmt: skip

    def normal(*shape: int, size: float) -> Any:
        return torch.randn(shape, dtype=torch.bfloat16, device=device(torch)).mul_(size)

    local, rows = layer.local_experts, layer.inter * (case.products - 1)
    up_gate = normal(local, rows, layer.hidden, size=layer.hidden**-0.5)
    down = normal(local, layer.hidden, layer.inter, size=layer.inter**-0.5)
    weights = Weights(
        quantised.on_grid(torch, up_gate, case.dtype),
        quantised.on_grid(torch, down, case.dtype),
        normal(local, rows, size=_BIAS) if bias else None,
        normal(local, layer.hidden, size=_BIAS) if bias else None,
    )
    hidden = normal(case.tokens, layer.hidden, size=1.0)
    return _Set(layer, weights, hidden, drawn, case.work_of(*drawn.share(rank, case.ep)))


def _ids(torch: Any, drawn: routing.Drawn) -> Any:
    return torch.tensor(drawn.ids, dtype=torch.int32).to(device(torch))


def _logits(torch: Any, case: MoeLayer, ids: Any) -> Any:
    """[tokens, experts] for the first channels of the hidden state, which the router passes on as they are:
    those of the drawn experts above all others."""
    where, shape = device(torch), (case.tokens, case.of.experts)
    others = OTHERS_FROM - torch.rand(shape, device=where)
    chosen = CHOSEN_FROM + CHOSEN_WIDTH * torch.rand(ids.shape, device=where)
    return others.scatter(1, ids.long(), chosen).bfloat16()


def _shared(torch: Any, case: MoeLayer) -> tuple[Any, Any] | None:
    of = case.of
    if not of.shared_experts:
        return None
    width = of.shared_experts * of.expert_width(case.tp)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.bfloat16, device=device(torch)).mul_(shape[-1] ** -0.5)

    return normal(2 * width, of.hidden), normal(of.hidden, width)


def _reference(torch: Any, made: _Set, hidden: Any, ids: Any, weights: Any) -> Any:
    rounded = quantised.rounded(torch, made.layer.dtype)
    return reference.routed_experts(torch, made.layer, made.weights, hidden, ids, weights, rounded)


def _compare(torch: Any, layer: Layer, out: Any, reference_of: Callable[[Any], Any]) -> Correctness:
    """NaN and zeros of all of [T, hidden], and at most MAX_ROWS rows of it against float32."""
    rows = correctness.rows_to_compare(torch, out, MAX_ROWS)
    tally = correctness.Tally()
    tally.count(out)
    tally.compare(out[rows], reference_of(rows))
    share = "" if len(rows) == out.shape[0] else f", over {len(rows)} of {out.shape[0]:,} tokens"
    kept = "" if layer.dtype == "bf16" else ", rows rounded to the format between the products"
    return tally.correctness(
        f"float32 layer of the same inputs{kept}{share}", TOLERANCE.get(layer.dtype, NARROW_TOLERANCE)
    )


def _inputs(case: Moe, layer: Layer, width: int | None = None) -> str:
    """At most 80 characters."""
    said = f"normal; {case.distribution} routing, seed {routing.SEED}"
    if case.ep > 1:
        said += f", rank {layer.ep_rank} of {case.ep}"
    if width is not None and width != case.inter:
        said += f"; width {width / case.tp:g} padded to {layer.inter}"
    return said
