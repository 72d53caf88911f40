"""How far a job has come, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

#: In the order in which they are told; what has ended comes last.
_WORDS = ("running", "delivered", "queued", "done", "failed", "cancelled")
_ACTIVE = ("running", "delivered", "queued")


def in_words(states: Mapping[str, int]) -> str:
    """Of runs by state: "queued", "running", "done", "running, 2 of 5 done", "3 done, 1 failed"."""
    counted = {word: states.get(word, 0) for word in _WORDS if states.get(word)}
    total = sum(counted.values())
    if not counted:
        return "no runs"
    if len(counted) == 1:
        (word,) = counted
        return word if total == 1 or word in _ACTIVE else f"all {total} {word}"
    first = next(iter(counted))
    if first in _ACTIVE:
        ended = [f"{number} of {total} {word}" for word, number in counted.items() if word not in _ACTIVE]
        return ", ".join(["running" if ended or first != "queued" else first, *ended])
    return ", ".join(f"{number} {word}" for word, number in counted.items())


def look(states: Mapping[str, int]) -> str:
    """The class of its tag: running while a run is under way, failed where one failed, done, or plain."""
    if any(states.get(word) for word in _ACTIVE):
        return "running"
    return "failed" if states.get("failed") else "done" if states.get("done") else ""
