"""Which experts each token goes to, drawn by a seed. Standard library only: the same everywhere."""

from __future__ import annotations

import dataclasses
import functools
import math
import random

from workers.bench.cases.moe import exponent_of

#: every case of one distribution and size is routed alike, whatever the backend, the machine or the day
SEED = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """`ids` holds top_k different experts for each token, `histogram` the rows that each expert gets."""

    ids: tuple[tuple[int, ...], ...]
    histogram: tuple[int, ...]

    def busiest(self, ranks: int) -> int:
        """The rank that gets most rows, of `ranks` that hold equally many experts each in turn."""
        return max(range(ranks), key=lambda rank: (sum(self.histogram[self._of(rank, ranks)]), -rank))

    def share(self, rank: int, ranks: int) -> tuple[int, int, int]:
        """Of one rank: pairs of token and expert, distinct experts hit, distinct tokens."""
        own = self._of(rank, ranks)
        rows = self.histogram[own]
        tokens = sum(any(own.start <= expert < own.stop for expert in chosen) for chosen in self.ids)
        return sum(rows), sum(map(bool, rows)), tokens

    def _of(self, rank: int, ranks: int) -> slice:
        each = len(self.histogram) // ranks
        return slice(rank * each, (rank + 1) * each)


@functools.lru_cache(maxsize=4)
def draw(tokens: int, experts: int, top_k: int, distribution: str, seed: int = SEED) -> Drawn:
    """`top_k` ≤ `experts` for each of `tokens` tokens.

    uniform: any, equally likely and independent of other tokens. balanced: as many rows for each expert as
    for any other, up to one. power_law_x: loads as aiconfigurator draws them, see `_power_law`. worst: every
    token to the same experts, all of one rank.
    """
    chance = random.Random(f"{seed} {distribution} {tokens} {experts} {top_k}")
    if distribution == "worst":
        ids = [tuple(range(top_k))] * tokens
    elif distribution == "uniform":
        ids = [tuple(chance.sample(range(experts), top_k)) for _ in range(tokens)]
    else:
        exponent = exponent_of(distribution)
        if exponent is not None:
            counts = _power_law(chance, tokens, experts, top_k, exponent)
        else:
            counts = _spread(chance, tokens * top_k, experts)
        ids = _dealt(chance, counts, tokens)
    histogram = [0] * experts
    for chosen in ids:
        for expert in chosen:
            histogram[expert] += 1
    return Drawn(tuple(ids), tuple(histogram))


def _spread(chance: random.Random, pairs: int, experts: int) -> list[int]:
    counts = [pairs // experts] * experts
    for expert in chance.sample(range(experts), pairs % experts):
        counts[expert] += 1
    return counts


def _power_law(chance: random.Random, tokens: int, experts: int, top_k: int, exponent: float) -> list[int]:
    """Rows of each expert. Loads come from a density ∝ load^−exponent on [1, 0.8 · tokens] where there are
    more pairs than experts, else on [0.01, 2], are scaled to all pairs and rounded (`power_law_logits_v3` in
    aiconfigurator's collector/helper.py). What rounding leaves over or lacks the largest take or give."""
    pairs = tokens * top_k
    low, high = (1.0, 0.8 * tokens) if pairs > experts else (0.01, 2.0)
    power = 1 - exponent
    loads = [
        (low**power + chance.random() * (high**power - low**power)) ** (1 / power) for _ in range(experts)
    ]
    scale = pairs / sum(loads)
    counts = [min(tokens, math.floor(load * scale + 0.5)) for load in loads]
    order = sorted(range(experts), key=lambda expert: -loads[expert])
    missing = pairs - sum(counts)
    while missing:
        step = 1 if missing > 0 else -1
        for expert in order:
            if missing and 0 <= counts[expert] + step <= tokens:
                counts[expert] += step
                missing -= step
    return counts


def _dealt(chance: random.Random, counts: list[int], tokens: int) -> list[tuple[int, ...]]:
    """Rows of each expert dealt to the tokens in turn: no expert has more rows than there are tokens, so no
    token gets one twice."""
    pairs = [expert for expert, count in enumerate(counts) for _ in range(count)]
    ids = [tuple(pairs[token::tokens]) for token in range(tokens)]
    chance.shuffle(ids)
    return ids
