"""What lies in a FlashInfer cache directory. Links are never followed, and the walk is bounded.

Layouts, from `flashinfer/jit/env.py`, `fused_moe.py` and `cpp_ext.py`, where SPACE is
<cache>/<version>/<arch> (before 0.2.14 without <version>):
  SPACE/generated/cutlass_instantiations/<sm>/{gemm,gemm_grouped}/<sm>/*.generated.cu      from 0.6 on
  <package>/data/csrc/nv_internal/tensorrt_llm/cutlass_instantiations/<sm>/…               to 0.5.3
  SPACE/cached_ops/<module>/*.cuda.o, SPACE/cached_ops/.ninja_log                          all
Objects are named after their source, in 0.7.4 with its folder's name before it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import stat
from pathlib import Path

from benchapp.ingest.importers.base import ImportFault, named, printable

#: Entries looked at; a cache with everything built holds a few thousand.
MOST_ENTRIES = 200_000
DEEPEST = 14
UNIT = re.compile(r"cutlass_kernel_file_(?:gemm|gemm_grouped)_sm(\d{2,3})_[A-Za-z0-9_]{1,80}\.generated")
_ARCHES = re.compile(r"\d{2,3}[af]?(?:_\d{2,3}[af]?)*")
_VERSION = re.compile(r"\d+\.\d+[0-9A-Za-z.+]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """The folder <version>/<arch> that holds `generated` and `cached_ops`, as far as the path names it."""

    version: str | None
    arches: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Tree:
    #: path below the root → unit name
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    #: path below the root → (unit name, bytes)
    objects: dict[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    ninja_logs: list[str] = dataclasses.field(default_factory=list)
    workspaces: set[Workspace] = dataclasses.field(default_factory=set)
    links: int = 0
    unreadable: list[str] = dataclasses.field(default_factory=list)


def walk(root: Path) -> Tree:
    """Everything below `root` that the importer knows by name. Raises ImportFault."""
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
        absolute = Path(os.path.abspath(root))  # noqa: PTH100 -- resolve() would follow links
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ImportFault(reason or "this is no path") from None
    if not is_folder:
        raise ImportFault("expected a directory, a FlashInfer cache; found a file")
    tree, entries, waiting = Tree(), 0, [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(absolute / folder) as scan:
                # sorted, so that the same tree always reads the same
                found = sorted(itertools.islice(scan, MOST_ENTRIES + 1), key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise ImportFault(error.strerror or "cannot be read") from None
            tree.unreadable.append(folder)
            continue
        entries += len(found)
        if entries > MOST_ENTRIES:
            raise ImportFault(f"holds more than {MOST_ENTRIES:,} files, which is no FlashInfer cache")
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink():
                tree.links += 1
            elif entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    waiting.append((path, depth + 1))
                else:
                    tree.unreadable.append(path)
            else:
                _take(absolute, path, entry, tree)
    return tree


def _take(root: Path, path: str, entry: os.DirEntry[str], tree: Tree) -> None:
    unit = UNIT.search(entry.name)
    if entry.name != ".ninja_log" and unit is None:
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        tree.unreadable.append(path)
        return
    if not stat.S_ISREG(status.st_mode):
        return
    if unit is None:
        tree.ninja_logs.append(path)
    elif entry.name == f"{unit[0]}.cu":
        tree.sources[path] = unit[0]
    elif entry.name.endswith(f"{unit[0]}.cuda.o"):
        tree.objects[path] = (unit[0], status.st_size)
    else:
        return
    workspace = _workspace((*root.parts, *path.split("/")))
    if workspace is not None:
        tree.workspaces.add(workspace)


def _workspace(parts: tuple[str, ...]) -> Workspace | None:
    """The innermost …/<version>/<arch>/(generated|cached_ops)/… of a path."""
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] in ("generated", "cached_ops") and _ARCHES.fullmatch(parts[at - 1]):
            version = parts[at - 2] if at > 1 and _VERSION.fullmatch(parts[at - 2]) else None
            return Workspace(version, tuple(f"sm{arch.rstrip('af')}" for arch in parts[at - 1].split("_")))
    return None


def only_workspace(tree: Tree) -> Workspace:
    """The one workspace of a tree. Raises ImportFault where there are several."""
    if len(tree.workspaces) > 1:
        said = sorted(
            f"{space.version or 'no version'}/{'_'.join(space.arches)}" for space in tree.workspaces
        )
        raise ImportFault(
            f"holds several caches ({named([printable(item, 60) for item in said])}):"
            " name one <version>/<arch>"
        )
    return next(iter(tree.workspaces), Workspace(None, ()))
