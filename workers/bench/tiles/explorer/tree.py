"""Identity of a CUTLASS tree: the same headers in two wheels are the same tree."""

from __future__ import annotations

import hashlib

from workers.bench.tiles.sources import DATA, Sources

INCLUDE = f"{DATA}/cutlass/include"


def digest(sources: Sources) -> str:
    """SHA-256 over paths and contents below cutlass/include, whatever else the wheel holds."""
    root = sources.root / INCLUDE
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(root)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
