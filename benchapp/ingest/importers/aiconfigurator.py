"""aiconfigurator's silicon data: `<gpu>/{gemm,moe}/<framework>/<version>/*_perf.parquet`.

Beside a table stands `collection_meta.yaml` (where it is from), or in its place `reuse.yaml`, which names
another version whose numbers are taken for this one's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from benchapp.ingest.importers import aiconfigurator_rows as rows
from benchapp.ingest.importers import bundle
from benchapp.ingest.importers.base import (
    Claims,
    ImportFault,
    Table,
    TableImporter,
    printable,
    read_file,
    sha256,
    shown_path,
)

#: A table's files together must stay below what a document may have.
LIMIT = 30 * 1024 * 1024
YAML_LIMIT = 64 * 1024
META, REUSE = "collection_meta.yaml", "reuse.yaml"
SUFFIX = ".parquet"
#: GPU, kind, framework, version
DEPTH = 4
MAX_ENTRIES = 10_000
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,39}")


def find(path: Path) -> list[Path]:
    """The tables below a folder, those that a reuse.yaml names included, or the one that `path` is.

    A borrowed table is named as if it were there: `<version>/<table>.parquet`. Links are not followed.
    """
    if not path.exists():
        raise ImportFault("no such file or directory")
    if not path.is_dir():
        return _borrowed(path) if path.name == REUSE else [path]
    found: list[Path] = []
    seen = 0
    for folder, folders, names in os.walk(path, onerror=_unreadable):
        seen += len(folders) + len(names)
        if seen > MAX_ENTRIES:
            raise ImportFault(
                f"holds more than {MAX_ENTRIES:,} files, which is no folder of aiconfigurator's"
            )
        here = Path(folder)
        if len(here.relative_to(path).parts) >= DEPTH:
            folders.clear()
        found += [here / name for name in names if name.endswith(SUFFIX)]
        if REUSE in names:
            found += _borrowed(here / REUSE)
    if not found:
        raise ImportFault(f"holds no {SUFFIX} file and no {REUSE} within {DEPTH} folders")
    return sorted(set(found), key=_order)


def _unreadable(error: OSError) -> None:
    raise ImportFault(f"{shown_path(error.filename or '')}: {error.strerror}")


def _order(path: Path) -> tuple[Any, ...]:
    version = path.absolute().parent.name
    try:
        told = (1, Version(version))
    except InvalidVersion:
        told = (0, Version("0"))
    return (path.absolute().parts[:-2], told, version, path.name)


def _borrowed(reuse: Path) -> list[Path]:
    """The tables that a reuse.yaml names; the file itself where it cannot be read, so that this is told."""
    try:
        return [reuse.with_name(f"{table}{SUFFIX}") for table in _reuse(_yaml(reuse)[0])]
    except ImportFault:
        return [reuse]


def read(path: Path, claims: Claims) -> Table:
    """One table, whose numbers lie there or in the folder of the version that they are borrowed from."""
    if path.name == REUSE:
        _reuse(_yaml(path)[0])
    if claims.stack or claims.inputs or claims.output:
        raise ImportFault(
            "names its versions and formats itself: --stack, --inputs and --output are not for it"
        )
    table, version = path.name.removesuffix(SUFFIX), path.absolute().parent.name
    if path.suffix != SUFFIX or table not in rows.TABLES:
        raise ImportFault(f"is none of the tables that are read: {', '.join(rows.TABLES)}, each {SUFFIX}")
    files: dict[str, bytes] = {}
    source, lender = path, None
    reuse = path.with_name(REUSE)
    if not os.path.lexists(path) and reuse.exists():
        told, files[REUSE] = _yaml(reuse)
        lender = _reuse(told).get(table)
        if lender is None:
            raise ImportFault(f"is neither there nor named by {REUSE}")
        source = path.absolute().parent.parent / lender / path.name
        if not source.is_file():
            raise ImportFault(f"{REUSE} borrows {table} from {lender}, which has no {path.name}")
    if source.is_symlink():
        raise ImportFault("is a link, and links are not followed")
    body, moment = read_file(source, LIMIT)
    files[path.name] = body
    notes = ["The file names no date: measured_at is its time of change."]
    meta = source.with_name(META)
    if meta.exists():
        told, files[META] = _yaml(meta)
        notes += _provenance(told, table)
    else:
        notes.append(f"No {META} stands beside it: where it was collected is not known.")
    about = {
        "format": rows.FORMAT,
        "table": table,
        "version": version if lender else None,
        "lender": lender,
        "gpu": claims.gpu,
        "path": "/".join(printable(part, 60) for part in path.absolute().parts[-4:]),
        "moment": moment.isoformat(),
        "notes": notes,
    }
    packed = bundle.pack(about, files)
    rows.Rows(packed)
    words = [f"sha256 {sha256(body)}", table]
    words += [f"lent to {version}"] if lender else []
    words += [f"--gpu {claims.gpu}"] if claims.gpu else []
    return Table(name=about["path"], digest=" ".join(words), body=packed)  # type: ignore[arg-type]


def _yaml(path: Path) -> tuple[dict[str, Any], bytes]:
    name = path.name
    if path.is_symlink():
        raise ImportFault(f"{name} is a link, and links are not followed")
    try:
        body, _ = read_file(path, YAML_LIMIT)
    except ImportFault as fault:
        raise ImportFault(f"{name}: {fault}") from None
    try:
        # every scalar is text: what a tag asks to be made of one may fail in any way
        told = yaml.load(body, Loader=yaml.BaseLoader)  # noqa: S506 -- it makes no objects
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise ImportFault(f"{name} is not whole YAML") from None
    if not isinstance(told, dict):
        raise ImportFault(f"{name}: expected a mapping at the top")
    return told, body


def _reuse(told: dict[str, Any]) -> dict[str, str]:
    """Table → the version whose numbers it takes."""
    listed = told.get("reuse")
    if not isinstance(listed, list) or not listed or not all(isinstance(item, dict) for item in listed):
        raise ImportFault(f"{REUSE}: expected a list of tables at reuse")
    lent: dict[str, str] = {}
    for item in listed:
        table, version = item.get("table"), item.get("from_version")
        if not isinstance(table, str) or not re.fullmatch(r"[a-z0-9_]{1,60}", table):
            raise ImportFault(f"{REUSE}: expected the name of a table, such as gemm_perf")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise ImportFault(
                f"{REUSE}: expected the version that {table} is borrowed from, such as 1.3.0rc10"
            )
        if lent.setdefault(table, version) != version:
            raise ImportFault(f"{REUSE} borrows {table} from two versions")
    return lent


def _provenance(told: dict[str, Any], table: str) -> list[str]:
    tables = told.get("tables")
    about = tables.get(table) if isinstance(tables, dict) else None
    status = about.get("status") if isinstance(about, dict) else None
    # a list may hold itself many times over, and then has more words than memory has bytes
    said = (
        printable(value or "nothing", 40) if isinstance(value, str | None) else "no word"
        for value in (told.get("provenance"), status)
    )
    return ["{} says: provenance {}, table {}.".format(META, *said)]


IMPORTER = TableImporter(
    name=rows.FORMAT,
    about="aiconfigurator's measurements (parquet): GEMMs and MoE layers of TensorRT-LLM and vLLM",
    producer="aiconfigurator",
    find=find,
    read=read,
)
