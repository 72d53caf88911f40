"""Collection: old environments, compile caches and rotated logs make room when the disk needs it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchapp.runs import work
from workers import environments
from workers.disk import GB, Inventory, Item, Kind
from workers.lease import only_one

logger = logging.getLogger(__name__)

#: Without a budget something is collected only below so much free space, or this part of a small disk.
FLOOR_BYTES, FLOOR_PART = 10 * GB, 0.1
#: What was used more recently stays.
RECENT_S = 3600.0


def too_much(kept: int, total: int, free: int, allowed: int | None) -> int:
    """Bytes to remove: above the budget, or below the floor of free space, whichever is more."""
    floor = min(FLOOR_BYTES, int(total * FLOOR_PART))
    return max(0, floor - free, 0 if allowed is None else kept - allowed)


def choose(items: Iterable[Item], excess: int, now: float) -> list[Item]:
    """What to remove for so many bytes: what is of no use, then what was not used for longest.

    What was used within RECENT_S stays. What others lie on is used with them, and goes after them.
    """
    cheap = (Kind.LOG, Kind.LEFTOVER)
    order = sorted(
        items, key=lambda item: (item.kind not in cheap, item.used_at, item.shared, str(item.path))
    )
    chosen = []
    for item in order:
        if excess > 0 and item.used_at < now - RECENT_S:
            chosen.append(item)
            excess -= item.bytes
    return chosen


def collect(inventory: Inventory, allowed: int | None) -> list[Item]:
    """Make room in a data folder if it must be; returns what was removed. One process at a time does it."""
    home = inventory.home
    with only_one(home / "run" / "collect.lock", wait=False) as mine:
        if not mine:
            return []
        shutil.rmtree(home / "trash", ignore_errors=True)
        items = inventory.items()
        usage = shutil.disk_usage(home)
        excess = too_much(sum(item.bytes for item in items), usage.total, usage.free, allowed)
        removed = [item for item in choose(items, excess, time.time()) if _remove(home, item)]
    if excess:
        _tell(removed, excess)
    return removed


def _remove(home: Path, item: Item) -> bool:
    """Remove it at once, as others see it; False where somebody uses it or it is gone."""
    if item.kind is Kind.ENVIRONMENT:
        return environments.remove(item.path)
    if item.kind is Kind.CACHE and _named_by_a_process(home / "cache"):
        return False
    if item.kind is Kind.LEFTOVER and (lock := environments.build_lock(item.path)).exists():
        with only_one(lock, wait=False) as nobody_builds:
            return nobody_builds and _to_trash(home, item)
    return _to_trash(home, item)


def _to_trash(home: Path, item: Item) -> bool:
    trash = home / "trash"
    try:
        trash.mkdir(exist_ok=True)
        place = trash / str(time.time_ns())
        item.path.rename(place)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
    except OSError as error:
        logger.warning("%s could not be removed: %s", item.path.name, error.strerror)
        return False
    return True


def _named_by_a_process(folder: Path) -> bool:
    """Does a bench work there? It and its compilers are told so on their command lines."""
    sought = os.fsencode(folder)
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if sought in line.read_bytes():
                return True
    return False


def sweep_attempts(home: Path, worker: str) -> int:
    """Remove the folders of attempts that are over; returns how many. Raises Django's errors of an outage."""
    # listed first: what is claimed after the look at Postgres is not among them
    folders = list((home / "work").glob("*-*"))
    running = work.under_way(worker) if folders else set()
    over = [folder for folder in folders if folder.name not in running and not _named_by_a_process(folder)]
    for folder in over:
        shutil.rmtree(folder, ignore_errors=True)
    return len(over)


def _tell(removed: Sequence[Item], excess: int) -> None:
    for item in removed:
        logger.info("removed the %s %s: %s", item.kind.value, item.path.name, _size(item.bytes))
    freed = sum(item.bytes for item in removed)
    logger.info("%s freed in %d places, %s were asked for", _size(freed), len(removed), _size(excess))
    if freed < excess:
        logger.warning(
            "the rest is in use or was used within the hour; more disk or a smaller budget is needed"
        )


def _size(count: int) -> str:
    return f"{count / GB:,.2f} GB"
