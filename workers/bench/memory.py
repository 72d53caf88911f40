"""How much memory this machine has left."""

from __future__ import annotations

import re
from pathlib import Path


def available_bytes() -> int | None:
    """Memory that can be taken without swapping; None where /proc does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
