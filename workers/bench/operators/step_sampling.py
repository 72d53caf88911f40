"""Top-k and top-p sampling, and whether a sampled token was one that could be."""

from __future__ import annotations

import functools
from typing import Any

from workers.bench.cases.step import Sampling
from workers.bench.document import Correctness
from workers.bench.operators.asking import takes
from workers.bench.operators.base import Operator, Ready
from workers.bench.operators.support import Simple, device

TOP_K, TOP_P = 50, 0.9
#: rows of logits as peaked as this keep top-p from choosing the same set as top-k
SPREAD = 3.0
INPUTS = f"softmax of normal(0, {SPREAD:g}²) logits, fresh; top-k {TOP_K}, top-p {TOP_P}"
#: how far a sum of float32 probabilities may move the edge of the top-p set
MASS_SLACK = 1e-3
ROWS_AT_ONCE = 256
#: top-p over what top-k left, or both over the whole row
ORDERS = ("top_k_first", "joint")


class _Seed:
    """Stands where a library takes a generator and reads seed and offset from its state.

    torch's own generator of a GPU cannot be read while a graph is captured.
    """

    def __init__(self, torch: Any, seed: int) -> None:
        self._state = torch.tensor([seed, 0], dtype=torch.int64).view(torch.uint8)

    def get_state(self) -> Any:
        return self._state.clone()

    def set_state(self, state: Any) -> None:
        self._state = state


def operators(library: Any | None) -> list[Operator]:
    """Both orders of top_k_top_p_sampling_from_probs, deterministic."""
    if not hasattr(library, "top_k_top_p_sampling_from_probs"):
        return []
    return [
        Simple(
            f"flashinfer.top_k_top_p_sampling_from_probs.{order}",
            functools.partial(_ready, library=library, order=order),
        )
        for order in ORDERS
    ]


def _ready(torch: Any, case: Sampling, *, library: Any, order: str) -> Ready:
    logits = torch.randn(case.batch, case.vocab, device=device(torch)).mul_(SPREAD)
    probabilities = logits.softmax(-1)
    del logits
    sample = library.top_k_top_p_sampling_from_probs
    seed = int(torch.randint(2**31, ()))
    random: dict[str, Any] = {"seed": seed, "offset": 0}
    if not takes(sample, "seed"):  # 0.5.3
        random = {"generator": _Seed(torch, seed)}

    def call() -> tuple[Any, ...]:
        return (sample(probabilities, TOP_K, TOP_P, filter_apply_order=order, deterministic=True, **random),)

    return Ready(call, lambda made: check(torch, probabilities, made[0], order), INPUTS)


def check(torch: Any, probabilities: Any, tokens: Any, order: str) -> Correctness:
    """Cosine is the share of rows whose token is in range and in the row's top-k and top-p set, and the
    largest error the share of the others: not one may be outside. How often each is drawn is not looked at.
    """
    rows = probabilities.shape[0]
    right = 0
    for start in range(0, rows, ROWS_AT_ONCE):
        part = probabilities[start : start + ROWS_AT_ONCE]
        right += int(allowed(torch, part, tokens[start : start + ROWS_AT_ONCE], order).sum())
    return Correctness(
        reference=(
            f"share of rows whose token is in the top-{TOP_K} and top-{TOP_P} set computed in float64"
            f" ({order}); the error is the share of the others; zeros are not counted"
        ),
        cosine=right / rows,
        max_relative_error=(rows - right) / rows,
        nan_count=0,
        zero_count=0,
        elements=rows,
        tolerance=0.0,
    )


def allowed(torch: Any, probabilities: Any, tokens: Any, order: str) -> Any:
    """[rows] whether `tokens` are in range, among the `TOP_K` likeliest, with less than `TOP_P` above them.

    Of equally likely tokens each counts as the likeliest.
    """
    tokens = tokens.long()
    vocab = probabilities.shape[-1]
    in_range = (tokens >= 0) & (tokens < vocab)
    chosen = probabilities.gather(1, tokens.clamp(0, vocab - 1)[:, None])
    above = probabilities > chosen
    mass = probabilities.double().where(above, 0.0).sum(-1)
    if order == "top_k_first":
        mass = mass / probabilities.topk(min(TOP_K, vocab), -1).values.double().sum(-1)
    return in_range & (above.sum(-1) < TOP_K) & (mass < TOP_P + MASS_SLACK)
