"""The architectures that the survey knows."""

from __future__ import annotations

import dataclasses

from workers.bench.document import BenchError


@dataclasses.dataclass(frozen=True, slots=True)
class Arch:
    """`smem_optin_bytes` is the most shared memory one block may ask for: the table of compute
    capabilities in the CUDA programming guide, 227 KB on 9.0, 10.0 and 10.3, 99 KB on 12.x. `module` is the
    number that FlashInfer's generator and its `gen_cutlass_fused_moe_sm…_module` use, `tags` the CUTLASS
    ArchTags in what it generates, the architecture's own first. `sm` is the device's compute capability."""

    name: str
    compute: str
    module: str
    tags: tuple[str, ...]
    smem_optin_bytes: int

    @property
    def sm(self) -> int:
        return int(self.name.removeprefix("sm"))


ARCHES = {
    # FlashInfer builds its SM120 module for SM121 as well; only the compile target differs. On SM103 it
    # offers SM100's kernels beside SM103's own.
    arch.name: arch
    for arch in (
        Arch("sm120", "compute_120a", "120", ("Sm120",), 101_376),
        Arch("sm121", "compute_121a", "120", ("Sm120",), 101_376),
        Arch("sm90", "compute_90a", "90", ("Sm90",), 232_448),
        Arch("sm100", "compute_100a", "100", ("Sm100",), 232_448),
        Arch("sm103", "compute_103a", "103", ("Sm103", "Sm100"), 232_448),
    )
}


def find(name: str) -> Arch:
    arch = ARCHES.get(name.strip().lower())
    if arch is None:
        raise BenchError(
            "unknown_arch", f"Unknown arch {name[:40]!r}; the tile survey knows {', '.join(ARCHES)}."
        )
    return arch
