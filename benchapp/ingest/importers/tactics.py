"""What a tactic id of the fused MoE runner means in one FlashInfer version."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: The autotuner's names of the two GEMMs that this runner tunes, and the runner.
OPERATIONS = {"trtllm::fused_moe::gemm1": 1, "trtllm::fused_moe::gemm2": 2}
RUNNER = "MoERunner"
FAMILY = "moe_grouped_gemm"
#: Taken where a file names neither; findings say so.
ASSUMED_INPUTS = "nvfp4xnvfp4"
ASSUMED_OUTPUT = "bf16"


@dataclasses.dataclass(frozen=True, slots=True)
class Tactic:
    """A variant as the tactic list names it; `tile` is (M, N, K) in elements."""

    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile))
        return f"{tile} {self.fusion.upper()} {'swap_ab' if self.swap_ab else 'no swap'}"


class UnknownTactic(Exception):
    """An id that the version does not have, said in one sentence."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tactics:
    """The ids of one version, architecture and input types; absolute in GEMM1 ++ GEMM2."""

    version: str
    arch: str
    inputs: str
    gemm1: Mapping[int, Tactic]
    gemm2: Mapping[int, Tactic]

    def decode(self, number: int, gemm: int | None = None) -> tuple[int, Tactic] | None:
        """(GEMM, variant) of an id; `gemm` where the file names it. Raises UnknownTactic.

        None for an id between those listed: a kernel of an older architecture, which surveys leave out.
        """
        both = {1: self.gemm1, 2: self.gemm2}
        found = [which for which in ((gemm,) if gemm else (1, 2)) if number in both[which]]
        if len(found) == 1:
            return found[0], both[found[0]][number]
        if found:
            raise UnknownTactic(
                f"tactic {number} is in both GEMMs of FlashInfer {self.version}, and the file does not say"
                " which"
            )
        if self._between(number, gemm):
            return None
        of = f"GEMM{gemm} of " if gemm else ""
        raise UnknownTactic(
            f"tactic {number:,} is out of range: {of}FlashInfer {self.version} on {self.arch} has"
            f" {self._range(gemm)} for {self.inputs}"
        )

    def _between(self, number: int, gemm: int | None) -> bool:
        """Whether GEMM1 ++ GEMM2 has this id, though nothing is listed under it."""
        ids = range(max((*self.gemm1, *self.gemm2), default=-1) + 1)
        second = min(self.gemm2, default=len(ids))
        return number in {1: ids[:second], 2: ids[second:]}.get(gemm or 0, ids)

    def _range(self, gemm: int | None) -> str:
        ids = sorted({1: self.gemm1, 2: self.gemm2}[gemm] if gemm else {*self.gemm1, *self.gemm2})
        return f"ids {ids[0]} to {ids[-1]}" if ids else "none"
