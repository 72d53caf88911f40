"""Processes as the kernel tells of them, for tests that kill some and count the rest."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path


def _parents() -> dict[int, int]:
    """Parent of every living process; zombies are left out."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != "Z":
                found[int(folder.name)] = int(parent)
    return found


def descendants(process: int) -> set[int]:
    """Every living process below `process`."""
    parents = _parents()
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def alive(processes: set[int]) -> set[int]:
    return processes & _parents().keys()


def children(process: int) -> set[int]:
    return {child for child, parent in _parents().items() if parent == process}


def command_lines(processes: set[int]) -> str:
    """All arguments of all processes; those that ended meanwhile have none."""
    found = []
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(Path(f"/proc/{process}/cmdline").read_text())
    return " ".join(found)


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Did `condition` come true within so many seconds?"""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
