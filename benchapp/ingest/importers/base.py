"""What every importer takes and gives; nothing here knows a format or the database."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from packaging.version import InvalidVersion, Version

from benchapp.ingest.importers.tactics import Tactics
from workers.bench import hardware
from workers.bench.document import Finding

#: The most of a detail or an excerpt that one entry of a file may fill, characters.
QUOTED = 300
#: The most shown of a list in one sentence.
LISTED = 5


class ImportFault(Exception):
    """Why a file cannot be imported: one sentence for a person, without the file's name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claims:
    """What the person says of a file: things that it may not name itself.

    `gpu` is a product's name as they typed it, `arch` what follows from it (or what they typed). `stack` are
    versions. `inputs` and `output` are the types of the GEMM; None where nothing was said.
    """

    gpu: str | None = None
    arch: str | None = None
    stack: Mapping[str, str] = dataclasses.field(default_factory=dict)
    inputs: str | None = None
    output: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """What a file says. `digest` is the SHA-256 of what was read, `moment` when the file was last written,
    `notes` are sentences on what was left out and why, `excerpt` the very lines that findings rest on.
    """

    arch: str
    stack: dict[str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    digest: str
    moment: dt.datetime
    excerpt: str = ""


#: (FlashInfer version, arch) → tactics by input types; empty where that version was never surveyed.
TacticLookup = Callable[[str, str], Mapping[str, Tactics]]


@dataclasses.dataclass(frozen=True, slots=True)
class Importer:
    """One format of findings. `read` raises ImportFault, and nothing else, whatever the path leads to."""

    name: str
    about: str
    producer: str
    read: Callable[[Path, Claims, TacticLookup], Imported]


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of measurements, one document of its own. `body` is what the inbox keeps, and all that
    ingest reads (`benchapp.ingest.importers.bundle`); `digest` is the SHA-256 of what was measured in it,
    whose numbers they are included, and decides what counts as the same import.
    """

    name: str
    digest: str
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class TableImporter:
    """One format of measurements. A path leads to any number of places, each of them to one table.

    Both raise ImportFault, and nothing else; a place that cannot be read does not stop the others.
    """

    name: str
    about: str
    producer: str
    find: Callable[[Path], Sequence[Path]]
    read: Callable[[Path, Claims], Table]


def printable(text: str, limit: int = QUOTED) -> str:
    """Text of strangers that can be stored and shown: no control, format or surrogate characters."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def file_name(path: Path) -> str:
    """The last part of a path, whatever bytes it is made of."""
    name = path.name or Path(os.path.abspath(path)).name  # noqa: PTH100 -- "." has no name of its own
    return shown_path(name, 120)


def shown_path(path: Path | str, limit: int = 1_000) -> str:
    """A path for a terminal or a report, whatever bytes it is made of."""
    return printable(os.fsencode(path).decode("utf-8", "replace"), limit)


def named(items: list[str]) -> str:
    """ "a, b, c and 4 more"."""
    rest = len(items) - LISTED
    return ", ".join(items[:LISTED]) + (f" and {rest:,} more" if rest > 0 else "")


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def open_file(path: Path) -> tuple[BinaryIO, os.stat_result]:
    """A regular file, opened; a pipe or device is never waited for. Raises ImportFault."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise ImportFault(_reason(error)) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise ImportFault(f"expected a file, found {kind}")
    return os.fdopen(descriptor, "rb"), status


def read_file(path: Path, limit: int) -> tuple[bytes, dt.datetime]:
    """All bytes of a regular file and when it was last written. Raises ImportFault."""
    source, status = open_file(path)
    with source:
        try:
            body = source.read(limit + 1) or b""
        except OSError as error:
            raise ImportFault(_reason(error)) from None
    if len(body) > limit:
        raise ImportFault(f"larger than {limit:,} bytes, the most that is read of this format")
    if not body.strip():
        raise ImportFault("the file is empty")
    return body, written_at(status)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "this is no path"


def written_at(status: os.stat_result) -> dt.datetime:
    """A file's time of change, brought into what a document may claim."""
    now = dt.datetime.now(dt.UTC)
    earliest = dt.datetime(2015, 1, 1, tzinfo=dt.UTC)
    try:
        return min(max(dt.datetime.fromtimestamp(status.st_mtime, dt.UTC), earliest), now)
    except (OverflowError, ValueError, OSError):
        return now


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def release(text: str, package: str) -> str:
    """A version as releases are named here: "0.6.3" for "v0.6.3" and "0.6.3+cu130". Raises ImportFault."""
    try:
        return Version(text[:80]).public
    except InvalidVersion:
        raise ImportFault(
            f"{printable(text, 40)!r} is no version of {package}; expected one such as 0.6.3"
        ) from None


def agreed_version(package: str, claimed: str | None, found: str | None, where: str) -> str:
    """The version that the file and the person agree on. Raises ImportFault.

    `found` is what the file says, `where` names the place ("_metadata", "the path").
    """
    if claimed is None and found is None:
        raise ImportFault(f"{where} names no {package} version: give it with --stack {package}=VERSION")
    if claimed is None or found is None:
        return release(claimed or found or "", package)
    told, said = release(claimed, package), release(found, package)
    if Version(told) != Version(said):
        raise ImportFault(f"{where} says {package} {said}, but --stack says {told}")
    return said


def agreed_arch(claims: Claims, found: str | None, where: str, gpu: str | None = None) -> str:
    """The architecture that the file and the person agree on, such as sm120. Raises ImportFault.

    `found` is an architecture that the file names, `gpu` a product's name.
    """
    model = hardware.lookup(gpu)
    told = hardware.lookup(claims.gpu)
    if model and told and model is not told:
        raise ImportFault(f"{where} says {printable(gpu or '', 80)}, but --gpu says {claims.gpu}")
    said = model.arch if model else found
    if said and claims.arch and said != claims.arch:
        raise ImportFault(
            f"{where} says {printable(gpu or said, 80)} ({said}), but --gpu says {claims.gpu or claims.arch}"
            f" ({claims.arch})"
        )
    arch = said or claims.arch
    if arch is None:
        unknown = f" ({printable(gpu, 80)} is not known here)" if gpu else ""
        raise ImportFault(f"{where} names no architecture{unknown}: give it with --gpu, such as sm120")
    return arch
