"""Candidates: wheels that are no release, a patch under test, kept by their content."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
from django.core.exceptions import ValidationError
from django.db import connection, transaction

from benchapp.catalog.locks import lock
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Candidate
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs.requests import clean_version
from workers.bench.document import BenchError
from workers.bench.tiles import archive
from workers.bench.tiles.sources import DATA, candidate_label, check, wanted

#: Packages of which a candidate can be registered: what recipes call them.
PACKAGES = ("flashinfer",)
LIMIT_BYTES = 200_000_000
#: As a version stands in addresses and beside evidence.
_LONGEST_VERSION = 40
_LONGEST = 300
#: Where FlashInfer's repository has what its wheel carries elsewhere, and what the wheel has as it is.
_IN_REPOSITORY = {
    "csrc": f"{DATA}/csrc",
    "include": f"{DATA}/include",
    "3rdparty/cutlass": f"{DATA}/cutlass",
    "3rdparty/spdlog": f"{DATA}/spdlog",
    "flashinfer/jit": "flashinfer/jit",
}
#: Of every member of a packed folder, so that equal content is an equal wheel.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def register(
    path: Path, *, package: str, base: str, note: str, user: User | None, origin: str = ""
) -> tuple[Candidate, bool]:
    """Keep a wheel, or what a survey reads of a source folder. Returns (candidate, created).

    `origin` is the name it had where it came from, by default that of the path. The same content again is
    the candidate that it was. Raises ValidationError, {field: sentence}.
    """
    if package not in PACKAGES:
        raise ValidationError({"package": f"{package[:40]!r} is none of {', '.join(PACKAGES)}."})
    try:
        base = clean_version(base)
    except ValidationError as error:
        raise ValidationError({"base": error.messages}) from None
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if path.is_dir():
                wheel = Path(scratch) / "candidate.whl"
                pack(path, wheel, base)
            else:
                wheel = path
            body = _read(wheel)
            check_wheel(wheel, base, Path(scratch))
    except BenchError as error:
        raise ValidationError({"path": error.sentence}) from None
    except OSError as error:
        raise ValidationError({"path": f"{path} cannot be read: {error.strerror}."}) from None
    return _keep(body, origin or path.absolute().name, package=package, base=base, note=note, user=user)


def survey(candidate: Candidate, arches: Sequence[str]) -> Ask:
    """The ask for its tile survey on these architectures."""
    targets = [f"arch:{arch}" for arch in arches]
    return Ask.from_json({"what": "survey", "versions": [candidate.version], "targets": targets})


def _read(wheel: Path) -> bytes:
    if not wheel.is_file() and wheel.exists():  # reading one of these may never end
        raise BenchError("no_plain_file", f"{wheel} is a special file: expected a wheel or a folder.")
    size = wheel.stat().st_size
    if size > LIMIT_BYTES:
        raise BenchError(
            "too_large", f"{wheel.name} has {size:,} bytes; a candidate may have {LIMIT_BYTES:,} at most."
        )
    return wheel.read_bytes()


def check_wheel(wheel: Path, base: str, scratch: Path) -> None:
    """Whether a survey can read it. Raises BenchError."""
    folder = scratch / "unpacked"
    archive.unpack(wheel, folder, wanted)
    check(folder, wheel.name, base)


def pack(folder: Path, wheel: Path, base: str) -> None:
    """Write what a survey reads of FlashInfer's repository, or of an unpacked wheel, in a wheel's layout.

    Equal files make equal bytes, whatever their dates and owners. Raises BenchError.
    """
    files = dict(sorted(_members(folder)))
    if not files:
        raise BenchError(
            "no_sources",
            f"{folder} holds no sources of flashinfer: expected its repository, with csrc/ and flashinfer/, "
            f"or an unpacked wheel.",
        )
    metadata = f"Metadata-Version: 2.1\nName: flashinfer-python\nVersion: {base}\n\n"
    # stored as it is: other versions of zlib would compress to other bytes
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as members:
        members.writestr(zipfile.ZipInfo(f"flashinfer_python-{base}.dist-info/METADATA", _EPOCH), metadata)
        for name, path in files.items():
            members.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())


def _members(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name in the wheel, file) of all that a survey reads."""
    places = {"flashinfer": "flashinfer"} if (folder / DATA / "csrc").is_dir() else _IN_REPOSITORY
    total = 0
    for place, name_of_place in places.items():
        for path in (folder / place).rglob("*"):
            name = f"{name_of_place}/{path.relative_to(folder / place).as_posix()}"
            if not wanted(name) or path.is_dir():
                continue
            if path.is_symlink() or not path.is_file():
                raise BenchError(
                    "no_plain_file", f"{path} is a link or a special file: expected plain files."
                )
            total += path.stat().st_size
            if total > LIMIT_BYTES:
                raise BenchError(
                    "too_large",
                    f"{folder} holds more than the {LIMIT_BYTES:,} bytes that a candidate may have.",
                )
            yield name, path


@transaction.atomic
def _keep(
    body: bytes, origin: str, *, package: str, base: str, note: str, user: User | None
) -> tuple[Candidate, bool]:
    sha256 = hashlib.sha256(body).hexdigest()
    version = f"{base}+{candidate_label(sha256)}"
    if len(version) > _LONGEST_VERSION:
        raise ValidationError({"base": f"{base} is too long to name a candidate by."})
    lock(f"candidate:{sha256}")
    known = Candidate.objects.defer("body").filter(sha256=sha256).first()
    if known is not None:
        return known, False
    candidate = Candidate.objects.create(
        package=package,
        version=version,
        sha256=sha256,
        size=len(body),
        body=b"",
        origin=origin[:_LONGEST],
        note=note[:_LONGEST],
        registered_by=user,
    )
    # as it is: Django's own cursor would write it into the statement as text, several times its size
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute("UPDATE fleet_candidate SET body = %b WHERE id = %s", [body, candidate.pk])
    audit.record(user, "add_candidate", f"{package} {version}", sha256=sha256, origin=origin, note=note)
    return candidate, True
