"""What a verdict follows from: the preprocessed text, whichever release it comes from.

The preprocessor's output, and nothing else of a release, is what the compiler proper reads. So a verdict is
filed under it, and whatever two releases have in common is compiled once: a header that changes is in the
text, one that newly hides another too, and one that no unit reads is not. Line numbers and empty lines do not
count: a moved line makes no other kernel.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workers.bench.tiles import compiler
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import Frontend, Part, digest
from workers.bench.tiles.instantiations import Instantiation, Unit

_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
#: what a unit asks of the preprocessor, which need not show where a neighbour read the same header before
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:define|undef|include)\b(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """Digests of a unit's text: of all around its instantiations, and of each of those."""

    around: str
    instantiations: tuple[str, ...]

    def unit_key(self, unit: Unit) -> str:
        return digest(self.around, *self.instantiations, *(repr(one.variant) for one in unit.instantiations))

    def kernel_key(self, unit: Unit, one: Instantiation) -> str:
        """The same in a unit of other neighbours."""
        return digest(self.around, self.instantiations[unit.instantiations.index(one)])


def of(frontend: Frontend, units: Sequence[Unit], cache: Cache, scratch: Path) -> dict[str, Content]:
    """By unit name; two seconds of preprocessing the first time, read from the cache afterwards.

    Where the units do not even pass the preprocessor together, they stand for this release alone.
    """
    own = frontend.key(units)
    place = cache.place("contents", own)
    stored = _load(cache.read_json(place), units)
    if stored is not None:
        return stored
    text = _preprocessed(frontend, units, scratch)
    if text is None:
        cache.need_free(WORK_BYTES, "the preprocessor")
        return {unit.name: _of_this_release(own, unit) for unit in units}
    contents = split(frontend.shown(text), units, frontend.identity())
    cache.write_json(place, {name: dataclasses.asdict(content) for name, content in contents.items()})
    return contents


def split(text: str, units: Sequence[Unit], compilers: str) -> dict[str, Content]:
    """Contents of the units whose common preprocessed text this is. What stands in no unit concerns all."""
    names = {unit.name for unit in units}
    shared: list[str] = []
    own: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    unit_name, number = "", 0
    for line in text.split("\n"):
        if line.startswith("# ") and (marker := _MARKER.match(line)):
            file = marker[2].rsplit("/", 1)[-1]
            unit_name, number = file if file in names else "", int(marker[1])
            continue
        if line and not line.isspace():
            if unit_name:
                own[unit_name].append((number, line))
            else:
                shared.append(line)
        number += 1
    common = digest(compilers, "\n".join(shared))
    return {unit.name: _content(unit, own[unit.name], common) for unit in units}


def _content(unit: Unit, lines: Sequence[tuple[int, str]], common: str) -> Content:
    around, mine = [], [[] for _ in unit.instantiations]  # type: tuple[list[str], list[list[str]]]
    place = {
        number: index
        for index, one in enumerate(unit.instantiations)
        for number in range(one.first_line, one.last_line + 1)
    }
    for number, line in lines:
        index = place.get(number)
        (around if index is None else mine[index]).append(line)
    directives = sorted({directive.strip() for directive in _DIRECTIVE.findall(unit.text)})
    own = digest(common, *directives, "\n".join(around))
    return Content(own, tuple(digest("\n".join(texts)) for texts in mine))


def _of_this_release(own: str, unit: Unit) -> Content:
    numbered = (f"{one.first_line} {one.variant!r}" for one in unit.instantiations)
    return Content(digest(own, unit.name, unit.text), tuple(digest(text) for text in numbered))


def _preprocessed(frontend: Frontend, units: Sequence[Unit], scratch: Path) -> str | None:
    folder = Path(tempfile.mkdtemp(prefix="cpp-", dir=scratch))
    child = frontend.start([Part(unit) for unit in units], folder, preprocess=True)
    try:
        while (ended := child.poll()) is None:
            time.sleep(_POLL_SECONDS)
    finally:
        child.kill()
    return compiler.preprocessed(folder) if ended.returncode == 0 else None


def _load(stored: Any, units: Sequence[Unit]) -> dict[str, Content] | None:
    try:
        contents = {
            name: Content(each["around"], tuple(each["instantiations"])) for name, each in stored.items()
        }
        for unit in units:
            content = contents[unit.name]
            digests = (content.around, *content.instantiations)
            if len(content.instantiations) != len(unit.instantiations) or not all(
                _DIGEST.fullmatch(each) for each in digests
            ):
                return None
    except (AttributeError, KeyError, TypeError):
        return None
    return contents
