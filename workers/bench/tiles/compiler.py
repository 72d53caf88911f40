"""One run of nvcc's front end over unmodified generated units, and what it says about each."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from workers.bench.tiles import instantiations
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.children import Child, Ended
from workers.bench.tiles.instantiations import Instantiation, Unit
from workers.bench.tiles.sources import INCLUDES, Sources
from workers.bench.tiles.toolchain import Toolchain

_HERE = Path(__file__).parent
_OWN_INCLUDES = (_HERE / "probe", _HERE / "standin")
_FLAGS = (
    "-std=c++17",
    "-allow-unsupported-compiler",  # nothing is compiled for the host
    "--expt-relaxed-constexpr",
    "-static-global-template-stub=false",
    "-DNDEBUG",
    "-DFLASHINFER_ENABLE_FP8_E8M0",
    "-DFLASHINFER_ENABLE_FP4_E2M1",
)
_PTX, _TRANSLATION_UNIT = "survey.ptx", "survey.cu"
_TIMEOUT_SECONDS = 900

_DIAGNOSTIC = re.compile(
    r"^(?P<file>\S[^\n(]*)\((?P<line>\d+)\): (?:catastrophic |fatal )?(?P<kind>error|warning|remark)"
    r"(?: #[\w-]+)?: (?P<message>.*)$",
    re.MULTILINE,
)
_ORIGIN = re.compile(r"\bat line (\d+) of (\S.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A unit within one compilation, less the instantiations already known to fail."""

    unit: Unit
    removed: tuple[Instantiation, ...] = ()

    @property
    def remaining(self) -> list[Instantiation]:
        return [one for one in self.unit.instantiations if one not in self.removed]


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of the front end; `place` is the unit and line whose instantiation it arose from."""

    message: str
    text: str
    place: tuple[str, int] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Frontend:
    toolchain: Toolchain
    sources: Sources
    arch: Arch
    defines: tuple[str, ...]

    def command(self) -> list[str]:
        """Complete but for the folder to run it in."""
        own = [f"-I{folder}" for folder in _OWN_INCLUDES]
        theirs = [f"-I{self.sources.root / folder}" for folder in INCLUDES]
        target = f"arch={self.arch.compute},code={self.arch.compute}"
        compiler = [str(self.toolchain.nvcc), "-ccbin", str(self.toolchain.gxx)]
        return [
            *compiler,
            *_FLAGS,
            *self.defines,
            *own,
            *theirs,
            "-gencode",
            target,
            "-ptx",
            _TRANSLATION_UNIT,
            "-o",
            _PTX,
        ]

    def shown_command(self) -> str:
        return self.shown(" ".join(self.command()))

    def shown(self, text: str) -> str:
        """For logs: the same wherever the cache and the compilers lie."""
        for path, name in (
            (self.sources.root, "WHEEL"),
            (_HERE, "TILEWATCH"),
            (self.toolchain.nvcc, "nvcc"),
            (self.toolchain.gxx, "g++"),
        ):
            text = text.replace(str(path), name)
        return text

    def key(self, unit: Unit) -> str:
        """Names all that a verdict about `unit` follows from."""
        headers = [path.read_bytes() for folder in _OWN_INCLUDES for path in sorted(folder.rglob("*.h"))]
        versions = f"{self.toolchain.version} {self.toolchain.gxx_version} {self.sources.digest}"
        digest = hashlib.sha256()
        for content in (unit.text.encode(), versions.encode(), self.shown_command().encode(), *headers):
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    def start(self, parts: Sequence[Part], folder: Path) -> Child:
        """Compile the parts together: the headers, by far the most text, are read once."""
        for part in parts:
            text = instantiations.without(part.unit.text, list(part.removed))
            (folder / part.unit.name).write_text(text, encoding="utf-8")
        includes = "".join(f'#include "{part.unit.name}"\n' for part in parts)
        (folder / _TRANSLATION_UNIT).write_text(includes, encoding="utf-8")
        environment = self.toolchain.environment(folder)
        return Child(self.command(), folder=folder, cwd=folder, env=environment, timeout=_TIMEOUT_SECONDS)


def ptx(folder: Path) -> str:
    return (folder / _PTX).read_text(encoding="utf-8", errors="replace")


def diagnostics(stderr: str, unit_names: set[str]) -> list[Diagnostic]:
    """Errors in the order reported. An error inside a header is placed by the chain of instantiations."""
    matches = list(_DIAGNOSTIC.finditer(stderr))
    starts = [match.start() for match in matches]
    found = []
    for match, end in zip(matches, [*starts[1:], len(stderr)], strict=False):
        if match["kind"] != "error":
            continue
        text = stderr[match.start() : end].rstrip()
        places = [(match["file"], int(match["line"]))]
        places += [(origin[2], int(origin[1])) for origin in _ORIGIN.finditer(text)]
        named = [(Path(file.strip('"')).name, line) for file, line in places]
        place = next((one for one in reversed(named) if one[0] in unit_names), None)
        found.append(Diagnostic(match["message"].strip(), text, place))
    return found


def first_complaint(ended: Ended) -> str:
    """One line that says why a compiler that gave no diagnostics failed."""
    if ended.timed_out:
        return f"the compiler was stopped after {_TIMEOUT_SECONDS} s"
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if re.search(r"error|signal|died|killed", line, re.IGNORECASE)), None)
    if ended.returncode < 0:
        ending = f"the compiler was killed by signal {-ended.returncode}"
    else:
        ending = f"the compiler ended with status {ended.returncode}"
    return f"{ending}: {said[:300]}" if said else ending
