"""What the inbox keeps of an imported table: the files as they came, and beside them what was told of them.

An uncompressed zip archive of `import.json` and the files, the same bytes for the same content.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from benchapp.ingest.importers.base import ImportFault

ABOUT = "import.json"
MAGIC = b"PK\x03\x04"
MAX_FILES = 8


def pack(about: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """`about` must be JSON; `files` by name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in {ABOUT: json.dumps(about, sort_keys=True).encode(), **files}.items():
            archive.writestr(zipfile.ZipInfo(name), body)
    return out.getvalue()


def unpack(body: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What `pack` was given. Raises ImportFault for anything that it did not write."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > len(body):
                raise ImportFault("is no bundle of an import: it is packed")
            files = {entry.filename: archive.read(entry) for entry in entries}
        about = json.loads(files.pop(ABOUT))
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, OSError, EOFError):
        raise ImportFault("is no bundle of an import") from None
    if not isinstance(about, dict):
        raise ImportFault("is no bundle of an import")
    return about, files
