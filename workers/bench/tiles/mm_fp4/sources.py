"""Where a FlashInfer wheel keeps the CUTLASS backend of mm_fp4, architecture by architecture."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from workers.bench.tiles.sources import DATA

#: the file with the functions that write the units of every GEMM module
MODULES = "flashinfer/jit/gemm/core.py"
TEMPLATES = f"{DATA}/csrc"
HEADERS = f"{DATA}/include/flashinfer/gemm"
CONFIGS = f"{HEADERS}/cutlass_gemm_configs.h"

STREAM_K = "stream_k"
#: K of SM103's own kernels, which nothing else has
SM103_K = 768
STORE256 = "sm103_generic_store256"  # their namespace


@dataclasses.dataclass(frozen=True, slots=True)
class Module:
    """`function` writes the units and names the -D options; `dispatch` holds the list of tactics and the
    switch from a tactic to a kernel; `kernels` are the headers that define those kernels. `pairs` says
    whether the architecture has kernels of which two SMs share a tile."""

    function: str
    dispatch: str
    kernels: tuple[str, ...]
    pairs: bool

    def schedule(self, sms: int, *, stream_k: bool = False, store256: bool = False) -> str:
        """The word for how a kernel runs: `auto` or `stream_k`, or where pairs exist `1sm` or `2sm`.

        `store256` marks the SM103 kernels that write D from registers, 32 bytes at a time.
        """
        if stream_k:
            return STREAM_K
        word = f"{sms}sm" if self.pairs else "auto"
        return f"{word}_store256" if store256 else word


_SM100 = Module(
    "gen_gemm_sm100_module_cutlass_fp4",
    "fp4_gemm_cutlass_template.h",
    ("fp4_gemm_template_sm100.h",),
    pairs=True,
)
_SM103 = Module(
    "gen_gemm_sm103_module_cutlass_fp4",
    "fp4_gemm_cutlass_template_sm103.h",
    ("fp4_gemm_template_sm100.h", "fp4_gemm_template_sm103.h"),
    pairs=True,
)
_SM120 = Module(
    "gen_gemm_sm120_module_cutlass_fp4",
    "fp4_gemm_cutlass_template_sm120.h",
    ("fp4_gemm_template_sm120.h",),
    pairs=False,
)


def module(root: Path, arch: str) -> Module | None:
    """The module that mm_fp4 loads on `arch` in the wheel unpacked at `root`; None if it has none for it.

    Releases before their SM103 module load the SM100 one there.
    """
    candidates = {
        "sm100": (_SM100,),
        "sm103": (_SM103, _SM100),
        "sm120": (_SM120,),
        "sm121": (_SM120,),
    }.get(arch, ())
    return next((one for one in candidates if (root / HEADERS / one.dispatch).is_file()), None)
