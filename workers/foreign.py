"""Other people's processes on a GPU that is to be measured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from workers import gpus
from workers.failure import Failure

logger = logging.getLogger(__name__)

WAIT_S = 60.0
ASK_TIMEOUT_S = 30.0
PAUSE_S = 2.0
NAMED = 3

_neighbours = gpus.Neighbours()


def wait_for_quiet(gpus: tuple[str, ...], params: dict[str, Any], say: Callable[[str], None]) -> None:
    """Wait until nobody else is on the GPUs, for params["foreign_wait_s"] at most.

    Then params["foreign"] decides: "refuse" raises Failure, "flag" goes on, and the bench flags what it
    measures. `say` hears a sentence while this waits; whatever it raises ends the wait.
    """
    patience = float(params.get("foreign_wait_s", WAIT_S))
    deadline = time.monotonic() + patience
    while others := [(gpu, found) for gpu in gpus if (found := processes(gpu))]:
        words = "; ".join(f"GPU {gpu} is in use by {_named(found)}" for gpu, found in others)
        if time.monotonic() >= deadline:
            if params.get("foreign", "refuse") == "flag":
                return
            raise Failure(
                "gpu_busy", f"{words}. It was waited for {patience:g} s, and nothing is measured beside it."
            )
        say(f"waiting: {words}")
        time.sleep(min(PAUSE_S, max(0.0, deadline - time.monotonic())))


def processes(gpu: str) -> list[dict[str, Any]]:
    """What runs on a GPU: pid and name. Empty where nobody can tell.

    Asked in a process that lives as long as this one: the driver's library must never be loaded into a
    worker, and a new start for each run took longer than all else before its child.
    """
    try:
        return [
            {"pid": int(found["pid"]), "name": str(found["name"])}
            for found in _neighbours.of(gpu, ASK_TIMEOUT_S)
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("GPU %s: it is not known who else uses it (%s)", gpu, str(error)[:300])
        return []


def _named(found: list[dict[str, Any]]) -> str:
    first = ", ".join(f"{process['name'][:60]} (pid {process['pid']})" for process in found[:NAMED])
    return first + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
