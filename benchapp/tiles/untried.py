"""Worth trying: tiles that fit and that no FlashInfer release ships, and tiles that one stage less rescues.

That a tile fits says nothing of its speed; one that spills heavily fits and is slow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, QuerySet

from benchapp.catalog.models import Release
from benchapp.catalog.versions import newest_order
from benchapp.tiles import families
from benchapp.tiles.fates import FITTING, HEAVY_SPILL_BYTES
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Listing, Tile, Verdict
from benchapp.tiles.queries import PACKAGE

#: A page lists no more than this of each; what it leaves out is counted.
MOST_ROWS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Find:
    """One variant that fits; sizes in bytes, spills a thread."""

    tile_id: int
    version: str
    family: str
    name: str
    output: str
    stages: int | None
    need_bytes: int | None
    margin_bytes: int | None
    spill_store_bytes: int | None
    tier: str

    @property
    def heavy(self) -> bool:
        return (self.spill_store_bytes or 0) >= HEAVY_SPILL_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Untried:
    """All fitting variants (schedule, epilogue, swap) of one explored tile; spans are (least, most)."""

    m: int
    n: int
    k: int
    family: str
    variants: int
    stages: tuple[int, int]
    need_bytes: tuple[int, int]
    least_margin_bytes: int
    compiled_in_full: int
    spill_store_bytes: tuple[int, int] | None

    @property
    def family_label(self) -> str:
        return families.label(self.family)

    @property
    def heavy(self) -> bool:
        """Whether every variant compiled in full spills heavily."""
        return self.spill_store_bytes is not None and self.spill_store_bytes[0] >= HEAVY_SPILL_BYTES


def _find(verdict: Verdict) -> Find:
    need, limit = verdict.need_bytes, verdict.limit_bytes
    return Find(
        verdict.tile_id,
        verdict.release.version,
        families.label(verdict.tile.family),
        Key.of(verdict.tile).name,
        verdict.tile.output,
        verdict.stages,
        need,
        None if need is None or limit is None else limit - need,
        verdict.spill_store_bytes,
        verdict.tier,
    )


def _fitting(arch: str, inputs: str, release: Release, names: Iterable[str]) -> QuerySet[Verdict]:
    return (
        Verdict.objects.filter(
            tile__arch=arch,
            tile__inputs=inputs,
            tile__family__in=names,
            release=release,
            stage__in=FITTING,
            failed_stage="",
        )
        .select_related("tile", "release")
        .order_by("-tile__m", "-tile__n", "-tile__k", "tile__schedule", "-tile__fusion", "pk")
    )


def unshipped(arch: str, inputs: str, release: Release) -> QuerySet[Verdict]:
    """Explored tiles that fit on a CUTLASS release and whose M×N×K no FlashInfer release lists or holds."""
    same = {name: OuterRef(f"tile__{name}") for name in ("m", "n", "k")}
    of_ours = {"arch": arch, "inputs": inputs, "family__in": families.SHIPPED}
    return _fitting(arch, inputs, release, families.EXPLORED).filter(
        ~Exists(Listing.objects.filter(**of_ours, **same)), ~Exists(Tile.objects.filter(**of_ours, **same))
    )


def by_tile(verdicts: QuerySet[Verdict]) -> list[Untried]:
    """One row a tile and family, the largest tiles first, the MoE's kind of GEMM before the dense one."""
    rows = (
        verdicts.order_by()
        .values("tile__m", "tile__n", "tile__k", "tile__family")
        .annotate(
            variants=Count("pk"),
            fewest=Min("stages"),
            most=Max("stages"),
            smallest=Min("need_bytes"),
            largest=Max("need_bytes"),
            margin=Min(F("limit_bytes") - F("need_bytes")),
            in_full=Count("spill_store_bytes"),
            lightest=Min("spill_store_bytes"),
            heaviest=Max("spill_store_bytes"),
        )
    )
    found = [
        Untried(
            m=row["tile__m"],
            n=row["tile__n"],
            k=row["tile__k"],
            family=row["tile__family"],
            variants=row["variants"],
            stages=(row["fewest"], row["most"]),
            need_bytes=(row["smallest"], row["largest"]),
            least_margin_bytes=row["margin"],
            compiled_in_full=row["in_full"],
            spill_store_bytes=(row["lightest"], row["heaviest"]) if row["in_full"] else None,
        )
        for row in rows
    ]
    order = list(families.FAMILIES)
    return sorted(found, key=lambda row: (order.index(row.family), -row.m * row.n, -row.m, -row.k))


def explored_on(arch: str, inputs: str, cutlass: str) -> Release | None:
    """The CUTLASS release to look at: the one named, where it was explored, else the newest explored."""
    looked = Verdict.objects.filter(tile__arch=arch, tile__inputs=inputs, tile__family__in=families.EXPLORED)
    releases = list(Release.objects.filter(package="cutlass", pk__in=looked.values("release")))
    named = next((release for release in releases if release.version == cutlass), None)
    return named or max(releases, key=lambda release: newest_order(release.version), default=None)


def context(arch: str, inputs: str, focus: str) -> dict[str, Any]:
    """What `tiles/_untried.html` shows; `focus` is a FlashInfer version. At most six queries."""
    release = Release.objects.filter(package=PACKAGE, version=focus).first()
    explored = explored_on(arch, inputs, release.cutlass if release else "")
    fits = by_tile(unshipped(arch, inputs, explored)) if explored else []
    rescued = _fitting(arch, inputs, release, families.RESCUES) if release else Verdict.objects.none()
    return {
        "untried_arch": arch,
        "untried_inputs": inputs,
        "untried_focus": focus,
        "untried_release": explored,
        "untried_is_bundled": bool(explored and release and explored.version == release.cutlass),
        "untried": fits[:MOST_ROWS],
        "untried_total": len(fits),
        "untried_tiles": len({(row.m, row.n, row.k) for row in fits}),
        "rescued": [_find(verdict) for verdict in rescued[:MOST_ROWS]],
        "rescued_total": rescued.count() if release else 0,
        "heavy_from": HEAVY_SPILL_BYTES,
    }
