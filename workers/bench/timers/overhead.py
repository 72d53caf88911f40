"""The timers by name, and what they add to a kernel, from the launch floors. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from workers.bench.document import Timer

#: in which timers are tried: what each adds to a kernel grows
ORDER: tuple[Timer, ...] = ("cupti", "cuda_graph", "cuda_events")


def overheads(floors: Mapping[str, float]) -> dict[str, float]:
    """Seconds by timer: an empty kernel's time by it, less that by CUPTI; nothing where that is unknown."""
    if "cupti" not in floors:
        return {}
    return {name: floor - floors["cupti"] for name, floor in floors.items() if name != "cupti"}
