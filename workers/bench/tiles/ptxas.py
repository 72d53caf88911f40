"""Reads what `ptxas -v` says of the functions that it compiled."""

from __future__ import annotations

import dataclasses
import re

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(
    r"Function properties for '?([^\s']+)'?\s*\n"
    r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"\bUsed (\d+) registers")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One kernel under its mangled name: registers a thread, the rest bytes a thread. Spills are those of its
    own body; the stack includes what the functions it calls need."""

    name: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def parse(text: str) -> list[Entry]:
    """The kernels of an output, in its order; a kernel that is not told in full is left out.

    ptxas names an entry, then the properties of it and of the functions that it calls, each by name, and
    then the registers.
    """
    starts = list(_ENTRY.finditer(text))
    entries = []
    ends = [start.start() for start in starts[1:]]
    for start, end in zip(starts, [*ends, len(text)], strict=False):
        block = text[start.end() : end]
        registers = _REGISTERS.search(block)
        own = next((found for found in _PROPERTIES.finditer(block) if found[1] == start[1]), None)
        if registers is None or own is None:
            continue
        cumulative = _CUMULATIVE.search(block)
        stack, stores, loads = (int(own[index]) for index in (2, 3, 4))
        if cumulative is not None:
            stack = max(stack, int(cumulative[1]))
        entries.append(Entry(start[1], int(registers[1]), stack, stores, loads))
    return entries
