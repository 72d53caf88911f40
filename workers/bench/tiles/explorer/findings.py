"""Turns the explorer's verdicts into the findings of a document."""

from __future__ import annotations

from typing import Any

from workers.bench.document import Finding
from workers.bench.tiles import stage_arithmetic
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.explorer.bodies import Body
from workers.bench.tiles.explorer.search import Verdict
from workers.bench.tiles.explorer.space import Config
from workers.bench.tiles.findings import fits

#: the entry of a document's logs with the command, and what the probe said of each kernel that compiled
KERNELS_LOG = "explored"
_DETAIL_CHARACTERS = 500


def of_config(config: Config, verdict: Verdict, arch: Arch, cutlass: str) -> list[Finding]:
    """Whether its types compile; and if so, whether it fits."""
    common = _common(config)
    if verdict.kernel is None:
        detail = (verdict.error or "")[:_DETAIL_CHARACTERS]
        compiled = {**common, "stage": "compiled", "tier": "types", "log": config.name}
        return [Finding(**compiled, passed=False, reason="compile_error", detail=detail)]
    common |= {"tier": "types", "log": KERNELS_LOG, "threads": verdict.kernel.threads}
    predicted = stage_arithmetic.of_kernel(verdict.kernel, cutlass=cutlass, arch=arch, grouped=config.grouped)
    return [
        Finding(**common, stage="compiled", passed=True),
        fits(common, verdict.kernel, arch, predicted),
    ]


def of_body(config: Config, body: Body) -> Finding:
    """What tier full adds: whether the whole kernel compiles, its registers and spills."""
    return Finding(
        **_common(config),
        stage="compiled",
        tier="full",
        passed=body.error is None,
        reason=None if body.error is None else "compile_error",
        detail=None if body.error is None else body.error[:_DETAIL_CHARACTERS],
        registers=body.entry.registers if body.entry else None,
        spill_store_bytes=body.entry.spill_store_bytes if body.entry else None,
        spill_load_bytes=body.entry.spill_load_bytes if body.entry else None,
        stack_bytes=body.entry.stack_bytes if body.entry else None,
        object_bytes=body.object_bytes,
        cpu_seconds=body.cpu_seconds,
        log=body_log(config),
    )


def body_log(config: Config) -> str:
    return f"{config.name} full"


def _common(config: Config) -> dict[str, Any]:
    return {
        "family": "explored_grouped_gemm" if config.grouped else "explored_gemm",
        "inputs": config.inputs,
        "output": "bf16",
        "tile": config.tile,
        "cluster": (1, 1, 1),
        "fusion": "with_c" if config.with_c else "none",
        "swap_ab": config.swap_ab,
        "schedule": config.schedule,
        "unit": config.name,
        "source": "compiler",
    }
