"""Bandwidths of collectives, as nccl-tests defines them. Pure."""

from __future__ import annotations

#: Share of a message that crosses each GPU's link, as a factor of (n − 1) / n.
_CROSSINGS = {"all_reduce": 2, "all_to_all": 1}


def algorithm_bandwidth(message_bytes: float, seconds: float) -> float:
    """Bytes a second: one GPU's message over the time, `algbw` of nccl-tests (doc/PERFORMANCE.md). Of an
    all-to-all the message is all that a GPU sends, its own share among it (src/alltoall.cu).

    `seconds` must be above 0.
    """
    return message_bytes / seconds


def bus_factor(kind: str, ranks: int) -> float:
    """What `busbw` of nccl-tests multiplies `algbw` by: 2 (n − 1) / n of an all-reduce, (n − 1) / n of an
    all-to-all (doc/PERFORMANCE.md, src/alltoall.cu). KeyError of another kind."""
    return _CROSSINGS[kind] * (ranks - 1) / ranks


def bus_bandwidth(kind: str, message_bytes: float, ranks: int, seconds: float) -> float:
    """Bytes a second that cross the link of each GPU one way: comparable with the link's own bandwidth,
    however many GPUs there are. `seconds` must be above 0."""
    return algorithm_bandwidth(message_bytes, seconds) * bus_factor(kind, ranks)
