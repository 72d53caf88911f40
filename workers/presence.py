"""GPUs of this installation that cannot be worked on now: the chores worker tells, the GPUs' workers heed.

Without it the worker of a GPU that has fallen off would take one run after the other, and fail each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

#: What was told longer ago is not believed: whoever tells may have died.
STALE_S = 180.0


def _place(home: Path) -> Path:
    return home / "run" / "unusable.json"


def tell(home: Path, unusable: Mapping[str, str]) -> None:
    """From now on these GPUs, by UUID, take no runs, for the reason given. Raises OSError."""
    draft = _place(home).with_suffix(".new")
    draft.write_text(json.dumps(dict(unusable)))
    draft.replace(_place(home))


def why_not(home: Path, uuid: str) -> str:
    """Why a GPU takes no runs now; "" where nothing speaks against it."""
    try:
        if time.time() - _place(home).stat().st_mtime > STALE_S:
            return ""
        return str(dict(json.loads(_place(home).read_bytes())).get(uuid, ""))
    except (OSError, ValueError):
        return ""
