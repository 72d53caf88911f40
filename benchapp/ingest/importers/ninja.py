"""`.ninja_log`: when each output of a build was made.

Format (versions 5 to 7): a header `# ninja log vN`, then a line an output with tabs between start and end in
milliseconds since the build began, the output's time of change, its name and a hash of the command. Only
steps that succeeded are written; a later line of the same output replaces an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADER = re.compile(r"# ninja log v(\d{1,3})")
VERSIONS = ("5", "6", "7")
LONGEST_S = 1e7


class NinjaFault(Exception):
    """Why a text is no .ninja_log that can be read."""


def durations(text: str) -> Iterator[tuple[str, float]]:
    """(output, wall seconds) of every whole line; a line cut short, as by a killed build, is left out.

    Raises NinjaFault.
    """
    header, _, rest = text.partition("\n")
    found = _HEADER.fullmatch(header.strip()[:40])
    if found is None or found[1] not in VERSIONS:
        raise NinjaFault(f".ninja_log: expected a header of version {', '.join(VERSIONS)}")
    for line in rest.split("\n"):
        fields = line.split("\t")
        if len(fields) != 5 or not all(_is_count(field) for field in fields[:2]):
            continue
        seconds = (int(fields[1]) - int(fields[0])) / 1000
        if 0 <= seconds <= LONGEST_S:
            yield fields[3], seconds


def _is_count(field: str) -> bool:
    return len(field) <= 15 and field.isascii() and field.isdigit()
