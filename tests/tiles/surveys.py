"""Survey documents for tests, stored the way every document is."""

from __future__ import annotations

import dataclasses

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from workers.bench.document import Document, Finding, Listing, Target

LIMIT = 101_376
FAMILY = "moe_grouped_gemm"
#: What 0.6.3's own generator writes for SM120 NVFP4 × NVFP4: tile, fusion, swap, stages, bytes needed.
IN_0_6_3 = tuple(
    (tile, fusion, swap, stages, need)
    for tile, fusion, swap, stages, need in [
        *(((128, 128, 128), "none", swap, 4, 89_088) for swap in (False, True)),
        *(((128, 128, 128), "finalize", swap, 4, 93_184) for swap in (False, True)),
        *(((128, 128, 256), "none", swap, 2, 89_088) for swap in (False, True)),
        *(((128, 128, 256), "finalize", swap, 2, 93_184) for swap in (False, True)),
        *(
            (tile, "none", swap, 3, 98_304)
            for tile in ((128, 256, 128), (256, 128, 128))
            for swap in (False, True)
        ),
        *((tile, "finalize", False, 3, 102_400) for tile in ((128, 256, 128), (256, 128, 128))),
        *((tile, "finalize", True, 2, 74_752) for tile in ((128, 256, 128), (256, 128, 128))),
    ]
)
LOG = "probe: sizeof(SharedStorage)\n<script>alert('log')</script>\n"


def variant(tile, fusion, swap, stages, need, *, limit=LIMIT, output="bf16", schedule="auto"):
    """Findings of one variant up to `fits`."""
    candidate = Finding(
        family=FAMILY,
        inputs="nvfp4xnvfp4",
        output=output,
        tile=tile,
        cluster=(1, 1, 1),
        fusion=fusion,
        swap_ab=swap,
        schedule=schedule,
        stage="candidate",
        passed=True,
        source="generator",
    )
    dispatched = dataclasses.replace(candidate, stage="dispatched", unit="M128_BS_group2.generated.cu")
    compiled = dataclasses.replace(
        dispatched, stage="compiled", source="compiler", tier="types", log="unit.log"
    )
    fits = dataclasses.replace(
        compiled,
        stage="fits",
        passed=need <= limit,
        reason=None if need <= limit else "smem_overflow",
        stages=stages,
        need_bytes=need,
        limit_bytes=limit,
        parts={"operand_a": need - 19_456, "epilogue": 17_408, "padding": 2_048},
    )
    return [candidate, dispatched, compiled, fits]


def never_dispatched(tile, fusion="none", swap=False):
    candidate = variant(tile, fusion, swap, 1, 1)[0]
    refused = dataclasses.replace(candidate, stage="dispatched", passed=False, reason="no_dispatch")
    return [candidate, refused]


def never_offered(tile, fusion="none", swap=False, *, stages=2, need=80_000):
    candidate, *further = variant(tile, fusion, swap, stages, need)
    return [dataclasses.replace(candidate, passed=False, reason="no_candidate"), *further]


def on_device(one, stage, reason=None, *, chosen_for=None):
    """A variant's findings, and one of the device above them."""
    told = dataclasses.replace(
        one[-1], stage=stage, passed=reason is None, reason=reason, source="device", tier=None, log=None
    )
    return [*one, dataclasses.replace(told, chosen_for=chosen_for)]


def compiled_in_full(one, spill_store_bytes):
    """The same findings at tier full."""
    return [
        dataclasses.replace(
            finding,
            tier="full" if finding.tier else None,
            spill_store_bytes=spill_store_bytes if finding.stage == "compiled" else None,
        )
        for finding in one
    ]


def listing(tile, fusion, swap, tactics, *, candidate=True, dispatched=True, instantiated=True):
    return Listing(
        family=FAMILY,
        inputs="nvfp4xnvfp4",
        tile=tile,
        cluster=(1, 1, 1),
        fusion=fusion,
        swap_ab=swap,
        schedule="auto",
        candidate=candidate,
        dispatched=dispatched,
        instantiated=instantiated,
        tactics=tactics,
    )


def survey(version, cutlass, findings, *, arch="sm120", day=1, listings=()):
    return Document(
        kind="tiles",
        command=("python", "-m", "workers.bench", "tiles", "--flashinfer", version, "--arch", arch),
        started_at=f"2026-11-{day:02}T10:00:00.000Z",
        finished_at=f"2026-11-{day:02}T10:03:00.000Z",
        target=Target(kind="arch", arch=arch),
        stack={"flashinfer": version, "cutlass": cutlass, "nvcc": "13.0.88"},
        evidence=tuple(findings),
        listings=tuple(listings),
        logs={"unit.log": LOG},
    )


def store(document: Document, *, origin: Row.Origin = Row.Origin.FILE) -> Row:
    row, _ = receive(document.dumps().encode(), origin=origin, name="test.json")
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored


def findings_of(variants):
    return [finding for one in variants for finding in variant(*one)]
