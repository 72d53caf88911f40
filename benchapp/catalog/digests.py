"""Identities by content: equal mappings get equal digests, whatever the order of their keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from workers.bench.cases.base import shape_of
from workers.bench.cases.parse import KINDS


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the mapping as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def case_digest(kind: str, params: Mapping[str, Any]) -> str:
    return digest({"kind": kind, "params": dict(params)})


def case_label(kind: str, params: Mapping[str, Any]) -> str:
    """Short name for people: gemm bf16 16 × 4096 × 6144."""
    rest = dict(params)
    dims = [str(rest.pop(axis)) for axis in ("m", "n", "k") if axis in rest]
    words = [kind, *(str(rest.pop("dtype")) for _ in range(1) if "dtype" in rest)]
    if dims:
        words.append(" × ".join(dims))
    words += [f"{name} {value}" for name, value in sorted(rest.items())]
    return " ".join(words)[:200]


def case_sweep(kind: str, params: Mapping[str, Any]) -> tuple[str, str, int | None]:
    """(shape, dtype, size) of a case: what a sweep over sizes holds still, the format, and the size."""
    sweep = KINDS[kind].sweep if kind in KINDS else None
    size = params.get(sweep) if sweep else None
    whole = isinstance(size, int) and not isinstance(size, bool)
    dtype = params.get("dtype", "")
    return shape_of(kind, params, sweep), str(dtype)[:40], size if whole else None


def recipe_words(versions: Mapping[str, str]) -> str:
    """A recipe for people: "torch 2.13.0"."""
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def environment_name(versions: Mapping[str, str]) -> str:
    """Name of the environment of a recipe, the same on every host."""
    return digest(dict(versions))[:16]
