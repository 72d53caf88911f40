"""Which CPUs each worker of a host runs on. Pure, but for the one look at what the kernel says."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: One measuring child keeps no more CPUs busy than this.
MOST = 8
#: Fewer are no room for a compiler: it then shares the CPUs of the others.
FEWEST_FOR_BUILDS = 2


def shares(
    near: Sequence[Collection[int]], cores: Sequence[Collection[int]], most: int = MOST
) -> list[tuple[int, ...]]:
    """CPUs of each GPU's worker, in the GPUs' order.

    `near` holds the CPUs close to each GPU (empty: not known), `cores` the CPUs of each physical core that
    may be used. Shares are of whole cores, near the GPU while some are left there, disjoint while there are
    as many cores as GPUs, taken by turns, and at most `most` CPUs each. A quarter of the cores is left for
    compilers.
    """
    if not cores:
        return [() for _ in near]
    everywhere = frozenset(cpu for core in cores for cpu in core)
    wanted = [frozenset(cpus) & everywhere or everywhere for cpus in near]
    free = sorted((tuple(sorted(core)) for core in cores), key=lambda core: core[0])
    spare = max(FEWEST_FOR_BUILDS, len(free) // 4)
    turns = max(len(near), len(free) - spare)
    taken: list[list[int]] = [[] for _ in near]

    def take(place: int, close: Collection[int]) -> None:
        """One more core for a share, the first free one of these CPUs, if there is one and it fits."""
        nonlocal turns
        for core in free if turns > 0 else ():
            if frozenset(core) <= frozenset(close) and (
                not taken[place] or len(taken[place]) + len(core) <= most
            ):
                free.remove(core)
                taken[place] += core
                turns -= 1
                return

    # whoever has the least choice chooses first
    order = sorted(range(len(near)), key=lambda place: len(wanted[place]))
    for turn in range(most):
        for place in order:
            take(place, wanted[place])
        for place in order if turn == 0 else ():
            if not taken[place]:  # rather a far core of its own than a near one of another's
                take(place, everywhere)
    return [tuple(sorted(mine or sorted(close)[:most])) for mine, close in zip(taken, wanted, strict=True)]


def left_over(taken: Sequence[Collection[int]], cores: Sequence[Collection[int]]) -> tuple[int, ...]:
    """CPUs for builds: those of no GPU's worker, or all where too few are left."""
    everything = {cpu for core in cores for cpu in core}
    rest = everything.difference(*taken)
    return tuple(sorted(rest if len(rest) >= FEWEST_FOR_BUILDS else everything))


def physical_cores(system: Path = Path("/sys/devices/system/cpu")) -> list[tuple[int, ...]]:
    """The CPUs that this process may use, those of one physical core together."""
    allowed = os.sched_getaffinity(0)
    found = set()
    for cpu in allowed:
        try:
            siblings = from_ranges((system / f"cpu{cpu}/topology/thread_siblings_list").read_text())
        except (OSError, ValueError):
            siblings = [cpu]  # the kernel does not say
        found.add(tuple(sorted(allowed.intersection(siblings) | {cpu})))
    return sorted(found)


@contextmanager
def pinned(cpus: Collection[int]) -> Iterator[None]:
    """Children started meanwhile run on these CPUs alone. Main thread only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def as_ranges(cpus: Collection[int]) -> str:
    """{0, 1, 2, 5} → "0-2,5", as the kernel writes it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_ranges(text: str) -> list[int]:
    """The other way round. Raises ValueError."""
    found: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found
