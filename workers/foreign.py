"""Other people's processes on a GPU that is to be measured."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from workers.commands import REPOSITORY
from workers.failure import Failure

logger = logging.getLogger(__name__)

WAIT_S = 60.0
ASK_TIMEOUT_S = 30.0
PAUSE_S = 2.0
NAMED = 3


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
    """What runs on a GPU: pid, name, memory_bytes. Empty where nobody can tell.

    Asked in a process of its own: the driver's library must never be loaded into a worker.
    """
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "workers.gpus", "processes", gpu],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
            check=True,
        )
        return [{"pid": int(found["pid"]), "name": str(found["name"])} for found in json.loads(answer.stdout)]
    except (subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        told = getattr(error, "stderr", None) or str(error).encode()
        why = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
        logger.warning("GPU %s: it is not known who else uses it (%s)", gpu, why[:300])
        return []


def _named(found: list[dict[str, Any]]) -> str:
    first = ", ".join(f"{process['name'][:60]} (pid {process['pid']})" for process in found[:NAMED])
    return first + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
