"""Logs of servers that use FlashInfer (vLLM, SGLang, TensorRT-LLM …): tactics that failed while profiling.

Read line by line; a log of any size takes the memory of a few lines.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from packaging.version import Version

from benchapp.ingest.importers import log_lines
from benchapp.ingest.importers.base import (
    Claims,
    Imported,
    Importer,
    ImportFault,
    TacticLookup,
    agreed_arch,
    agreed_version,
    file_name,
    named,
    open_file,
    plural,
    printable,
    release,
    written_at,
)
from benchapp.ingest.importers.decoding import OLDER, Decoder, finding
from benchapp.ingest.importers.tactics import OPERATIONS
from workers.bench.document import Reason, Stage

#: Tactics of one runner; more different ones than this are no log of FlashInfer.
MOST = 10_000
EXCERPT_LINE = 700

_What = tuple[int | None, int, Stage, Reason]


@dataclasses.dataclass(slots=True)
class _Failure:
    first_line: int
    said: str
    count: int = 0


@dataclasses.dataclass(slots=True)
class _Seen:
    """What a log says, gathered in one pass."""

    failures: dict[_What, _Failure] = dataclasses.field(default_factory=dict)
    versions: dict[str, int] = dataclasses.field(default_factory=dict)
    folders: dict[str, int] = dataclasses.field(default_factory=dict)
    left: Counter[str] = dataclasses.field(default_factory=Counter)
    counted: int = 0
    lost_at: int | None = None


class _Digesting(io.RawIOBase):
    """Hashes what is read through it."""

    def __init__(self, source: BinaryIO) -> None:
        self.source, self.digest = source, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # None where a special file has nothing to say now
        count = int(self.source.readinto(buffer) or 0)  # type: ignore[attr-defined]
        self.digest.update(buffer[:count])
        return count


def read(path: Path, claims: Claims, lookup: TacticLookup) -> Imported:
    """Every failed fused MoE tactic as a finding; repeated lines are one. Raises ImportFault."""
    file, status = open_file(path)
    with file:
        hashing = _Digesting(file)
        try:
            seen = _gather(io.BufferedReader(hashing, 1024 * 1024))
        except OSError as error:
            raise ImportFault(error.strerror or "cannot be read") from None
    if status.st_size == 0:
        raise ImportFault("the file is empty")
    if not seen.failures:
        raise ImportFault(_nothing(seen))
    version = _version(seen, claims)
    arch = agreed_arch(claims, _arch(seen), "the log")
    decoder = Decoder(lookup, version, arch, claims)
    inputs, output, assumed = decoder.types("a log")
    findings, excerpt = [], []
    for (said_gemm, number, stage, reason), failure in sorted(
        seen.failures.items(), key=lambda item: item[1].first_line
    ):
        decoded = decoder.decode(number, inputs, said_gemm, f"line {failure.first_line:,}")
        if decoded is None:
            seen.left[OLDER] += 1
            continue
        gemm, tactic = decoded
        again = f" and {plural(failure.count - 1, 'more line')}" if failure.count > 1 else ""
        detail = (
            f"{file_name(path)} line {failure.first_line:,}{again}: tactic {number} (GEMM{gemm} {tactic})"
            f" failed while the autotuner of FlashInfer {version} tried it."
        )
        detail = f"{detail} {assumed}".rstrip()
        excerpt.append(f"line {failure.first_line:,}: {failure.said}")
        findings.append(finding(tactic, inputs, output, stage, reason=reason, detail=detail))
    if not findings:
        raise ImportFault(_nothing(seen))
    return Imported(
        arch=arch,
        stack={**claims.stack, "flashinfer": version},
        findings=tuple(findings),
        notes=_notes(seen),
        digest=hashing.digest.hexdigest(),
        moment=written_at(status),
        excerpt="\n".join(excerpt),
    )


def _gather(source: io.BufferedReader) -> _Seen:
    seen = _Seen()
    for line in log_lines.interesting(source):
        for version, folder in log_lines.versions(line):
            if len(seen.versions) < MOST:
                seen.versions.setdefault(version, line.number)
            if folder:
                seen.folders.setdefault(folder, line.number)
        for skip in log_lines.skipped(line):
            _take(skip, line.number, seen)
        seen.counted += log_lines.counted(line)
        if seen.lost_at is None and log_lines.lost_context(line.text):
            seen.lost_at = line.number
    return seen


def _take(skip: log_lines.Skipped, line: int, seen: _Seen) -> None:
    gemm = OPERATIONS.get(skip.operation) if skip.operation else None
    meaning = log_lines.meaning(skip.why)
    if log_lines.CUTLASS_RUNNER not in skip.runner or (skip.operation and gemm is None):
        seen.left["of other runners"] += 1
    elif skip.tactic is None or skip.tactic < 0:
        seen.left["whose tactic is no id"] += 1
    elif meaning is None:
        seen.left["whose message says nothing certain of the tile"] += 1
    elif seen.lost_at is not None:
        seen.left[f"after the CUDA error at line {seen.lost_at:,}, which may be its consequence"] += 1
    else:
        what = (gemm, skip.tactic, *meaning)
        if what not in seen.failures and len(seen.failures) >= MOST:
            raise ImportFault(f"names more than {MOST:,} different tactics")
        failure = seen.failures.setdefault(what, _Failure(line, printable(skip.said, EXCERPT_LINE)))
        failure.count += 1


def _version(seen: _Seen, claims: Claims) -> str:
    """The one version the log and the person agree on."""
    named_in_log: dict[Version, tuple[str, int]] = {}
    for text, line in seen.versions.items():
        try:
            told = release(text, "flashinfer")
        except ImportFault:
            continue
        named_in_log.setdefault(Version(told), (told, line))
    if len(named_in_log) > 1:
        said = named([f"{text} at line {line:,}" for text, line in named_in_log.values()])
        raise ImportFault(f"the log names several FlashInfer versions ({said}): split it, one version a file")
    found = next(iter(named_in_log.values()), None)
    return agreed_version(
        "flashinfer",
        claims.stack.get("flashinfer"),
        found[0] if found else None,
        f"the log at line {found[1]:,}" if found else "the log",
    )


def _arch(seen: _Seen) -> str | None:
    """The architecture of the cache folder that stack traces name, where they name one."""
    arches = {f"sm{folder.rstrip('af')}" for folder in seen.folders}
    return arches.pop() if len(arches) == 1 else None


def _nothing(seen: _Seen) -> str:
    return " ".join(["names no fused MoE tactic that failed.", *_notes(seen)]).rstrip(".")


def _notes(seen: _Seen) -> tuple[str, ...]:
    left = seen.left.most_common()
    notes = [f"{plural(count, 'failed tactic')} {why}: not stored." for why, count in left]
    if seen.counted:
        notes.append(
            f"{plural(seen.counted, 'skipped tactic')} only counted in the log: FlashInfer names them with"
            " FLASHINFER_LOGGING_LEVEL=debug."
        )
    return tuple(notes)


IMPORTER = Importer(
    name="flashinfer-log",
    about="log of a server (vLLM, SGLang …): fused MoE tactics that failed while profiling",
    producer="flashinfer server log",
    read=read,
)
