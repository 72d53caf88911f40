"""What each timer adds to a kernel, from times of small kernels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.bench.document import GPU_TIMERS


def overheads(kernels: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Seconds by timer that it adds to a kernel: its time of each small kernel, less that by CUPTI.

    The gap between two kernels depends on them a little; taken is the middle between the least and the
    largest. Nothing where the time of a kernel by CUPTI is unknown.
    """
    if not kernels or not all("cupti" in times for times in kernels):
        return {}
    added = {
        name: [times[name] - times["cupti"] for times in kernels if name in times]
        for name in GPU_TIMERS
        if name != "cupti"
    }
    return {name: (min(each) + max(each)) / 2 for name, each in added.items() if each}
