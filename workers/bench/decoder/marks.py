"""Which part of a step launched a kernel: ranges for torch's profiler, and nothing while nobody traces."""

from __future__ import annotations

import contextlib

from workers.bench.document import Part

#: what every range's name begins with
PREFIX = "tilewatch:"
_tracing = False


def trace(on: bool) -> None:
    """From here on parts are marked, or not. A range costs host time, so a timed window has none."""
    global _tracing
    _tracing = on


def part(name: Part) -> contextlib.AbstractContextManager[object]:
    """Around the launches of one part."""
    if not _tracing:
        return contextlib.nullcontext()
    from torch.profiler import record_function

    marked: contextlib.AbstractContextManager[object] = record_function(PREFIX + name)
    return marked
