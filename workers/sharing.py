"""Equal files of environments, kept on disk once: as hard links, since no environment changes once built."""

from __future__ import annotations

import filecmp
import importlib.metadata
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

#: Smaller files save too little for what a link costs.
LEAST_BYTES = 64 * 1024


def share(packages: Path, lock: Mapping[str, Any], others: Iterable[tuple[Path, Mapping[str, Any]]]) -> int:
    """Put links in the place of files that another environment has from the same wheel; bytes saved.

    `packages` is the site-packages of an environment that nobody uses yet, `others` are those of finished
    ones with their locks. What differs, cannot be linked or vanishes meanwhile stays as it is.
    """
    wheels = _own(lock)
    files: dict[str, list[importlib.metadata.PackagePath]] = {
        canonicalize_name(each.metadata["Name"]): each.files or []
        for each in importlib.metadata.distributions(path=[str(packages)])
    }
    saved = 0
    for other, other_lock in others:
        for name, sha256 in _own(other_lock).items():
            if wheels.get(name) == sha256:
                del wheels[name]
                inside = (file for file in files.get(name, ()) if ".." not in file.parts)
                saved += sum(_share_file(packages / file, other / file) for file in inside)
    return saved


def _own(lock: Mapping[str, Any]) -> dict[str, str]:
    """Packages of an environment's own layer → SHA-256 of their wheels, of those that are known."""
    return {
        each["name"]: each["sha256"]
        for each in lock["packages"]
        if each["layer"] == "own" and "sha256" in each
    }


def _share_file(mine: Path, other: Path) -> int:
    try:
        status, theirs = mine.lstat(), other.lstat()
        if (
            status.st_size < LEAST_BYTES
            or status.st_ino == theirs.st_ino
            or mine.is_symlink()
            or not filecmp.cmp(mine, other, shallow=False)
        ):
            return 0
        aside = mine.with_name(mine.name + ".link")
        os.link(other, aside)
        aside.replace(mine)
    except OSError:  # gone, on another disk, or linked as often as the file system allows
        return 0
    return status.st_blocks * 512
