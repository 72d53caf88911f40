"""The contract between what computes a case and what times it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from workers.bench.cases.base import Case, Work
from workers.bench.document import Correctness


class UnsupportedError(Exception):
    """The library does not offer this case on this device; the message is its own words."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """One set of inputs of a case, drawn anew, and the call over it.

    `call` launches the whole case on the current stream, waits for nothing, and returns the tensors that it
    wrote, whether they were handed to it or made by it. It can be captured in a CUDA graph. `check` compares
    tensors that a call returned with a reference in higher precision, of the same (quantised) inputs.
    `inputs` says how they were drawn. Where they decide how much work there is, `work` is what this set asks
    for, in place of the case's own, and `routing` the rows that each expert gets.
    """

    call: Callable[[], tuple[Any, ...]]
    check: Callable[[tuple[Any, ...]], Correctness]
    inputs: str
    work: Work | None = None
    routing: tuple[int, ...] = ()


class Operator(Protocol):
    """One backend for the kinds of case it knows."""

    @property
    def backend(self) -> str:
        """Part of what makes a series: "torch.mm", "flashinfer.mm_fp4.cutlass"."""

    def ready(self, torch: Any, case: Case) -> Ready:
        """One set on the current device. Raises UnsupportedError, or whatever the library raises."""


def passes(found: Correctness, cosine_at_least: float = 0.999) -> bool:
    """NaN and all zeros never pass; otherwise cosine and largest error decide."""
    return (
        found.nan_count == 0
        and found.zero_count < found.elements
        and found.cosine >= cosine_at_least
        and found.max_relative_error <= found.tolerance
    )
