"""Attention in float64, of some sequences and rows of a case: all of a large one would take minutes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from workers.bench.document import Correctness
from workers.bench.operators.correctness import Tally

SEQUENCES, ROWS = 8, 64
#: bf16 rounds probabilities and output by 2^-9 each; the rest is for other orders of summation
TOLERANCE = 3e-2


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One sequence: queries [rows, q_heads, dim], keys and values [context, kv_heads, dim]."""

    query: Any
    keys: Any
    values: Any


def drawn(torch: Any, count: int, most: int) -> list[int]:
    """At most `most` of 0 … count − 1, ascending: the first, the last, and others drawn anew each time."""
    if count <= most:
        return list(range(count))
    between = torch.randperm(count - 2)[: most - 2] + 1
    return sorted([0, *between.tolist(), count - 1])


def rows_of(rows: int, batch: int, index: int) -> slice:
    """The rows of sequence `index` where `batch` sequences have the same number of them."""
    each = rows // batch
    return slice(index * each, (index + 1) * each)


def attend(torch: Any, sample: Sample, rows: list[int], causal: bool) -> Any:
    """softmax(q · kᵀ / √dim) · v for `rows` of the queries: [rows, q_heads, dim] in float64.

    Causal: a row sees itself and the rows before it. Heads of the queries share those of the cache in order.
    """
    query, keys, values = (each.double() for each in (sample.query[rows], sample.keys, sample.values))
    group = query.shape[1] // keys.shape[1]
    grouped = query.unflatten(1, (keys.shape[1], group))
    scores = torch.einsum("rhgd,chd->rhgc", grouped, keys) / math.sqrt(query.shape[-1])
    if causal:
        at = torch.tensor(rows, device=query.device)[:, None]
        later = torch.arange(keys.shape[0], device=query.device)[None] > at
        scores = scores.masked_fill(later[:, None, None], -math.inf)
    return torch.einsum("rhgc,chd->rhgd", scores.softmax(-1), values).flatten(1, 2)


def check(torch: Any, case: Any, out: Any, sequence: Callable[[int], Sample], causal: bool) -> Correctness:
    """Figures of `out` [rows of all sequences, q_heads, dim].

    Each row of a head counts the same, as a share of its largest magnitude: later rows of a causal head
    average over more values and are smaller.
    """
    tally = Tally()
    tally.count(out)
    sequences = drawn(torch, case.batch, SEQUENCES)
    each = out.shape[0] // case.batch
    rows = drawn(torch, each, ROWS)
    for index in sequences:
        reference = attend(torch, sequence(index), rows, causal)
        largest = reference.abs().amax(-1, keepdim=True).clamp_min(1e-30)
        got = out[rows_of(out.shape[0], case.batch, index)][rows].double()
        tally.compare(got / largest, reference / largest)
    words = "float64 attention of the same inputs"
    if len(sequences) < case.batch or len(rows) < each:
        words += f", on {len(sequences)} of {case.batch} sequences and {len(rows)} of {each} rows"
    return tally.correctness(words, TOLERANCE)
