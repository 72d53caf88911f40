"""Survey documents with the lists that a release's sources hold, and tactic ids as FlashInfer counts them."""

from __future__ import annotations

import dataclasses
import itertools

from tests.tiles.surveys import FAMILY, LIMIT, never_dispatched, survey, variant
from workers.bench.document import Listing

#: FlashInfer 0.5.x to 0.6.7, SM120 NVFP4: the heuristic's list in order, K in elements.
UNTIL_0_6_7 = ((128, 128, 256), (128, 128, 128), (128, 256, 128), (256, 128, 128))
#: 0.6.8 to 0.6.10: the last two are never dispatched.
FROM_0_6_8 = (
    (128, 128, 256),
    (128, 128, 128),
    (256, 128, 128),
    (128, 256, 128),
    (128, 128, 512),
    (256, 128, 256),
)
NEVER_DISPATCHED = FROM_0_6_8[-2:]


def listings(candidates, never=(), extra=()):
    """GEMM1 = C ++ swapped C; GEMM2 = (C without, C with finalize) ++ both swapped; ids count through.

    `never` are candidates outside the dispatch table, `extra` instantiated tiles outside the tactic list.
    """
    gemm1 = [(tile, "none", swap) for swap in (False, True) for tile in candidates]
    gemm2 = [
        (tile, fusion, swap)
        for swap in (False, True)
        for fusion in ("none", "finalize")
        for tile in candidates
    ]
    tactics: dict[object, list[tuple[int, int]]] = {key: [] for key in gemm2}
    for number, key in enumerate(gemm1 + gemm2):
        tactics[key].append((1 if number < len(gemm1) else 2, number))
    variants = [(tile, f, s) for tile in extra for f in ("none", "finalize") for s in (False, True)]
    return [
        Listing(
            family=FAMILY,
            inputs="nvfp4xnvfp4",
            tile=tile,
            cluster=(1, 1, 1),
            fusion=fusion,
            swap_ab=swap,
            schedule="auto",
            candidate=tile not in extra,
            dispatched=tile not in never,
            instantiated=tile not in never,
            tactics=tuple(tactics.get((tile, fusion, swap), ())),
        )
        for tile, fusion, swap in itertools.chain(gemm2, variants)
    ]


def need(tile, fusion, swap):
    """Bytes needed: the 256-wide tiles overflow by 1,024 B with finalize and without swap only."""
    if tile[0] * tile[1] <= 128 * 128:
        return 93_184 if fusion == "finalize" else 89_088
    return 98_304 if fusion == "none" else 74_752 if swap else LIMIT + 1024


def listed_survey(version, cutlass, candidates, never=(), extra=(), *, day=1, costs=None, **options):
    """The survey of a release whose heuristic lists `candidates`, in order."""
    rows = listings(candidates, never, extra)
    findings = []
    for row in rows:
        if row.dispatched:
            found = variant(row.tile, row.fusion, row.swap_ab, 3, need(row.tile, row.fusion, row.swap_ab))
            if not row.candidate:
                found[0] = dataclasses.replace(found[0], passed=False, reason="no_candidate")
        else:
            found = never_dispatched(row.tile, row.fusion, row.swap_ab)
        findings += found
    document = survey(version, cutlass, findings, day=day, **options)
    return dataclasses.replace(document, listings=tuple(rows), costs=costs or {})
