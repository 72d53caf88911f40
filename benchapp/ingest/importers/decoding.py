"""Tactic ids of one file into variants, with what the file leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.ingest.importers.base import Claims, ImportFault, TacticLookup
from benchapp.ingest.importers.tactics import (
    ASSUMED_INPUTS,
    ASSUMED_OUTPUT,
    FAMILY,
    Tactic,
    Tactics,
    UnknownTactic,
)
from workers.bench.document import Finding, Reason, Stage

#: What is said of an id that `Decoder.decode` gives no variant for.
OLDER = "that mean kernels of an older architecture, which surveys leave out"


class Decoder:
    """What the ids of one version mean on one architecture; ImportFault where it was never surveyed."""

    def __init__(self, lookup: TacticLookup, version: str, arch: str, claims: Claims) -> None:
        self.version, self.arch, self.claims = version, arch, claims
        self._tactics: Mapping[str, Tactics] = lookup(version, arch)
        if not self._tactics:
            raise ImportFault(
                f"the tactic list of FlashInfer {version} on {arch}, without which no id means anything, is"
                f" not known here: survey it first (manage.py survey --flashinfer {version} --arch {arch}"
                " --wait)"
            )

    def lists(self, inputs: str) -> bool:
        return inputs in self._tactics

    def decode(self, number: int, inputs: str, gemm: int | None, where: str) -> tuple[int, Tactic] | None:
        """(GEMM, variant) of an id, or None for a kernel of an older architecture.

        Raises ImportFault that begins with the place in the file.
        """
        try:
            return self._tactics[inputs].decode(number, gemm)
        except UnknownTactic as error:
            raise ImportFault(f"{where}: {error}") from None

    def types(self, where: str) -> tuple[str, str, str]:
        """(inputs, output, sentence on what is assumed) of a file that names neither. Raises ImportFault."""
        inputs = self.claims.inputs or ASSUMED_INPUTS
        if not self.lists(inputs):
            raise ImportFault(
                f"the survey of FlashInfer {self.version} on {self.arch} lists no tactics of {inputs}, only"
                f" of {', '.join(sorted(self._tactics))}: name the input types with --inputs"
            )
        output, assumed = self.output()
        words = [inputs] * (self.claims.inputs is None) + [f"output {output}"] * assumed
        return inputs, output, f"Assumed, since {where} does not tell: {', '.join(words)}." if words else ""

    def output(self, found: str | None = None) -> tuple[str, bool]:
        """(output type, whether it is assumed); `found` where the file names it."""
        output = found or self.claims.output
        return output or ASSUMED_OUTPUT, output is None


def finding(
    tactic: Tactic,
    inputs: str,
    output: str,
    stage: Stage,
    *,
    detail: str,
    reason: Reason | None = None,
    chosen_for: str | None = None,
) -> Finding:
    """What an imported file says of a tactic's variant: passed where there is no reason."""
    return Finding(
        family=FAMILY,
        inputs=inputs,
        output=output,
        tile=tactic.tile,
        cluster=tactic.cluster,
        fusion=tactic.fusion,
        swap_ab=tactic.swap_ab,
        schedule=tactic.schedule,
        stage=stage,
        passed=reason is None,
        reason=reason,
        source="imported",
        chosen_for=chosen_for,
        detail=detail,
    )
