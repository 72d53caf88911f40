"""Wheels that are no release: fetched from Tilewatch once, kept by their digest, checked at each use."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from benchapp.fleet import work as fleet_work
from workers.failure import Failure

DIGEST = re.compile(r"[0-9a-f]{64}")


def fetch(folder: Path, worker: str, sha256: str) -> Path:
    """The candidate's wheel in `folder`. Raises Failure where there is none, or another one."""
    if not DIGEST.fullmatch(sha256):
        raise Failure(
            "candidate", "params.candidate: expected the SHA-256 of a wheel, 64 hexadecimal digits."
        )
    path = folder / f"{sha256}.whl"
    if path.exists() and _digest(path.read_bytes()) == sha256:
        return path
    body = fleet_work.candidate(worker, sha256)
    if body is None:
        raise Failure("candidate", f"No candidate is registered under {sha256[:12]}…; register it again.")
    if _digest(body) != sha256:
        raise Failure(
            "candidate", f"The wheel kept as candidate {sha256[:12]}… is another one: its digest differs."
        )
    folder.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_bytes(body)
    aside.replace(path)
    return path


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
