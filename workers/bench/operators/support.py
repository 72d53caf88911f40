"""What operators share: where they run, how their inputs are drawn, and their first call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.operators import no_jit
from workers.bench.operators.asking import in_its_words
from workers.bench.operators.base import Ready

#: how inputs are drawn, where nothing else is said
NORMAL = "normal(0, 1), fresh"


@dataclasses.dataclass(slots=True)
class Simple:
    """An operator whose sets need nothing of one another."""

    backend: str
    make: Callable[[Any, Any], Ready]

    def ready(self, torch: Any, case: Case) -> Ready:
        with in_its_words():
            return called(torch, self.make(torch, case))


def device(torch: Any) -> str:
    """Where sets are made: the current GPU, or the CPU of a machine without one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def flashinfer(torch: Any) -> Any | None:
    """FlashInfer, where it is installed and has a GPU to run on; it compiles nothing from then on."""
    return no_jit.flashinfer(torch)


def called(torch: Any, made: Ready) -> Ready:
    """`made`, once its call has run: a library refuses in its first call, and loads itself there."""
    made.call()
    if device(torch) == "cuda":
        torch.cuda.synchronize()
    return made
