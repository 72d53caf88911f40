"""Evidence in, verdicts out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Q

from benchapp.catalog.models import Release
from benchapp.tiles.models import Evidence, Stage, Verdict
from benchapp.tiles.verdict import climb, deciding

DERIVED = (
    "stage", "failed_stage", "reason", "source", "tier", "stages", "need_bytes", "limit_bytes",
    "spill_store_bytes", "chosen", "found_at",
)  # fmt: skip


def derive_verdicts(release: Release, tile_ids: Iterable[int]) -> int:
    """Derive the verdicts of these tiles in one release from all their evidence; returns how many."""
    findings: dict[int, list[Evidence]] = defaultdict(list)
    evidence = Evidence.objects.filter(release=release, tile_id__in=list(tile_ids)).defer("detail", "parts")
    for finding in evidence.order_by("tile_id", "id"):
        findings[finding.tile_id].append(finding)
    verdicts = [_verdict(release, tile_id, found) for tile_id, found in sorted(findings.items())]
    Verdict.objects.bulk_create(
        verdicts,
        update_conflicts=True,
        unique_fields=["tile", "release"],
        update_fields=DERIVED,
        batch_size=2000,
    )
    return len(verdicts)


def derive_all() -> int:
    """Derive every verdict again, after the rule changed."""
    total = 0
    for release in Release.objects.filter(Q(evidence__isnull=False)).distinct():
        tiles = Evidence.objects.filter(release=release).values_list("tile_id", flat=True).distinct()
        total += derive_verdicts(release, tiles)
    return total


def _verdict(release: Release, tile_id: int, findings: list[Evidence]) -> Verdict:
    highest, stopped = climb(findings)
    basis = stopped or highest
    assert basis is not None  # a tile without findings has no verdict
    counting = deciding(findings)
    # what it needs stays known, whatever came of it on a device; so does what ptxas said of it
    size, compiled = counting.get(Stage.FITS), counting.get(Stage.COMPILED)
    tier = basis.tier
    if basis is size and compiled is not None and compiled.source == "compiler":
        tier = compiled.tier  # the sizes are the types' own at every tier
    return Verdict(
        tile_id=tile_id,
        release=release,
        stage=highest.stage if highest else "",
        failed_stage=stopped.stage if stopped else "",
        reason=stopped.reason if stopped else "",
        source=basis.source,
        tier=tier,
        stages=size.stages if size else None,
        need_bytes=size.need_bytes if size else None,
        limit_bytes=size.limit_bytes if size else None,
        spill_store_bytes=compiled.spill_store_bytes if compiled else None,
        chosen=any(finding.chosen_for for finding in findings),
        found_at=basis.found_at,
    )
