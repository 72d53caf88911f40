"""Processes as the kernel tells of them, for tests that kill some and count the rest."""

import os
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


def command_lines(processes: set[int]) -> str:
    return " ".join(Path(f"/proc/{process}/cmdline").read_text() for process in processes)


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Did `condition` come true within so many seconds?"""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def open_folder(path: Path) -> Path:
    """Make `path`, a folder of any user's own: pytest's own folders keep other users out."""
    path.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    return path
