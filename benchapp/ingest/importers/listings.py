"""The tactic lists that surveys read, for decoding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from benchapp.ingest.importers.tactics import FAMILY, Tactic, Tactics
from benchapp.tiles.models import Listing


def tactics_of(version: str, arch: str) -> Mapping[str, Tactics]:
    """Tactics by input types; empty where this version was never surveyed on this architecture."""
    gemms: dict[str, tuple[dict[int, Tactic], dict[int, Tactic]]] = defaultdict(lambda: ({}, {}))
    rows = Listing.objects.filter(
        release__package="flashinfer", release__version=version, arch=arch, family=FAMILY, candidate=True
    )
    for row in rows:
        m, n, k = (int(extent) for extent in row.cluster.split("x"))
        tactic = Tactic((row.m, row.n, row.k), (m, n, k), row.fusion, row.swap_ab, row.schedule)
        for ids, tactics in zip((row.gemm1_tactics, row.gemm2_tactics), gemms[row.inputs], strict=True):
            tactics.update(dict.fromkeys(ids, tactic))
    return {
        inputs: Tactics(version, arch, inputs, gemm1, gemm2)
        for inputs, (gemm1, gemm2) in gemms.items()
        if gemm1 or gemm2
    }
