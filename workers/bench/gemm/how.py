"""What a child is told beside its cases."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from workers.bench.document import Timer
from workers.bench.gemm.sets import L2

#: the one that a CPU is measured by
CPU_BACKEND = "torch.mm"


@dataclasses.dataclass(frozen=True, slots=True)
class How:
    """`seconds` caps the sampling of one case by one backend, `backends` restricts them, None takes all.

    `timer` None: CUPTI, else a graph, else events. `overheads` are seconds that a timer adds to a kernel
    (`workers.bench.timers.calibrate`).
    """

    device: Literal["cpu", "cuda"]
    seconds: float
    threads: int | None = None
    backends: tuple[str, ...] | None = None
    timer: Timer | None = None
    l2: L2 = "auto"
    overheads: dict[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, told: dict[str, Any]) -> How:
        """From the JSON of its dataclass."""
        backends = told["backends"]
        return cls(**{**told, "backends": None if backends is None else tuple(backends)})

    def takes(self, backend: str) -> bool:
        return self.backends is None or backend in self.backends

    @property
    def expected(self) -> tuple[str | None, ...]:
        """Backends of a case that no child came to."""
        return self.backends or (CPU_BACKEND if self.device == "cpu" else None,)
