"""The part of a version's survey that is about mm_fp4."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from workers.bench.document import BenchError, Finding, Listing
from workers.bench.tiles import instantiations, verdicts
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.instantiations import Instantiation, Unit, Variant
from workers.bench.tiles.mm_fp4 import findings, sources, tactics, units
from workers.bench.tiles.sources import Sources
from workers.bench.tiles.toolchain import Toolchain
from workers.bench.tiles.verdicts import UnitVerdict

_HERE = Path(__file__).parent
_HEADERS, _ADAPTER = _HERE / "headers", _HERE / "adapter"
#: K tiles that the types of an SM103 kernel count as one
_SM103_K_TILES = 3
_NOT_UNDERSTOOD = (
    "generator_failed",
    "no_instantiations",
    "tactics_not_understood",
    "units_not_understood",
    "wheel_lacks_sources",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What goes into the version's document."""

    evidence: tuple[Finding, ...] = ()
    listings: tuple[Listing, ...] = ()
    logs: dict[str, str] = dataclasses.field(default_factory=dict)
    costs: dict[str, int] = dataclasses.field(default_factory=dict)


def run(
    cache: Cache,
    tree: Sources,
    arch: Arch,
    toolchain: Toolchain,
    scratch: Path,
    jobs: int,
    progress: Callable[[int, str], None],
) -> Part:
    """Empty where the version has no CUTLASS backend of mm_fp4 for `arch`; only a log where its sources
    are not as expected. `progress` gets the number of finished units and a message.

    BenchError where the machine cannot do the work.
    """
    module = sources.module(tree.root, arch.name)
    if module is None:
        return Part()
    try:
        rendered = units.render(cache, tree, module, scratch)
        offer = tactics.ask(cache, tree, module, toolchain, scratch)
    except BenchError as error:
        if error.code not in _NOT_UNDERSTOOD:
            raise
        progress(0, f"mm_fp4 is left out: {error.sentence}")
        return Part(logs={findings.TACTICS_LOG: f"mm_fp4 is left out. {error.sentence}\n"})
    found = _verdicts(cache, tree, arch, toolchain, rendered, scratch, jobs, progress)
    listed = findings.listings(offer, rendered.units)
    evidence = findings.evidence(offer, rendered, found, arch, tree.cutlass)
    return Part(
        tuple(evidence),
        listed,
        {name: verdict.log for name, verdict in found.items()}
        | {findings.TACTICS_LOG: findings.log(offer, listed)},
        {
            "mm_fp4_instantiations": sum(len(unit.instantiations) for unit in rendered.units),
            "mm_fp4_units": len(rendered.units),
            "mm_fp4_cached_units": sum(verdict.cached for verdict in found.values()),
        },
    )


def _verdicts(
    cache: Cache,
    tree: Sources,
    arch: Arch,
    toolchain: Toolchain,
    rendered: units.Rendered,
    scratch: Path,
    jobs: int,
    progress: Callable[[int, str], None],
) -> dict[str, UnitVerdict]:
    options = (*rendered.defines, f"-I{_HEADERS}")
    whole = Frontend(toolchain, tree, arch, options)
    quick = Frontend(toolchain, tree, arch, (*options, f"-I{_ADAPTER}"))
    found: dict[str, UnitVerdict] = {}
    for group in groups(rendered.units):
        compiled = [as_compiled(unit) for unit in group]

        def say(done: int, message: str, before: int = len(found)) -> None:
            progress(before + done, message)

        of_group = verdicts.find(quick, compiled, cache, scratch, jobs, say)
        doubtful = [unit for unit in compiled if not all(of_group[unit.name].kernels)]
        if doubtful:
            of_group |= verdicts.find(whole, doubtful, cache, scratch, jobs, lambda done, message: None)
        found |= of_group
    return found


def groups(written: Sequence[Unit]) -> list[list[Unit]]:
    """Units that may be compiled together: those with the same text around their instantiations.

    Others include one header with other macros set, or make kernels of the same shape and another kind.
    """
    by_text: dict[str, list[Unit]] = {}
    for unit in written:
        around = instantiations.without(unit.text, list(unit.instantiations))
        by_text.setdefault(around, []).append(unit)
    return list(by_text.values())


def as_compiled(unit: Unit) -> Unit:
    """The unit, its variants as the types of its kernels name them: clusters chosen at run time are not in
    the types, only whether two blocks share a tile."""
    return dataclasses.replace(
        unit,
        instantiations=tuple(
            Instantiation(_as_compiled(one.variant), one.first_line, one.last_line)
            for one in unit.instantiations
        ),
    )


def _as_compiled(variant: Variant) -> Variant:
    if variant.schedule in ("auto", sources.STREAM_K):
        return variant
    m, n, k = variant.tile
    if k == sources.SM103_K:
        k //= _SM103_K_TILES
    pair = 2 if variant.schedule.startswith("2sm") else 1
    return dataclasses.replace(variant, tile=(m, n, k), cluster=(pair, 1, 1))
