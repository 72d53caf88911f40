"""Tile surveys of releases that never were: 60 variants, 40 versions. Bytes; tiles in elements."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from typing import Any

from bench.generate import COMMAND, NAME, START, stamp
from workers.bench.document import Document, Finding, Reason, Target

VERSIONS = tuple(f"0.{minor}.{patch}+{NAME}" for minor in range(2, 7) for patch in range(8))
TILES = (
    *itertools.product((64, 128, 256), (64, 128, 256), (128,)),
    *itertools.product((64, 128, 256), (64, 128), (256,)),
)
VARIANTS = tuple(itertools.product(TILES, ("none", "finalize"), (False, True)))
LIMIT = 101_376
#: One NVFP4 element, its share of the block scale counted.
ELEMENT = 0.5625
LOG = f"{NAME}.log"


def surveys(seed: int, versions: tuple[str, ...] = VERSIONS) -> Iterator[Document]:
    """One document a version. A variant appears, stops failing or falls out as the versions advance."""
    rng = random.Random(seed)
    lives = [_Life(rng, len(versions)) for _ in VARIANTS]
    for number, version in enumerate(versions):
        began = START + dt.timedelta(days=number)
        evidence = [
            finding
            for (tile, fusion, swap_ab), life in zip(VARIANTS, lives, strict=True)
            for finding in _findings(tile, fusion, swap_ab, life.fate(number))
        ]
        yield Document(
            kind="tiles",
            command=COMMAND,
            started_at=stamp(began),
            finished_at=stamp(began + dt.timedelta(minutes=3)),
            target=Target(kind="arch", arch=NAME, properties={"smem_optin_bytes": LIMIT}),
            stack={"flashinfer": version, "cutlass": f"4.{number // 8}.0+{NAME}", "nvcc": NAME},
            evidence=tuple(evidence),
            logs={LOG: f"{NAME}: no compiler was run\n"},
        )


class _Life:
    """When a variant appears, and what stops it until when (in versions)."""

    def __init__(self, rng: random.Random, versions: int) -> None:
        self._appears = rng.randrange(-versions, versions // 2)
        self._mends = rng.randrange(-versions, versions)
        self._trouble: Reason = rng.choice(("no_dispatch", "compile_error", "smem_overflow"))

    def fate(self, number: int) -> Reason | str | None:
        """ "absent", a reason, or None for a variant that comes through."""
        if number < self._appears:
            return "absent"
        return self._trouble if number < self._mends else None


def _findings(
    tile: tuple[int, int, int], fusion: str, swap_ab: bool, fate: Reason | str | None
) -> Iterator[Finding]:
    if fate == "absent":
        return
    key: dict[str, Any] = {
        "family": f"{NAME}_gemm",
        "inputs": "nvfp4xnvfp4",
        "output": "bf16",
        "tile": tile,
        "cluster": (1, 1, 1),
        "fusion": fusion,
        "swap_ab": swap_ab,
        "schedule": "auto",
    }
    yield Finding(**key, stage="candidate", passed=True, source="generator")
    if fate == "no_dispatch":
        yield Finding(**key, stage="dispatched", passed=False, source="generator", reason="no_dispatch")
        return
    yield Finding(**key, stage="dispatched", passed=True, source="generator")
    compiler: dict[str, Any] = {"source": "compiler", "tier": "types", "unit": f"{NAME}.cu", "log": LOG}
    if fate == "compile_error":
        yield Finding(**key, **compiler, stage="compiled", passed=False, reason="compile_error")
        return
    yield Finding(**key, **compiler, stage="compiled", passed=True)
    m, n, k = tile
    operands = int((m + n) * k * ELEMENT)
    epilogue = 64 * n * (2 if fusion == "finalize" else 1)
    stages = max(1, (LIMIT - epilogue) // operands)
    if fate == "smem_overflow" or stages * operands + epilogue > LIMIT:
        epilogue = max(epilogue, LIMIT - stages * operands + 1024)
    need = stages * operands + epilogue
    fits = need <= LIMIT
    yield Finding(
        **key,
        **compiler,
        stage="fits",
        passed=fits,
        reason=None if fits else "smem_overflow",
        stages=stages,
        need_bytes=need,
        limit_bytes=LIMIT,
        parts={"operands": stages * operands, "epilogue": epilogue},
    )
