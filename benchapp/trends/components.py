"""Components of stacks: which of them people ask about first, and what versions a page is over. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

#: Where several vary as much, these come first, in this order: a stack's own library before what it lies on.
FIRST = ("flashinfer", "vllm", "trtllm", "sglang", "sgl-kernel", "cutlass", "torch")


def component_order(name: str) -> tuple[int, str]:
    """Those of FIRST in their order, then the others by name."""
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def varying(stacks: Iterable[Mapping[str, str]]) -> list[tuple[str, int]]:
    """(component, how many versions of it), the one that varies most first."""
    versions: dict[str, set[str]] = defaultdict(set)
    for stack in stacks:
        for name, version in stack.items():
            versions[name].add(str(version))
    counted = [(name, len(seen)) for name, seen in versions.items()]
    return sorted(counted, key=lambda each: (-each[1], component_order(each[0])))


def version_of(stack: Mapping[str, str], component: str) -> str:
    """The version of a component in a stack; of a stack without it, its own library by name: torch 2.11.0."""
    if component in stack:
        return str(stack[component])
    own = next((name for name in FIRST if name in stack), "")
    return f"{own} {stack[own]}" if own else f"without {component}"
