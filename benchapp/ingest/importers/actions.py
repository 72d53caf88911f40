"""From a file of another tool to a document in the inbox, and through the one ingest."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from benchapp.catalog.locks import lock
from benchapp.catalog.models import Release
from benchapp.ingest import schema
from benchapp.ingest.actions import ingest
from benchapp.ingest.importers.aiconfigurator_rows import Rows
from benchapp.ingest.importers.base import (
    Claims,
    Imported,
    Importer,
    ImportFault,
    Table,
    TableImporter,
    file_name,
    printable,
    shown_path,
)
from benchapp.ingest.importers.listings import tactics_of
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from benchapp.tiles.families import spoken_of
from workers.bench import hardware
from workers.bench.document import Document, Target

_ARCH = re.compile(r"sm\d{2,3}")
_WORD = re.compile(r"[A-Za-z0-9_.:+\-]{1,40}")
_OUTPUT = re.compile(r"[a-z0-9]{1,12}")
#: The log that says which file a document was made from, and holds the lines it rests on.
LOG = "source"
EXCERPT = 400_000


def claims_of(
    *, gpu: str | None, stack: Iterable[str], inputs: str | None = None, output: str | None = None
) -> Claims:
    """What was said on the command line. `stack` are texts "component=version". Raises ImportFault."""
    arch = None
    if gpu is not None:
        model = hardware.lookup(gpu)
        arch = model.arch if model else gpu.strip().lower()
        if _ARCH.fullmatch(arch) is None:
            known = ", ".join(one.name for one in hardware.models())
            raise ImportFault(
                f"--gpu {printable(gpu, 80)!r} is not known: expected an architecture such as sm120,"
                f" or one of {known}"
            )
    components: dict[str, str] = {}
    for item in stack:
        name, given, version = item.partition("=")
        if (
            not given
            or not _WORD.fullmatch(name)
            or not 1 <= len(version) <= 120
            or not version.isprintable()
        ):
            raise ImportFault(
                f"--stack {printable(item, 80)!r}: expected component=version, such as flashinfer=0.6.3"
            )
        if components.setdefault(name, version) != version:
            raise ImportFault(f"--stack names {name} twice: {components[name]} and {version}")
    if inputs is not None and not _WORD.fullmatch(inputs):
        raise ImportFault(f"--inputs {printable(inputs, 80)!r}: expected a word such as nvfp4xnvfp4")
    if output is not None and not _OUTPUT.fullmatch(output):
        raise ImportFault(f"--output {printable(output, 80)!r}: expected a word such as bf16")
    return Claims(gpu=gpu, arch=arch, stack=components, inputs=inputs, output=output)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one path. `state` is stored, known, or for a dry run new; `document` its number."""

    path: str
    state: str
    document: int | None
    release: str
    arch: str
    #: how many findings of which (stage, passed)
    findings: dict[tuple[str, bool], int]
    notes: tuple[str, ...]
    #: of a table: what became of its rows, as `aiconfigurator_rows.Tally` counts them
    rows: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A place that a path leads to, and why nothing of it was stored."""

    path: str
    fault: ImportFault


def import_path(
    importer: Importer, path: Path, claims: Claims, *, dry_run: bool = False, user: User | None = None
) -> Outcome:
    """Import one file or directory; the same content with the same claims changes nothing.

    One transaction: whatever goes wrong, nothing of the file is stored. Raises ImportFault.
    """
    imported = importer.read(path, claims, tactics_of)
    _check_release(imported)
    first_line = _first_line(importer, imported, claims)
    body = _document(importer, imported, path, claims, first_line).dumps().encode()
    if len(body) > settings.DOCUMENT_LIMIT_BYTES:
        raise ImportFault(f"says more than a document of {settings.DOCUMENT_LIMIT_BYTES:,} bytes can hold")
    try:
        schema.parse(body)
    except schema.Fault as fault:
        raise ImportFault(f"cannot be made a document: {fault}") from None
    if dry_run:
        known = _known(first_line)
        return _outcome(path, imported, "known" if known else "new", known)
    with transaction.atomic():
        lock("import")
        known = _known(first_line)
        if known is None:
            row, _ = receive(body, origin=Row.Origin.IMPORT, name=file_name(path))
            audit.record(
                user,
                "import",
                f"document {row.pk}",
                format=importer.name,
                name=row.name,
                sha256=imported.digest,
            )
            row = ingest(row.pk)
            if row.state == Row.State.REJECTED:
                raise ImportFault(f"was refused: {row.fault}")
            return _outcome(path, imported, "stored", row.pk)
    return _outcome(path, imported, "known", known)


def import_tables(
    importer: TableImporter, path: Path, claims: Claims, *, dry_run: bool = False, user: User | None = None
) -> Iterator[Outcome | Refusal]:
    """Import the tables that a path leads to, each a document and a transaction of its own.

    Yields what became of each: one that is refused does not stop the others. Raises ImportFault where the
    path leads to none.
    """
    for place in importer.find(path):
        try:
            yield _import_table(importer, place, claims, dry_run=dry_run, user=user)
        except ImportFault as fault:
            yield Refusal(shown_path(place), fault)


def _import_table(
    importer: TableImporter, place: Path, claims: Claims, *, dry_run: bool, user: User | None
) -> Outcome:
    table = importer.read(place, claims)
    first_line = f"{importer.name} {table.digest}"
    if dry_run:
        known = _known_table(first_line)
        return _kept(place, "known", known) if known else _would_keep(place, table)
    with transaction.atomic():
        lock("import")
        known = _known_table(first_line)
        if known is not None:
            return _kept(place, "known", known)
        row, _ = receive(table.body, origin=Row.Origin.IMPORT, name=table.name)
        audit.record(
            user, "import", f"document {row.pk}", format=importer.name, name=row.name, table=table.digest
        )
        row = ingest(row.pk)
        if row.state == Row.State.REJECTED:
            raise ImportFault(f"was refused: {row.fault.removesuffix('.')}")
        row.facts["imported"] = first_line
        row.save(update_fields=["facts"])
    return _kept(place, "stored", row)


def _known_table(first_line: str) -> Row | None:
    accepted = Row.objects.filter(origin=Row.Origin.IMPORT, state=Row.State.ACCEPTED)
    found = accepted.filter(facts__imported=first_line).select_related("stack", "target")
    return found.defer("body").first()


def _kept(place: Path, state: str, row: Row) -> Outcome:
    assert row.stack is not None and row.target is not None  # accepted documents have both
    return Outcome(
        path=shown_path(place),
        state=state,
        document=row.pk,
        release=str(row.stack),
        arch=row.target.arch,
        findings={},
        notes=tuple(row.facts["notes"]),
        rows=row.facts["rows"],
    )


def _would_keep(place: Path, table: Table) -> Outcome:
    rows = Rows(table.body)
    for _ in rows.batches():
        pass
    notes = (*rows.tally.notes(), *rows.document.notes)
    if not rows.tally.stored:
        raise ImportFault(" ".join(["holds nothing that can be stored.", *notes]).removesuffix("."))
    return Outcome(
        path=shown_path(place),
        state="new",
        document=None,
        release=" ".join(f"{name} {version}" for name, version in rows.document.stack.items()),
        arch=rows.document.target.arch,
        findings={},
        notes=notes,
        rows=rows.tally.as_dict(),
    )


def _check_release(imported: Imported) -> None:
    """A CUTLASS version that somebody names must not overwrite what surveys of that release read."""
    told = imported.stack.get("cutlass")
    if told is None or "flashinfer" not in imported.stack:
        return
    version = imported.stack["flashinfer"]
    known = Release.objects.filter(package="flashinfer", version=version).exclude(cutlass="").first()
    if known is not None and known.cutlass != told:
        raise ImportFault(f"FlashInfer {version} bundles CUTLASS {known.cutlass}, but --stack says {told}")


def _first_line(importer: Importer, imported: Imported, claims: Claims) -> str:
    """What makes an import the same as an earlier one, whatever the file's name and time of change."""
    said = [f"--gpu {claims.gpu}"] if claims.gpu else []
    said += [f"--stack {name}={version}" for name, version in sorted(claims.stack.items())]
    said += [f"--inputs {claims.inputs}"] if claims.inputs else []
    said += [f"--output {claims.output}"] if claims.output else []
    return " ".join([f"{importer.name} sha256 {imported.digest}", *said])


def _known(first_line: str) -> int | None:
    return (
        Row.objects.filter(
            origin=Row.Origin.IMPORT,
            state=Row.State.ACCEPTED,
            evidencelog__name=LOG,
            evidencelog__text__startswith=f"{first_line}\n",
        )
        .values_list("pk", flat=True)
        .first()
    )


def _document(
    importer: Importer, imported: Imported, path: Path, claims: Claims, first_line: str
) -> Document:
    name = file_name(path)
    moment = imported.moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    smem = {model.smem_optin_bytes for model in hardware.models() if model.arch == imported.arch}
    command = ["manage.py", "import", importer.name, name]
    for option, value in (("--gpu", claims.gpu), ("--inputs", claims.inputs), ("--output", claims.output)):
        command += [option, value] if value else []
    for component, version in claims.stack.items():
        command += ["--stack", f"{component}={version}"]
    log = "\n".join([first_line, f"file {name}", *imported.notes, imported.excerpt])
    return Document(
        kind="tiles",
        command=tuple(command),
        started_at=moment,
        finished_at=moment,
        target=Target(
            kind="arch",
            arch=imported.arch,
            properties={"smem_optin_bytes": smem.pop()} if len(smem) == 1 else {},
        ),
        stack=imported.stack,
        evidence=tuple(dataclasses.replace(finding, log=LOG) for finding in imported.findings),
        logs={LOG: log if len(log) <= EXCERPT else log[:EXCERPT] + "\n… cut short"},
        producer=importer.producer,
    )


def _outcome(path: Path, imported: Imported, state: str, document: int | None) -> Outcome:
    package = spoken_of(imported.stack)
    return Outcome(
        path=shown_path(path),
        state=state,
        document=document,
        release=f"{package} {imported.stack[package]}",
        arch=imported.arch,
        findings=dict(Counter((finding.stage, finding.passed) for finding in imported.findings)),
        notes=imported.notes,
    )
