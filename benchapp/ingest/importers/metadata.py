"""FlashInfer's `_metadata`, as autotuner caches and blocklists carry it."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchapp.ingest.importers.base import Claims, ImportFault, agreed_arch, agreed_version, printable

#: Its fields → components of a stack.
COMPONENTS = {
    "cuda_version": "toolkit",
    "cublas_version": "cublas",
    "cudnn_version": "cudnn",
    "cudnn_frontend_version": "cudnn-frontend",
    "cutlass_dsl_version": "cutlass-dsl",
}
#: What FlashInfer writes for what it could not find out, and for what does not matter.
UNKNOWN = frozenset({"", "unknown", "None", "*"})


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
    version: str
    arch: str
    stack: dict[str, str]
    gpu: str | None


def of(content: dict[str, Any], claims: Claims) -> Metadata:
    """Version, architecture and stack that a file and the person agree on. Raises ImportFault."""
    said = content.get("_metadata", {})
    if not isinstance(said, dict):
        raise ImportFault("_metadata: expected an object")
    known = {
        name: value.strip() for name, value in said.items() if isinstance(value, str) and value not in UNKNOWN
    }
    gpu = known.get("gpu")
    version = agreed_version(
        "flashinfer", claims.stack.get("flashinfer"), known.get("flashinfer_version"), "_metadata"
    )
    stack = {
        component: printable(known[name], 100) for name, component in COMPONENTS.items() if known.get(name)
    }
    for component, value in claims.stack.items():
        if component != "flashinfer" and stack.setdefault(component, value) != value:
            raise ImportFault(f"_metadata says {component} {stack[component]}, but --stack says {value}")
    return Metadata(
        version=version,
        arch=agreed_arch(claims, None, "_metadata", gpu),
        stack={**stack, "flashinfer": version},
        gpu=gpu,
    )


def entries(body: dict[str, Any], field: str) -> dict[str, Any]:
    """An object below the top. Raises ImportFault."""
    content = body.get(field)
    if not isinstance(content, dict):
        raise ImportFault(f"expected an object {field!r}")
    return content
