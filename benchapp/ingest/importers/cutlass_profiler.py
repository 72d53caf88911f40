"""cutlass_profiler's CSV: which operations passed verification, ran, or failed.

Columns are found by name, since pivot tags stand before them and older files lack some. A row whose
Disposition is `incorrect` is a failure even where its Status is `success` and its GFLOPs are the best of all.
Times are not imported: the file names neither GPU nor clock.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from pathlib import Path

from benchapp.ingest.importers import profiler_names
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
    release,
    sha256,
)
from workers.bench.document import Finding, Reason, Stage

LIMIT = 128 * 1024 * 1024
MOST_ROWS = 2_000_000
FIELD_LIMIT = 1_000_000
NEEDED = ("Operation", "Disposition", "Status")

_Outcome = tuple[Stage, bool, Reason | None]
#: From the one that decides about an operation to the one that does only where there is no other.
_RANKED: tuple[_Outcome, ...] = (
    ("correct", False, "incorrect"),
    ("initialised", False, "init_failed"),
    ("ran", False, "launch_failed"),
    ("correct", True, None),
    ("ran", True, None),
    ("initialised", False, "not_supported"),
)
_OF_DISPOSITION: dict[str, _Outcome] = {
    "passed": ("correct", True, None),
    "not_verified": ("ran", True, None),
    "incorrect": ("correct", False, "incorrect"),
    "not_supported": ("initialised", False, "not_supported"),
}
_WORDS: dict[_Outcome, str] = {
    ("correct", True, None): "verified correct",
    ("correct", False, "incorrect"): "incorrect",
    ("ran", True, None): "run without verification",
    ("ran", False, "launch_failed"): "failed while running",
    ("initialised", False, "init_failed"): "failed to initialise",
    ("initialised", False, "not_supported"): "not supported",
}
#: Status words of a failed row that speak of the problem's sizes.
_OF_PROBLEM = frozenset({"misaligned_operand", "invalid_problem", "not_supported"})
#: Rows that say nothing of the tile.
_SILENT = ("not_run", "invalid_problem")


@dataclasses.dataclass(slots=True)
class _Operation:
    """One operation's rows: how many ended how, and where the first of each stands."""

    names: dict[str, None] = dataclasses.field(default_factory=dict)
    ended: Counter[_Outcome] = dataclasses.field(default_factory=Counter)
    first: dict[_Outcome, tuple[int, str]] = dataclasses.field(default_factory=dict)


def read(path: Path, claims: Claims, lookup: TacticLookup) -> Imported:
    """One finding an operation, over all its problems. Raises ImportFault."""
    body, moment = read_file(path, LIMIT)
    if "cutlass" not in claims.stack:
        raise ImportFault("the file names no CUTLASS version: give it with --stack cutlass=VERSION")
    if "flashinfer" in claims.stack:
        raise ImportFault("the file speaks of a CUTLASS release, so --stack flashinfer=… cannot belong to it")
    version = release(claims.stack["cutlass"], "cutlass")
    operations: dict[profiler_names.Operation, _Operation] = {}
    left: Counter[str] = Counter()
    _gather(body, operations, left)
    arch = _arch(operations, claims)
    for operation in [one for one in operations if one.arch != arch]:
        rows = operations.pop(operation)
        left[f"of operations built for {operation.arch}"] += rows.ended.total()
    notes = tuple(f"{plural(count, 'row')} {why}: not stored." for why, count in left.most_common())
    if not operations:
        raise ImportFault(" ".join(["holds no CUTLASS 3.x GEMM that was run.", *notes]).rstrip("."))
    return Imported(
        arch=arch,
        stack={**claims.stack, "cutlass": version},
        findings=tuple(_finding(one, rows, file_name(path)) for one, rows in operations.items()),
        notes=(*notes, "Times of cutlass_profiler are not imported."),
        digest=sha256(body),
        moment=moment,
    )


def _gather(body: bytes, operations: dict[profiler_names.Operation, _Operation], left: Counter[str]) -> None:
    if b"\x00" in body:
        raise ImportFault("holds NUL bytes, so it is no CSV text")
    csv.field_size_limit(FIELD_LIMIT)
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(body), "utf-8-sig", "replace", newline=""))
    try:
        columns = _columns(next(rows, []))
        for count, row in enumerate(rows, 1):
            if count > MOST_ROWS:
                raise ImportFault(f"holds more than {MOST_ROWS:,} rows")
            if row:
                _row(row, rows.line_num, columns, operations, left)
    except csv.Error as error:
        raise ImportFault(f"line {rows.line_num:,} is no CSV: {error}") from None


def _columns(header: list[str]) -> dict[str, int]:
    columns = {name.strip(): at for at, name in reversed(list(enumerate(header)))}
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise ImportFault(f"line 1 names no column {named(missing)}, as a CSV of cutlass_profiler does")
    return columns


def _row(
    row: list[str],
    line: int,
    columns: dict[str, int],
    operations: dict[profiler_names.Operation, _Operation],
    left: Counter[str],
) -> None:
    if len(row) <= max(columns[name] for name in NEEDED):
        left["that end early"] += 1
        return
    name, disposition, status = (row[columns[column]].strip() for column in NEEDED)
    provider = row[columns["Provider"]].strip() if columns.get("Provider", len(row)) < len(row) else "CUTLASS"
    disposition = disposition.lower().replace(" ", "_")
    if provider.upper() != "CUTLASS":
        left[f"of provider {printable(provider, 40)}"] += 1
        return
    operation = profiler_names.parse(name)
    if operation is None:
        left["whose operation is no CUTLASS 3.x GEMM"] += 1
        return
    outcome = _outcome(disposition, status.lower())
    if outcome is None:
        left[disposition if disposition in _SILENT else "of unknown disposition"] += 1
        return
    rows = operations.setdefault(operation, _Operation())
    rows.names[name] = None
    rows.ended[outcome] += 1
    problem = row[columns["Problem"]] if columns.get("Problem", len(row)) < len(row) else ""
    rows.first.setdefault(outcome, (line, printable(problem, 20)))


def _outcome(disposition: str, status: str) -> _Outcome | None:
    """A failed row whose Status is success failed while it ran. Any other Status came from can_implement(),
    where it is about the problem, or from initialize()."""
    if disposition != "failed":
        return _OF_DISPOSITION.get(disposition)
    if status == "success":
        return "ran", False, "launch_failed"
    return "initialised", False, "not_supported" if status in _OF_PROBLEM else "init_failed"


def _arch(operations: dict[profiler_names.Operation, _Operation], claims: Claims) -> str:
    found = sorted({operation.arch for operation in operations})
    if claims.arch is not None:
        if found and claims.arch not in found:
            raise ImportFault(
                f"its operations are built for {named(found)}, but --gpu says {claims.gpu or claims.arch}"
                f" ({claims.arch})"
            )
        return claims.arch
    if len(found) > 1:
        raise ImportFault(f"holds operations built for {named(found)}: name one with --gpu")
    return found[0] if found else ""


def _finding(operation: profiler_names.Operation, rows: _Operation, name: str) -> Finding:
    outcome = next(one for one in _RANKED if rows.ended[one])
    stage, passed, reason = outcome
    line, problem = rows.first[outcome]
    tried = rows.ended.total()
    ended = ", ".join(f"{rows.ended[one]:,}/{tried:,} {_WORDS[one]}" for one in _RANKED if rows.ended[one])
    others = f" ({plural(len(rows.names), 'operation')} of this tile)" if len(rows.names) > 1 else ""
    return Finding(
        family="profiled_gemm",
        inputs=operation.inputs,
        output=operation.output,
        tile=operation.tile,
        cluster=operation.cluster,
        fusion="none",
        swap_ab=False,
        schedule=operation.schedule,
        stage=stage,
        passed=passed,
        reason=reason,
        source="imported",
        stages=operation.stages,
        detail=(
            f"{name} line {line:,}{f' problem {problem}' if problem else ''}: of its problems {ended}."
            f" {named(list(rows.names))}{others}"
        ),
    )


IMPORTER = Importer(
    name="cutlass-profiler",
    about="cutlass_profiler CSV: CUTLASS 3.x GEMMs, verified, run or failed (needs --stack cutlass=…)",
    producer="cutlass_profiler CSV",
    read=read,
)
