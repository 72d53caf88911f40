"""A FlashInfer cache directory: what its generator wrote, and what was really compiled from it.

A generated source makes candidates and nothing more: it is written before anything is compiled. A unit counts
as compiled, at tier full, where its object is there and .ninja_log says that the step ended. The seconds of
.ninja_log are wall time of a parallel build and of a whole unit, so they are told in words and never as
`cpu_seconds`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import os
from pathlib import Path

from benchapp.ingest.importers import cache_tree, ninja
from benchapp.ingest.importers.base import (
    Claims,
    Imported,
    Importer,
    ImportFault,
    TacticLookup,
    agreed_arch,
    agreed_version,
    named,
    plural,
    printable,
    read_file,
    shown_path,
)
from benchapp.ingest.importers.tactics import FAMILY
from workers.bench.document import BenchError, Finding
from workers.bench.tiles import arches, instantiations

SOURCE_LIMIT = 1024 * 1024
NINJA_LIMIT = 64 * 1024 * 1024
#: All sources together.
TOTAL_LIMIT = 256 * 1024 * 1024


@dataclasses.dataclass(slots=True)
class _Reading:
    """Digest, newest file and what could not be used, gathered while reading."""

    root: Path
    digest: hashlib._Hash = dataclasses.field(default_factory=hashlib.sha256)
    newest: dt.datetime = dt.datetime(2015, 1, 1, tzinfo=dt.UTC)
    unused: list[str] = dataclasses.field(default_factory=list)
    total: int = 0

    def text(self, path: str, limit: int) -> str | None:
        """A file's text, or None (and a word in `unused`) where it cannot be read."""
        try:
            body, written = read_file(self.root / path, limit)
        except ImportFault as fault:
            self.unused.append(f"{_shown(path)} ({fault})")
            return None
        self.total += len(body)
        if self.total > TOTAL_LIMIT:
            raise ImportFault(f"its sources hold more than {TOTAL_LIMIT:,} bytes")
        self.mark(path, body)
        self.newest = max(self.newest, written)
        return body.decode("utf-8", "replace")

    def mark(self, path: str, body: bytes) -> None:
        # by its name alone: the same cache may be named by any folder on the way to it
        self.digest.update(f"{len(body)} ".encode() + os.fsencode(path.rpartition("/")[2]) + b"\n" + body)


def read(path: Path, claims: Claims, lookup: TacticLookup) -> Imported:
    """Candidates of every generated source, compiled where an object proves it. Raises ImportFault."""
    tree = cache_tree.walk(path)
    if not tree.sources and not tree.objects:
        raise ImportFault(
            "holds neither generated CUTLASS instantiations nor objects of them: a layout unknown here"
        )
    space = cache_tree.only_workspace(tree)
    version = agreed_version("flashinfer", claims.stack.get("flashinfer"), space.version, "the path")
    arch = _arch(tree, space, claims)
    reading = _Reading(path)
    built = _built(tree, reading)
    findings: list[Finding] = []
    done, foreign = set[str](), 0
    for source, unit in sorted(tree.sources.items()):
        if unit in done:
            continue
        text = reading.text(source, SOURCE_LIMIT)
        if text is None:
            continue
        if text.rfind("/*") > text.rfind("*/"):
            reading.unused.append(f"{_shown(source)} (a comment does not end)")
            continue
        try:
            parsed = instantiations.parse(f"{unit}.cu", text, *arch.tags).instantiations
        except ValueError as error:
            # Python refuses numbers of thousands of digits
            reading.unused.append(f"{_shown(source)} ({printable(str(error), 80)})")
            continue
        foreign += not parsed
        done.add(unit)
        for one in parsed:
            findings += _findings(one, unit, source, built.get(unit))
    if not findings:
        raise ImportFault(
            f"holds no instantiation for {arch.name} in {plural(len(tree.sources), 'generated source')}"
            f" and {plural(len(tree.objects), 'object')}"
            + (": the objects' sources are not in this cache" if tree.objects and not tree.sources else "")
        )
    return Imported(
        arch=arch.name,
        stack={**claims.stack, "flashinfer": version},
        findings=tuple(findings),
        notes=_notes(tree, reading, built, done, foreign),
        digest=reading.digest.hexdigest(),
        moment=reading.newest,
    )


def _arch(tree: cache_tree.Tree, space: cache_tree.Workspace, claims: Claims) -> arches.Arch:
    named_arches = space.arches or tuple(
        sorted({f"sm{found[1]}" for unit in tree.sources.values() if (found := cache_tree.UNIT.match(unit))})
    )
    if len(named_arches) > 1 and claims.arch in named_arches:
        name = claims.arch or ""
    elif len(named_arches) > 1:
        raise ImportFault(f"was built for {named(list(named_arches))}: name one with --gpu")
    else:
        name = agreed_arch(claims, named_arches[0] if named_arches else None, "the path")
    try:
        return arches.find(name)
    except BenchError as error:
        raise ImportFault(error.sentence.rstrip(".")) from None


def _built(tree: cache_tree.Tree, reading: _Reading) -> dict[str, tuple[float, int]]:
    """Unit → (wall seconds, bytes of the object), where .ninja_log and object agree that it was built."""
    seconds: dict[str, float] = {}
    for path in tree.ninja_logs:
        text = reading.text(path, NINJA_LIMIT)
        if text is None:
            continue
        try:
            for output, taken in ninja.durations(text):
                name = output.rsplit("/", 1)[-1]
                unit = cache_tree.UNIT.search(name)
                if unit and name.endswith(f"{unit[0]}.cuda.o"):
                    seconds[unit[0]] = taken
        except ninja.NinjaFault as fault:
            reading.unused.append(f"{_shown(path)} ({fault})")
    built = {}
    for path, (unit_name, size) in tree.objects.items():
        reading.mark(path, str(size).encode())
        if size and unit_name in seconds:
            built[unit_name] = (seconds[unit_name], size)
    return built


def _findings(
    one: instantiations.Instantiation, unit: str, source: str, built: tuple[float, int] | None
) -> list[Finding]:
    candidate = Finding(
        family=FAMILY,
        inputs=one.variant.inputs,
        output=one.variant.output,
        tile=one.variant.tile,
        cluster=one.variant.cluster,
        fusion=one.variant.fusion,
        swap_ab=one.variant.swap_ab,
        schedule=one.variant.schedule,
        stage="candidate",
        passed=True,
        source="imported",
        unit=f"{unit}.cu",
        detail=(
            f"{_shown(source)} line {one.first_line:,}: generated, which happens before anything is compiled."
        ),
    )
    if built is None:
        return [candidate]
    seconds, size = built
    compiled = dataclasses.replace(
        candidate,
        stage="compiled",
        tier="full",
        object_bytes=min(size, 2**31 - 1),
        detail=(
            f"{_shown(source)} line {one.first_line:,}: its unit was built in {seconds:,.1f} s of wall time"
            f" (.ninja_log), an object of {size:,} bytes."
        ),
    )
    return [candidate, compiled]


def _notes(
    tree: cache_tree.Tree,
    reading: _Reading,
    built: dict[str, tuple[float, int]],
    done: set[str],
    foreign: int,
) -> tuple[str, ...]:
    objects = {unit for unit, _ in tree.objects.values()}
    compiled = len(done & built.keys())
    notes = [
        "Generated sources are what FlashInfer searches, not what survives: of"
        f" {plural(len(done), 'source')} {compiled:,} {'was' if compiled == 1 else 'were'} compiled."
    ]
    if foreign:
        notes.append(
            f"{plural(foreign, 'generated source')} of other architectures or input types: not stored."
        )
    if objects - done:
        notes.append(
            f"{plural(len(objects - done), 'object')} without a source in this cache: not stored, since only"
            " the source says which variants an object holds."
        )
    if (objects & done) - built.keys():
        notes.append(
            f"{plural(len((objects & done) - built.keys()), 'object')} that .ninja_log does not call"
            " finished: not counted as compiled."
        )
    if tree.links:
        notes.append(f"{plural(tree.links, 'symbolic link')} not followed.")
    unused = reading.unused + [_shown(path) for path in tree.unreadable]
    if unused:
        notes.append(f"Not read: {named(unused)}.")
    return tuple(notes)


def _shown(path: str) -> str:
    return shown_path(path, 200)


IMPORTER = Importer(
    name="flashinfer-cache",
    about="FlashInfer cache directory: generated sources as candidates, built objects as compiled",
    producer="flashinfer cache directory",
    read=read,
)
