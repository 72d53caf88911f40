"""How many pipeline stages CUTLASS itself gives an SM120 block-scaled GEMM, computed without a compiler.

The rule is CUTLASS's own, read in include/cutlass/gemm/collective/builders of 4.2.1, 4.4.2 and 4.5.0:

    stages = (capacity - reserved - carveout) / stage                         (integers, rounded down)
    stage  = A + B + SFA + SFB + barriers

sm100_blockscaled_umma_builder.inl (`sm100_compute_stage_count_or_override_blockscaled`) has the division,
sm120_blockscaled_mma_builder.inl what goes into it. Between versions changed:

| | 4.2 | 4.4 | 4.5 |
|---|---|---|---|
| barriers of a stage | 16 B | 16 B, rounded up to 128 | as 4.4 |
| reserved for scheduler and tensor maps | nothing | 432 B grouped, 96 B dense | as 4.4 |
| rows of SFB | N | N | at least 128 |

It knows nothing of alignment: operands start at multiples of 1,024 B, and so does the whole. What that costs
is the difference between `Prediction.need_bytes` and the compiler's value; where a tile that was promised
to fit overflows, this is why.
"""

from __future__ import annotations

import dataclasses
import re

from workers.bench.tiles.arches import Arch
from workers.bench.tiles.probe_lines import Kernel

_ARCHES = ("sm120", "sm121")
#: one full and one empty barrier: sizeof(PipelineTmaUmmaAsync<1>::SharedStorage)
_BARRIER_BYTES = 16
#: eight scheduler stages of two barriers, two tensor maps of 128 B, three stages of two barriers
_RESERVED_GROUPED_BYTES = 8 * 16 + 2 * 128 + 3 * 16
#: three scheduler stages of two barriers, three responses of 16 B
_RESERVED_DENSE_BYTES = 3 * 16 + 3 * 16
#: rows whose scales lie in one indivisible block, and scales of a row in it (Sm1xxBlockScaledConfig)
_SCALE_ROWS, _SCALE_COLUMNS = 128, 4
_CARVEOUT = re.compile(r"\bcarveout=(\d+)\b")


@dataclasses.dataclass(frozen=True, slots=True)
class Prediction:
    """`need_bytes` is all that the count allots: reserved, carveout and stages. It never exceeds the
    capacity unless there is no stage at all."""

    stages: int
    stage_bytes: int
    need_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Rule:
    barrier_bytes: int
    reserves: bool
    least_sfb_rows: int


_RULES = {
    (4, 2): _Rule(_BARRIER_BYTES, reserves=False, least_sfb_rows=0),
    (4, 4): _Rule(128, reserves=True, least_sfb_rows=0),
    (4, 5): _Rule(128, reserves=True, least_sfb_rows=_SCALE_ROWS),
}
#: bits of an operand element in shared memory, elements that share a scale. The mixed MMA wants FP4 operands
#: in bytes of their own, so it does not matter here which of the two is the activation.
_INPUTS = {"nvfp4xnvfp4": (4, 16), "mxfp8xmxfp4": (8, 32)}


def predict(
    *,
    cutlass: str,
    inputs: str,
    tile: tuple[int, int, int],
    epilogue_bytes: int,
    capacity_bytes: int,
    arch: str,
    grouped: bool = True,
) -> Prediction | None:
    """None where the rule is not known: other architectures, inputs or CUTLASS versions, and tiles that are
    not made of whole blocks of scales.

    `cutlass` as in version.h, e.g. "4.2.1". `tile` is (M, N, K) of the CTA in elements, as the kernel has it:
    after a swap of A and B. `epilogue_bytes` is what StageCountAutoCarveout takes away,
    sizeof(CollectiveEpilogue::SharedStorage): `carveout` of a probe line. That is more than
    parts["epilogue"], which is the storage of its tensors only. `capacity_bytes` is
    cutlass::arch::sm120_smem_capacity_bytes, 101,376. `grouped`: pointer-array, not dense.
    """
    rule = _RULES.get(_minor(cutlass))
    if arch not in _ARCHES or rule is None or inputs not in _INPUTS:
        return None
    bits, vector = _INPUTS[inputs]
    m, n, k = tile
    sfb_rows = max(n, rule.least_sfb_rows)
    columns = k // vector
    if m % _SCALE_ROWS or sfb_rows % _SCALE_ROWS or k % vector or columns % _SCALE_COLUMNS or min(tile) <= 0:
        return None
    stage_bytes = (m + n) * k * bits // 8 + (m + sfb_rows) * columns + rule.barrier_bytes
    reserved = _reserved(grouped) if rule.reserves else 0
    stages = max(0, (capacity_bytes - reserved - epilogue_bytes) // stage_bytes)
    return Prediction(stages, stage_bytes, reserved + epilogue_bytes + stages * stage_bytes)


def of_kernel(kernel: Kernel, *, cutlass: str, arch: Arch, grouped: bool = True) -> Prediction | None:
    """For a kernel that the probe saw; None also where its line does not tell the carveout."""
    carveout = _CARVEOUT.search(kernel.line)
    if carveout is None:
        return None
    return predict(
        cutlass=cutlass,
        inputs=kernel.inputs,
        tile=kernel.tile,
        epilogue_bytes=int(carveout[1]),
        capacity_bytes=arch.smem_optin_bytes,
        arch=arch.name,
        grouped=grouped,
    )


def _reserved(grouped: bool) -> int:
    return _RESERVED_GROUPED_BYTES if grouped else _RESERVED_DENSE_BYTES


def _minor(cutlass: str) -> tuple[int, int]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.|$)", cutlass, re.ASCII)
    return (int(match[1]), int(match[2])) if match else (0, 0)
