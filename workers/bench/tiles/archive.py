"""Unpacking of wheels that may be broken or hostile."""

from __future__ import annotations

import errno
import hashlib
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from workers.bench.document import BenchError

_UNPACKED_LIMIT = 4 * 1024**3
_CHUNK = 1024 * 1024
# too long, or a file where another member needs a folder
_BAD_NAME = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


def unpack(archive: Path, into: Path, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Write the wanted members under `into`; returns their SHA-256 by name.

    BenchError `broken_wheel` for anything that is no whole zip, and for names that lead outside, links
    and other special files, wanted or not: such a wheel is not to be trusted at all.
    """
    digests = {}
    try:
        with zipfile.ZipFile(archive) as wheel:
            members = wheel.infolist()
            _check(archive, members)
            for member in members:
                if not member.is_dir() and wanted(member.filename):
                    digests[member.filename] = _write(wheel, member, into / member.filename)
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,  # a name that is no UTF-8 in spite of its flag
    ) as error:
        raise BenchError("broken_wheel", f"{archive.name} is not a whole wheel: {error}.") from error
    except OSError as error:
        if error.errno not in _BAD_NAME:
            raise
        raise BenchError("broken_wheel", f"{archive.name} holds a name no file can have: {error}.") from error
    return digests


def _check(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    seen = set()
    for member in members:
        name = PurePosixPath(member.filename)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if name.is_absolute() or ".." in name.parts or "\\" in member.filename:
            raise BenchError(
                "broken_wheel", f"{archive.name} holds a path that leads outside: {member.filename!r}."
            )
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BenchError(
                "broken_wheel", f"{archive.name} holds a link or special file: {member.filename!r}."
            )
        if name in seen:
            raise BenchError("broken_wheel", f"{archive.name} holds {member.filename!r} twice.")
        seen.add(name)
    if sum(member.file_size for member in members) > _UNPACKED_LIMIT:
        raise BenchError(
            "broken_wheel", f"{archive.name} would unpack to more than {_UNPACKED_LIMIT:,} bytes."
        )


def _write(wheel: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with wheel.open(member) as source, path.open("xb") as out:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    if member.external_attr >> 16 & stat.S_IXUSR:
        path.chmod(0o755)
    return digest.hexdigest()
