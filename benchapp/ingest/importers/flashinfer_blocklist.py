"""FlashInfer's tactics blocklist: {"_metadata": …, "invalid_tactics": {"op::Runner": [tactic, …]}}.

`flashinfer generate-tactics-blocklist` (0.6.15 and later) writes it from what failed while profiling; it
does not say why.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchapp.ingest.importers import metadata, strict_json
from benchapp.ingest.importers.base import (
    Claims,
    Imported,
    Importer,
    ImportFault,
    TacticLookup,
    file_name,
    named,
    plural,
    printable,
    read_file,
    sha256,
)
from benchapp.ingest.importers.decoding import OLDER, Decoder, finding
from benchapp.ingest.importers.tactics import OPERATIONS, RUNNER

LIMIT = 16 * 1024 * 1024
KEYS = {f"{operation}::{RUNNER}": gemm for operation, gemm in OPERATIONS.items()}


def read(path: Path, claims: Claims, lookup: TacticLookup) -> Imported:
    """Every listed fused MoE tactic as a finding that it does not initialise. Raises ImportFault."""
    body, moment = read_file(path, LIMIT)
    content = strict_json.loads(body)
    listed = metadata.entries(content, "invalid_tactics")
    about = metadata.of(content, claims)
    decoder = Decoder(lookup, about.version, about.arch, claims)
    inputs, output, assumed = decoder.types("the file")
    findings, others, older = [], Counter[str](), 0
    for key, tactics in listed.items():
        if not isinstance(tactics, list):
            raise ImportFault(f"invalid_tactics: expected a list at {printable(key, 120)!r}")
        if key not in KEYS:
            others[key] += len(tactics)
            continue
        for number in sorted(set(map(_number, tactics))):
            decoded = decoder.decode(number, inputs, KEYS[key], f"invalid_tactics {key!r}")
            if decoded is None:
                older += 1
                continue
            gemm, tactic = decoded
            detail = (
                f"{file_name(path)}: invalid_tactics {key!r} names tactic {number} (GEMM{gemm} {tactic})"
                f"{f' on {printable(about.gpu, 80)}' if about.gpu else ''}."
                " The list does not say why it failed."
            )
            detail = f"{detail} {assumed}".rstrip()
            findings.append(
                finding(tactic, inputs, output, "initialised", reason="init_failed", detail=detail)
            )
    names = named([printable(name, 80) for name, _ in others.most_common()])
    notes = []
    if older:
        notes.append(f"{plural(older, 'tactic')} {OLDER}: not stored.")
    if others:
        notes.append(f"{plural(others.total(), 'tactic')} of other operations ({names}): not stored.")
    if not findings:
        raise ImportFault(" ".join(["names no fused MoE tactic.", *notes]).rstrip("."))
    return Imported(
        arch=about.arch,
        stack=about.stack,
        findings=tuple(findings),
        notes=tuple(notes),
        digest=sha256(body),
        moment=moment,
    )


def _number(tactic: object) -> int:
    if type(tactic) is not int:
        raise ImportFault(f"expected a number as a fused MoE tactic, found a {type(tactic).__name__}")
    return tactic


IMPORTER = Importer(
    name="flashinfer-blocklist",
    about="FlashInfer tactics blocklist (JSON): fused MoE tactics that fail to initialise",
    producer="flashinfer tactics blocklist",
    read=read,
)
