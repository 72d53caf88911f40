"""Evidence of a document into tiles, and the verdicts that follow."""

from __future__ import annotations

from benchapp.catalog.models import Release
from benchapp.ingest import bulk, schema
from benchapp.ingest.identities import release_of
from benchapp.runs.models import Document
from benchapp.tiles.actions import derive_verdicts
from benchapp.tiles.models import Evidence, EvidenceLog, Listing

TILE_COLUMNS = {
    **dict.fromkeys(("arch", "family", "inputs", "output"), "text"),
    **dict.fromkeys(("m", "n", "k"), "int4"),
    **dict.fromkeys(("cluster", "fusion"), "text"),
    "swap_ab": "bool",
    "schedule": "text",
}
TileKey = tuple[str, str, str, str, int, int, int, str, str, bool, str]


def _key(arch: str, finding: schema.Finding) -> TileKey:
    cluster = "x".join(map(str, finding.cluster))
    return (
        arch, finding.family, finding.inputs, finding.output, *finding.tile, cluster, finding.fusion,
        finding.swap_ab, finding.schedule,
    )  # fmt: skip


def store(row: Document, document: schema.Document) -> int:
    """Append all findings of a document and derive the verdicts they touch; returns how many findings."""
    if not document.evidence:
        return 0
    release = release_of(document)
    keys = [_key(document.target.arch, finding) for finding in document.evidence]
    tiles = bulk.upsert("tiles_tile", TILE_COLUMNS, list(TILE_COLUMNS), sorted(set(keys)))
    logs = {
        log.name: log
        for log in EvidenceLog.objects.bulk_create(
            [EvidenceLog(document=row, name=name, text=text) for name, text in document.logs.items()]
        )
    }
    Evidence.objects.bulk_create(
        [
            Evidence(
                tile_id=tiles[key],
                release=release,
                stack=row.stack,
                document=row,
                found_at=document.finished_at,
                stage=finding.stage,
                passed=finding.passed,
                source=finding.source,
                tier=finding.tier or "",
                reason=finding.reason or "",
                stages=finding.stages,
                need_bytes=finding.need_bytes,
                limit_bytes=finding.limit_bytes,
                parts=finding.parts,
                predicted_stages=finding.predicted_stages,
                predicted_bytes=finding.predicted_bytes,
                threads=finding.threads,
                registers=finding.registers,
                spill_store_bytes=finding.spill_store_bytes,
                spill_load_bytes=finding.spill_load_bytes,
                stack_bytes=finding.stack_bytes,
                object_bytes=finding.object_bytes,
                chosen_for=finding.chosen_for or "",
                unit=finding.unit or "",
                detail=finding.detail or "",
                log=logs[finding.log] if finding.log else None,
                cpu_seconds=finding.cpu_seconds,
            )
            for key, finding in zip(keys, document.evidence, strict=True)
        ],
        batch_size=2000,
    )
    derive_verdicts(release, tiles.values())
    _list(row, document, release)
    return len(keys)


def _list(row: Document, document: schema.Document, release: Release) -> None:
    """The newest survey of a release says what its sources list on that architecture, family by family."""
    arch = document.target.arch
    for family, inputs in sorted({(item.family, item.inputs) for item in document.listings}):
        known = Listing.objects.filter(release=release, arch=arch, family=family, inputs=inputs)
        if known.filter(document__facts__finished_at__gt=document.finished_at.isoformat()).exists():
            continue
        known.delete()
        Listing.objects.bulk_create(
            [
                Listing(
                    release=release,
                    document=row,
                    arch=arch,
                    family=family,
                    inputs=inputs,
                    m=item.tile[0],
                    n=item.tile[1],
                    k=item.tile[2],
                    cluster="x".join(map(str, item.cluster)),
                    fusion=item.fusion,
                    swap_ab=item.swap_ab,
                    schedule=item.schedule,
                    candidate=item.candidate,
                    dispatched=item.dispatched,
                    instantiated=item.instantiated,
                    gemm1_tactics=[number for gemm, number in item.tactics if gemm == 1],
                    gemm2_tactics=[number for gemm, number in item.tactics if gemm == 2],
                )
                for item in document.listings
                if (item.family, item.inputs) == (family, inputs)
            ],
            batch_size=2000,
        )
