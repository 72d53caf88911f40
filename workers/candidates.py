"""Wheels that are no release: fetched from Tilewatch once, kept by their digest, checked at each use."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path

from django.conf import settings

from benchapp.fleet import work as fleet_work
from benchapp.runs.work import Claim
from workers import postgres
from workers.failure import Failure
from workers.identity import Identity

DIGEST = re.compile(r"[0-9a-f]{64}")
#: One tag as a name of a file may have it.
_TAG = re.compile(r"(?m)^Tag: *(\w+(?:\.\w+)*-\w+(?:\.\w+)*-\w+(?:\.\w+)*)\s*$", re.ASCII)


def wheel_of(run: Claim, me: Identity) -> Path | None:
    """The wheel under test, where a run is about one. Raises Failure."""
    if "candidate" not in run.params:
        return None
    folder, sha256 = settings.HOME / "candidates", str(run.params["candidate"])
    return postgres.patiently(lambda: fetch(folder, me.name, sha256))


def fetch(folder: Path, worker: str, sha256: str) -> Path:
    """The candidate's wheel in `folder`. Raises Failure where there is none, or another one."""
    if not DIGEST.fullmatch(sha256):
        raise Failure(
            "candidate", "params.candidate: expected the SHA-256 of a wheel, 64 hexadecimal digits."
        )
    path = folder / f"{sha256}.whl"
    if path.exists() and _digest(path.read_bytes()) == sha256:
        return path
    body = fleet_work.candidate(worker, sha256)
    if body is None:
        raise Failure("candidate", f"No candidate is registered under {sha256[:12]}…; register it again.")
    if _digest(body) != sha256:
        raise Failure(
            "candidate", f"The wheel kept as candidate {sha256[:12]}… is another one: its digest differs."
        )
    folder.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_bytes(body)
    aside.replace(path)
    return path


def for_pip(wheel: Path, version: str, folder: Path) -> Path:
    """A copy of a fetched wheel in `folder`, for `pip install --find-links folder NAME==version`.

    It calls itself `version`, "0.7.0+candidate.1a2b3c4d5e6f", so that no release is taken for it, and what is
    measured with it says so. Raises Failure for what pip cannot install.
    """
    try:
        with zipfile.ZipFile(wheel) as source:
            names = source.namelist()
            about = next((name for name in names if name.endswith(".dist-info/METADATA")), "")
            old = about.removesuffix("/METADATA")
            if not {f"{old}/WHEEL", f"{old}/RECORD"} <= set(names):
                raise Failure(
                    "candidate",
                    "This candidate holds sources and is no whole wheel: it can be surveyed, and to be timed "
                    "its wheel must be registered.",
                )
            package = old.partition("-")[0]
            if not re.fullmatch(r"\w+", package, re.ASCII):
                raise Failure(
                    "candidate", f"The candidate's wheel cannot be read: {package[:60]!r} is no name."
                )
            new = f"{package}-{version}.dist-info"
            tags = _TAG.findall(source.read(f"{old}/WHEEL").decode())
            folder.mkdir(parents=True, exist_ok=True)
            made = folder / f"{package}-{version}-{_tag(tags)}.whl"
            aside = made.with_suffix(".part")
            with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
                _relabel(source, target, old, new, version)
    except (
        zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError, OSError,
        RuntimeError,  # packed with a password, or by a method that is not known here
    ) as error:  # fmt: skip
        raise Failure("candidate", f"The candidate's wheel cannot be read: {error}") from None
    aside.replace(made)
    return made


def _tag(tags: list[str]) -> str:
    """All tags of a wheel in one, as its name has them."""
    parts = zip(*(tag.split("-") for tag in tags), strict=True)
    return "-".join(".".join(dict.fromkeys(part)) for part in parts) or "py3-none-any"


def _relabel(source: zipfile.ZipFile, target: zipfile.ZipFile, old: str, new: str, version: str) -> None:
    """All members of a wheel, its metadata by another version, and its record to match."""
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for member in source.infolist():
        if member.is_dir() or member.filename == f"{old}/RECORD":
            continue
        body, name = source.read(member), member.filename
        if name == f"{old}/METADATA":
            body = re.sub(rb"(?m)^Version:.*$", b"Version: " + version.encode(), body, count=1)
        if name.startswith(f"{old}/"):
            name = new + name.removeprefix(old)
        copy = zipfile.ZipInfo(name, member.date_time)
        copy.external_attr, copy.compress_type = member.external_attr, zipfile.ZIP_DEFLATED
        target.writestr(copy, body)
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(body)])
    rows.writerow([f"{new}/RECORD", "", ""])
    target.writestr(f"{new}/RECORD", record.getvalue())


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
