"""Log files that never fill the disk, and their ends for error messages."""

import os
import shutil
from pathlib import Path

LIMIT_BYTES = 10 * 1024 * 1024


def cap(log: Path, limit: int = LIMIT_BYTES) -> None:
    """Move what a too long log holds to `<name>.1`. Writers append, so they go on in the emptied file."""
    if log.exists() and log.stat().st_size > limit:
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)


def last_lines(log: Path, lines: int = 8) -> str:
    """The last lines of a log, indented under a line that names it; at most 16 KiB of it are read."""
    if not log.exists():
        return f"  {log} is empty"
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 16384))
        text = stream.read().decode(errors="replace")
    return "\n".join([f"  {log} ends:", *(f"    {line}" for line in text.splitlines()[-lines:])])
