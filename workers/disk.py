"""What this installation keeps on disk, and how much of it."""

from __future__ import annotations

import dataclasses
import enum
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from workers import environments

GB = 1_000_000_000


class Kind(enum.Enum):
    ENVIRONMENT = "environment"
    CACHE = "cache"
    LOG = "rotated log"
    LEFTOVER = "leftover of a build"


#: of the cache: nothing of value, or too small to matter
_NO_UNITS = frozenset({"locks", "scratch", "versions"})


def budget() -> int | None:
    """Bytes that this installation may keep: TILEWATCH_DISK_BUDGET_GB. Raises ValueError with a sentence."""
    text = os.environ.get("TILEWATCH_DISK_BUDGET_GB", "").strip()
    if not text:
        return None
    try:
        wanted = float(text)
    except ValueError:
        wanted = 0.0
    if not 1 <= wanted <= 1_000_000:
        raise ValueError(
            f"TILEWATCH_DISK_BUDGET_GB: expected a number of GB from 1 to 1,000,000, got {text!r:.40}"
        )
    return int(wanted * GB)


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Something that can be made again, or be done without. `used_at` is in seconds since 1970."""

    path: Path
    kind: Kind
    bytes: int
    used_at: float
    #: other environments lie on it: it goes after them
    shared: bool = False


@dataclasses.dataclass(slots=True)
class Inventory:
    """Looks at a data folder. An environment never changes once built, so all are measured anew only when one
    came or went: they share files."""

    home: Path
    _environments: dict[tuple[str, int], int] = dataclasses.field(default_factory=dict)

    def items(self) -> list[Item]:
        """All that could be collected, in no order. What vanishes meanwhile is left out."""
        return [*self.environments(), *self._leftovers(), *self._cache(), *self._rotated_logs()]

    def environments(self) -> list[Item]:
        """The environments that are built. What several share lies in one of them, their base, and is counted
        there; a base was used when the last of those that lie on it was."""
        found: list[Item] = []
        lying: dict[Path, float] = {}
        built = {
            (folder.name, status.st_ino): (folder, status)
            for folder, status in _entries(self.home / "envs")
            if environments.NAME.fullmatch(folder.name)
        }
        if built.keys() != self._environments.keys():
            self._environments = {key: measure(folder)[0] for key, (folder, _) in built.items()}
        for key, (folder, status) in built.items():
            item = Item(folder, Kind.ENVIRONMENT, self._environments[key], _used(folder, status))
            found.append(item)
            if base := environments.base_of(folder):
                lying[base] = max(lying.get(base, 0.0), item.used_at)
        return [
            dataclasses.replace(item, used_at=max(item.used_at, lying[item.path]), shared=True)
            if item.path in lying
            else item
            for item in found
        ]

    def _leftovers(self) -> Iterator[Item]:
        """What interrupted builds and removals left beside the environments."""
        for folder, status in _entries(self.home / "envs"):
            if not environments.NAME.fullmatch(folder.name):
                size, used_at = measure(folder)
                yield Item(folder, Kind.LEFTOVER, size, max(used_at, status.st_mtime))

    def _cache(self) -> Iterator[Item]:
        for kind, _ in _entries(self.home / "cache"):
            for unit, status in _entries(kind) if kind.name not in _NO_UNITS else ():
                size, used_at = measure(unit)
                yield Item(unit, Kind.CACHE, size, max(used_at, status.st_mtime))

    def _rotated_logs(self) -> Iterator[Item]:
        for log, status in _entries(self.home / "log"):
            if log.suffix == ".1":
                yield Item(log, Kind.LOG, status.st_blocks * 512, status.st_mtime)

    def sizes(self) -> dict[str, int]:
        """{total_bytes, free_bytes} of the disk; bytes of environments, cache and logs; documents spooled."""
        usage = shutil.disk_usage(self.home)
        return {
            "total_bytes": usage.total,
            "free_bytes": usage.free,
            "envs_bytes": sum(item.bytes for item in (*self.environments(), *self._leftovers())),
            "cache_bytes": measure(self.home / "cache")[0],
            "log_bytes": measure(self.home / "log")[0],
            "spool_files": sum(1 for path, _ in _entries(self.home / "spool") if path.suffix == ".json"),
        }


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield Path(entry.path), entry.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return


def measure(path: Path) -> tuple[int, float]:
    """Bytes on disk of a file or a folder and all in it, and when a file in it was last read or written.

    A file with several names counts in equal parts under each. The kernel notes reading once a day or so,
    which is good enough for what is kept for weeks.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0, 0.0
    if not path.is_dir() or path.is_symlink():
        return status.st_blocks * 512, max(status.st_atime, status.st_mtime)
    size, used_at = 0, 0.0
    for _, _, names, folder in os.fwalk(path):
        for name in names:
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            size += status.st_blocks * 512 // max(1, status.st_nlink)
            used_at = max(used_at, status.st_atime, status.st_mtime)
    return size, used_at


def _used(environment: Path, status: os.stat_result) -> float:
    """When a run last used an environment, or it was built."""
    try:
        return (environment / environments.USED).stat().st_mtime
    except OSError:
        return status.st_mtime
