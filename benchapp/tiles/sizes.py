"""How large releases are, over versions: wheel, unpacked wheel, instantiations and units per architecture."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchapp.catalog.models import Release, Target
from benchapp.catalog.versions import version_order
from benchapp.runs.models import Document
from benchapp.tiles.queries import PACKAGE

MEBI = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """One release on one architecture; None is "not recorded"."""

    version: str
    cutlass: str
    wheel_bytes: int | None
    wheel_unpacked_bytes: int | None
    instantiations: int | None
    units: int | None


def sizes(arch: str) -> list[Size]:
    """In release order, each release's newest accepted survey of that architecture. Two queries."""
    documents = (
        Document.objects.filter(
            kind="tiles",
            state=Document.State.ACCEPTED,
            target__kind=Target.Kind.ARCH,
            target__arch=arch,
            stack__components__has_key=PACKAGE,
            facts__costs__has_key="units",
        )
        .order_by("facts__finished_at", "id")
        .values_list(f"stack__components__{PACKAGE}", "facts__costs")
    )
    costs: dict[str, dict[str, Any]] = dict(documents)
    cutlass = dict(Release.objects.filter(package=PACKAGE).values_list("version", "cutlass"))
    return [
        Size(version, cutlass.get(version, ""), *(_first(costs[version], names) for names in _COSTS))
        for version in sorted(costs, key=version_order)
    ]


#: Names of each figure in a document's costs. What a version generates, else what was looked at of it.
_COSTS = (
    ("wheel_bytes",),
    ("wheel_unpacked_bytes",),
    ("generated_instantiations", "instantiations"),
    ("generated_units", "units"),
)


def _first(costs: Mapping[str, object], names: Sequence[str]) -> int | None:
    return next((int(value) for name in names if isinstance(value := costs.get(name), int | float)), None)


def headline(found: Sequence[Size]) -> str:
    """ "From 0.5.3 to 0.7.4 the wheel grew from 6.7 to 96.6 MiB, and instantiations from 40 to 88." """
    said = []
    first = last = ""
    for what, unit, read in (
        ("the wheel went", " MiB", lambda size: _mebi(size.wheel_bytes)),
        ("unpacked", " MiB", lambda size: _mebi(size.wheel_unpacked_bytes)),
        ("instantiations", "", lambda size: size.instantiations),
    ):
        known = [(size.version, value) for size in found if (value := read(size)) is not None]
        if len(known) > 1:
            (first, old), (last, new) = known[0], known[-1]
            said.append(f"{what} from {old:,} to {new:,}{unit}")
    return f"From {first} to {last} {', '.join(said)}." if said else ""


def _mebi(number: int | None) -> float | None:
    return None if number is None else round(number / MEBI, 1)


def _chart(
    found: Sequence[Size], title: str, unit: str, lines: Sequence[tuple[str, Callable[[Size], float | None]]]
) -> dict[str, Any]:
    series = [
        {"label": label, "points": [{"x": size.version, "y": read(size)} for size in found]}
        for label, read in lines
        if any(read(size) is not None for size in found)
    ]
    return {
        "type": "line",
        "x": {"title": "FlashInfer release", "type": "category", "labels": [size.version for size in found]},
        "y": {"title": title, "unit": unit, "type": "linear", "min": 0},
        "series": series,
    }


def context(arch: str) -> dict[str, Any]:
    """What `tiles/_sizes.html` shows."""
    found = sizes(arch)
    return {
        "sizes": found,
        "sizes_arch": arch,
        "sizes_said": headline(found),
        "sizes_bytes": _chart(
            found,
            "Size",
            "MiB",
            [
                ("wheel", lambda size: _mebi(size.wheel_bytes)),
                ("unpacked", lambda size: _mebi(size.wheel_unpacked_bytes)),
            ],
        ),
        "sizes_counts": _chart(
            found,
            f"Generated for {arch.upper()}",
            "count",
            [
                ("instantiations", lambda size: size.instantiations),
                ("units (generated files)", lambda size: size.units),
            ],
        ),
    }
