"""The architectures whose grouped NVFP4 path the survey is proven on."""

from __future__ import annotations

import dataclasses

from workers.bench.document import BenchError


@dataclasses.dataclass(frozen=True, slots=True)
class Arch:
    """`smem_optin_bytes` is the most shared memory one block may ask for (CUDA programming guide,
    compute capability table). `module` is the number that FlashInfer's generator and its
    `gen_cutlass_fused_moe_sm…_module` use, `tag` the CUTLASS ArchTag in what it generates."""

    name: str
    compute: str
    module: str
    tag: str
    smem_optin_bytes: int


ARCHES = {
    # FlashInfer builds its SM120 module for SM121 as well; only the compile target differs.
    arch.name: arch
    for arch in (
        Arch("sm120", "compute_120a", "120", "Sm120", 101_376),
        Arch("sm121", "compute_121a", "120", "Sm120", 101_376),
    )
}


def find(name: str) -> Arch:
    arch = ARCHES.get(name.strip().lower())
    if arch is None:
        raise BenchError(
            "unknown_arch", f"Unknown arch {name[:40]!r}; the tile survey knows {', '.join(ARCHES)}."
        )
    return arch
