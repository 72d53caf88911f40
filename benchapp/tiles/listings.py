"""What releases' own sources list: where a variant stands, its tactic ids, and how many of those can run."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from benchapp.catalog.models import Release
from benchapp.tiles.families import OF_TWO_GEMMS
from benchapp.tiles.fates import Fate
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Listing
from benchapp.tiles.words import count, listed


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """One variant in one release's sources; tactic ids are absolute in GEMM1 ++ GEMM2."""

    key: Key
    candidate: bool
    dispatched: bool
    instantiated: bool
    gemm1: tuple[int, ...] = ()
    gemm2: tuple[int, ...] = ()
    #: whether it is one of a dense GEMM's, which has no second
    dense: bool = False

    @property
    def tactics(self) -> int:
        return len(self.gemm1) + len(self.gemm2)

    @property
    def ids(self) -> str:
        """ "GEMM1 3, GEMM2 11", of a dense GEMM "tactic 3"; empty where no tactic names the variant."""
        named = (("tactic" if self.dense else "GEMM1", self.gemm1), ("GEMM2", self.gemm2))
        return ", ".join(f"{gemm} {' '.join(map(str, ids))}" for gemm, ids in named if ids)


def listings_of(
    arch: str, family: str, inputs: str, releases: Sequence[Release]
) -> dict[str, dict[Key, Listed]]:
    """What each release lists, by version; a release that no survey listed is not in it."""
    version_of = {release.pk: release.version for release in releases}
    dense = family not in OF_TWO_GEMMS
    found: dict[str, dict[Key, Listed]] = defaultdict(dict)
    rows = Listing.objects.filter(arch=arch, family=family, inputs=inputs, release__in=version_of)
    fields = ("release_id", "candidate", "dispatched", "instantiated", "gemm1_tactics", "gemm2_tactics")
    for release, candidate, dispatched, instantiated, gemm1, gemm2, *key in rows.values_list(
        *fields, *Key._fields
    ):
        item = Listed(Key(*key), candidate, dispatched, instantiated, tuple(gemm1), tuple(gemm2), dense)
        found[version_of[release]][item.key] = item
    return found


def tactics_in_words(items: Iterable[Listed], fates: Mapping[Key, Fate]) -> str:
    """ "Of its 60 tactics (20 for GEMM1, 40 for GEMM2), 46 fit; …", or "" where no tactic is listed.

    `fates` tells what became of the variants that were looked at.
    """
    total = [0, 0]
    ends: Counter[str] = Counter()
    for item in items:
        total[0] += len(item.gemm1)
        total[1] += len(item.gemm2)
        ends[end_of(item, fates.get(item.key))] += item.tactics
    if not sum(total):
        return ""
    split = f" ({total[0]} for GEMM1, {total[1]} for GEMM2)" if all(total) else ""
    fit = ends.pop("", 0)
    if not +ends:
        return "Its only tactic fits." if sum(total) == 1 else f"All of its {sum(total)} tactics{split} fit."
    lost = [f"{count(number)} {ENDS[end][number != 1]}" for end, number in ends.most_common() if number]
    tactics = "tactic" if sum(total) == 1 else "tactics"
    return (
        f"Of its {sum(total)} {tactics}{split}, {count(fit) if fit else 'none'} fit; {listed(lost, most=6)}."
    )


#: What became of a tactic that does not fit, or of which that is not known: of one, and of several.
ENDS = {
    "undispatched": ("is never dispatched", "are never dispatched"),
    "uninstantiated": ("is never instantiated", "are never instantiated"),
    Fate.OVERFLOW: ("overflows shared memory", "overflow shared memory"),
    Fate.COMPILE_ERROR: ("does not compile", "do not compile"),
    Fate.DEVICE_FAILURE: ("fails on the GPU", "fail on the GPU"),
    Fate.INCORRECT: ("computes a wrong result", "compute wrong results"),
    Fate.UNSUPPORTED: ("is not supported", "are not supported"),
    "open": ("is not tested that far", "are not tested that far"),
}


def end_of(item: Listed | Listing, fate: Fate | None) -> str:
    """The key in ENDS of what became of a tactic of this variant; "" where it fits, as far as is known."""
    if not item.dispatched or fate is Fate.NO_DISPATCH:
        return "undispatched"
    if not item.instantiated:
        return "uninstantiated"
    if fate is Fate.SURVIVED:
        return ""
    return fate if fate is not None and fate in ENDS else "open"
