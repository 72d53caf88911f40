"""The kernel families that evidence speaks of, and the package whose versions they live in."""

from __future__ import annotations

import dataclasses
from collections.abc import Container


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    label: str
    package: str


FAMILIES = {
    "moe_grouped_gemm": Family("MoE grouped GEMM", "flashinfer"),
    "mm_fp4": Family("dense mm_fp4", "flashinfer"),
    "moe_grouped_gemm_rescue": Family("MoE grouped GEMM, one stage less", "flashinfer"),
    "explored_grouped_gemm": Family("grouped GEMM, explored", "cutlass"),
    "explored_gemm": Family("dense GEMM, explored", "cutlass"),
    "profiled_gemm": Family("GEMM of cutlass_profiler", "cutlass"),
}
#: The family in question: where none is named, this one is meant.
FIRST = "moe_grouped_gemm"
PACKAGES = {"flashinfer": "FlashInfer", "cutlass": "CUTLASS"}
#: What this suffix is added to is compiled with one pipeline stage less than the release takes.
RESCUE = "_rescue"
RESCUES = (f"moe_grouped_gemm{RESCUE}",)
#: Kernels of our own, for the CUTLASS of a release.
EXPLORED = ("explored_grouped_gemm", "explored_gemm")
#: Families that no release ships; what they hold is never counted among a release's own tiles.
NOT_SHIPPED = frozenset({*RESCUES, *EXPLORED})
#: Families of FlashInfer's own kernels, which its tactic lists name.
SHIPPED = ("moe_grouped_gemm", "mm_fp4")
#: Families whose tactics are of a fused MoE's two GEMMs; ids count through both. Others have one GEMM.
OF_TWO_GEMMS = frozenset({"moe_grouped_gemm"})


def label(family: str) -> str:
    return FAMILIES[family].label if family in FAMILIES else family


def package(family: str) -> str:
    """The package whose releases are this family's columns."""
    return FAMILIES[family].package if family in FAMILIES else "flashinfer"


def spoken_of(stack: Container[str]) -> str:
    """The package whose release a document's evidence speaks of: FlashInfer, or without it CUTLASS."""
    return "flashinfer" if "flashinfer" in stack else "cutlass"


def package_label(package: str) -> str:
    return PACKAGES.get(package, package)


def explored_like(family: str) -> list[str]:
    """The explored families whose kernels are of the same kind: a dense one needs less than a grouped one."""
    return ["explored_grouped_gemm" if family in OF_TWO_GEMMS else "explored_gemm"]
