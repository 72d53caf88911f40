"""Tactic ids decoded, both ways: what an id means in a release, and which ids a tile has in each.

Ids are absolute in GEMM1 ++ GEMM2 of one release's tactic list, and mean other tiles in other releases.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchapp.tiles import words
from benchapp.tiles.entries import Entry
from benchapp.tiles.keys import Key

_OF_VARIANT = ("stage", "failed_stage", "reason", "need_bytes", "margin_bytes", "spill_store_bytes")
#: Columns of a tactic list as CSV.
COLUMNS = ("flashinfer", "id", "gemm", *Key._fields, "fate", *_OF_VARIANT)


@dataclasses.dataclass(frozen=True, slots=True)
class Tactic:
    """One id of a release's tactic list."""

    id: int
    #: 1 or 2 of the two that a fused MoE launches, None where a tactic is of one GEMM alone
    gemm: int | None
    entry: Entry

    @property
    def name(self) -> str:
        return f"GEMM{self.gemm} {self.entry.key.name}" if self.gemm else self.entry.key.name


def decode(found: Iterable[Entry], *, dense: bool = False) -> list[Tactic]:
    """All ids of one release in order; an id that two variants claim stands twice."""
    tactics = [
        Tactic(number, None if dense else gemm, entry)
        for entry in found
        if entry.listing
        for gemm, numbers in ((1, entry.listing.gemm1_tactics), (2, entry.listing.gemm2_tactics))
        for number in numbers
    ]
    return sorted(tactics, key=lambda tactic: (tactic.id, tactic.entry.key.place))


def headline(version: str, tactics: Sequence[Tactic]) -> str:
    """ "FlashInfer 0.6.18 has 60 tactic ids here, 0 to 59: 20 of GEMM1, 40 of GEMM2." """
    if not tactics:
        return f"No tactic list of FlashInfer {version} has been read here."
    first, last = tactics[0].id, tactics[-1].id
    of_gemms = Counter(tactic.gemm for tactic in tactics if tactic.gemm)
    parts = ", ".join(f"{number:,} of GEMM{gemm}" for gemm, number in sorted(of_gemms.items()))
    split = f": {parts}" if parts else ""
    return f"FlashInfer {version} has {len(tactics):,} tactic ids here, {first} to {last}{split}."


def about_id(version: str, number: int, tactics: Sequence[Tactic]) -> str:
    """What an id means, or which ids there are."""
    if not tactics:
        return ""
    meant = [tactic for tactic in tactics if tactic.id == number]
    first, last = tactics[0].id, tactics[-1].id
    if not meant and first < number < last:
        return f"Tactic {number} of {version} is none of these kernels: its list has others between them."
    if not meant:
        return f"{version} has no tactic {number}: its ids go from {first} to {last}."
    return " ".join(
        f"Tactic {number} of {version} is {tactic.name}: {tactic.entry.said}." for tactic in meant
    )


def meanings(number: int, by_version: Mapping[str, Sequence[Tactic]]) -> list[tuple[str, str]]:
    """What one id means over versions, neighbours that agree as one: [("0.5.0 – 0.6.7", "GEMM2 …")]."""
    told: dict[str, str] = {}
    for version, tactics in by_version.items():
        meant = [tactic.name for tactic in tactics if tactic.id == number]
        if tactics:
            told[version] = " and ".join(meant) or "no such id"
    return runs_of_versions(list(by_version), told)


def runs_of_versions(versions: Sequence[str], told: Mapping[str, str]) -> list[tuple[str, str]]:
    """Neighbouring versions of which the same is told, as [("0.5.0 – 0.6.7", what)]; others are left out."""
    runs: list[tuple[list[str], str]] = []
    previous: str | None = None
    for version in versions:
        what = told.get(version)
        if what is not None and what == previous:
            runs[-1][0].append(version)
        elif what is not None:
            runs.append(([version], what))
        previous = what
    return [(of[0] if len(of) == 1 else f"{of[0]} – {of[-1]}", what) for of, what in runs]


def shapes(by_version: Mapping[str, Sequence[Tactic]]) -> list[str]:
    """Every tile that some release's tactic list names, as "128x256x128", in order."""
    keys = {tactic.entry.key for tactics in by_version.values() for tactic in tactics}
    return [f"{m}x{n}x{k}" for m, n, k in sorted({(key.m, key.n, key.k) for key in keys})]


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """One variant of a tile: its ids by run of versions."""

    name: str
    runs: tuple[tuple[str, str], ...]


def ids_of_tile(shape: str, by_version: Mapping[str, Sequence[Tactic]]) -> list[Ids]:
    """The ids of every variant of a tile, over versions; a version without it, but with a list, has none."""
    numbers: dict[Key, dict[str, list[Tactic]]] = defaultdict(lambda: defaultdict(list))
    for version, tactics in by_version.items():
        for tactic in tactics:
            key = tactic.entry.key
            if f"{key.m}x{key.n}x{key.k}" == shape:
                numbers[key][version].append(tactic)
    read = [version for version, tactics in by_version.items() if tactics]
    return [
        Ids(
            key.name,
            tuple(runs_of_versions(read, {version: _listed(found.get(version, [])) for version in read})),
        )
        for key, found in sorted(numbers.items(), key=lambda item: item[0].place)
    ]


def _listed(tactics: Sequence[Tactic]) -> str:
    by_gemm: dict[int | None, list[str]] = defaultdict(list)
    for tactic in tactics:
        by_gemm[tactic.gemm].append(str(tactic.id))
    said = [f"GEMM{gemm} {words.listed(ids)}" if gemm else words.listed(ids) for gemm, ids in by_gemm.items()]
    return ", ".join(said) or "–"


def flat(version: str, tactics: Iterable[Tactic]) -> Iterator[dict[str, str | int | bool | None]]:
    """One row an id, for CSV and JSON: sizes in bytes, tiles in elements."""
    for tactic in tactics:
        yield {
            "flashinfer": version,
            "id": tactic.id,
            "gemm": tactic.gemm,
            **tactic.entry.key._asdict(),
            "fate": tactic.entry.fate.value,
            **{name: getattr(tactic.entry.variant, name) for name in _OF_VARIANT},
        }
