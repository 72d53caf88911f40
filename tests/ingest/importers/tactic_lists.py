"""The tactic list of FlashInfer 0.5.x to 0.6.7 on SM120, as a survey reads it."""

from __future__ import annotations

import dataclasses
import itertools

from benchapp.ingest.importers.tactics import Tactic, Tactics
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey
from workers.bench.document import Document, Listing

CANDIDATES = ((128, 128, 256), (128, 128, 128), (128, 256, 128), (256, 128, 128))
#: GEMM1 = C ++ swap(C); GEMM2 = [C NONE, C FINALIZE] ++ swap of both; ids run through both.
GEMM1 = tuple((tile, "none", swap) for swap in (False, True) for tile in CANDIDATES)
GEMM2 = tuple(itertools.chain.from_iterable(
    ((tile, fusion, swap) for tile in CANDIDATES) for swap in (False, True) for fusion in ("none", "finalize")
))  # fmt: skip
CLUSTER = (1, 1, 1)


def _ids() -> dict[tuple[tuple[int, int, int], str, bool], list[tuple[int, int]]]:
    ids: dict[tuple[tuple[int, int, int], str, bool], list[tuple[int, int]]] = {}
    for number, variant in enumerate(GEMM1 + GEMM2):
        ids.setdefault(variant, []).append((1 if number < len(GEMM1) else 2, number))
    return ids


def listings(inputs: str = "nvfp4xnvfp4") -> tuple[Listing, ...]:
    return tuple(
        Listing(
            family="moe_grouped_gemm",
            inputs=inputs,
            tile=tile,
            cluster=CLUSTER,
            fusion=fusion,
            swap_ab=swap,
            schedule="auto",
            candidate=True,
            dispatched=True,
            instantiated=True,
            tactics=tuple(ids),
        )
        for (tile, fusion, swap), ids in _ids().items()
    )


def lookup(version: str, arch: str, inputs: str = "nvfp4xnvfp4") -> dict[str, Tactics]:
    """A `TacticLookup` that knows every version but 9.9.9."""
    if version == "9.9.9":
        return {}
    gemms: tuple[dict[int, Tactic], dict[int, Tactic]] = ({}, {})
    for (tile, fusion, swap), ids in _ids().items():
        for gemm, number in ids:
            gemms[gemm - 1][number] = Tactic(tile, CLUSTER, fusion, swap, "auto")
    return {inputs: Tactics(version, arch, inputs, *gemms)}


def surveyed(version: str = "0.6.3", cutlass: str = "4.2.1") -> Document:
    return dataclasses.replace(survey(version, cutlass, findings_of(IN_0_6_3)), listings=listings())


def store_survey(version: str = "0.6.3") -> None:
    store(surveyed(version))
