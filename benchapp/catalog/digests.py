"""Identities by content: equal mappings get equal digests, whatever the order of their keys."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from workers.bench.cases.base import CONSTANT, shape_of
from workers.bench.cases.parse import KINDS


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the mapping as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def case_digest(kind: str, params: Mapping[str, Any]) -> str:
    return digest({"kind": kind, "params": dict(params)})


def case_label(kind: str, params: Mapping[str, Any]) -> str:
    """Short name for people: "gemm bf16 16 × 4096 × 6144", "quantize bf16 64 × 7168 to nvfp4"."""
    written = [field.name for field in dataclasses.fields(KINDS[kind])] if kind in KINDS else []
    rest = {name: params[name] for name in (*written, *sorted(params)) if name in params}
    for name in CONSTANT:
        rest.pop(name, None)
    words = [kind.replace("_", " ")]
    if "dtype" in rest:
        words.append(str(rest.pop("dtype")))
    words += [
        " × ".join(str(rest.pop(name)) for name in extents)
        for extents in (("m", "n", "k"), ("tokens", "hidden"))
        if rest.keys() >= set(extents)
    ]
    for name, value in rest.items():
        words += [str(value)] if kind.endswith(f"_{name}") else [name.replace("_", " "), str(value)]
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
