"""How a unit of explored configurations is compiled, and what its output says about each."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import compiler, probe_lines, ptxas
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.children import Child
from workers.bench.tiles.explorer import tree
from workers.bench.tiles.explorer.space import Config
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.sources import Sources
from workers.bench.tiles.toolchain import Toolchain

_HERE = Path(__file__).parent
_KERNELS = _HERE / "kernels"
_PROBE = _HERE.parent / "probe"
_FLAGS = (
    "-std=c++17",
    "-allow-unsupported-compiler",  # nothing is compiled for the host
    "--expt-relaxed-constexpr",
    "-static-global-template-stub=false",
    "-DNDEBUG",
)
_UNIT, _PTX, _CUBIN = "explored.cu", "explored.ptx", "explored.cubin"
_TIMEOUT_SECONDS = 900

_ENTRY = re.compile(r"^\s*(?:\.visible |\.weak )*\.entry\s+(\S+?)\(", re.MULTILINE)
_MANGLED = re.compile(r"explored(\d+)")
_STATIC_ASSERT = re.compile(r'static assertion failed with "(.*)"$')


@dataclasses.dataclass(frozen=True, slots=True)
class Nvcc:
    """`tree_digest` names the CUTLASS headers by content."""

    toolchain: Toolchain
    sources: Sources
    arch: Arch
    tree_digest: str

    def command(self, *, full: bool) -> list[str]:
        """Types only, with our device_kernel in front of CUTLASS's; or the whole kernel, through ptxas."""
        code = self.arch.compute.replace("compute", "sm") if full else self.arch.compute
        probe = [] if full else [f"-I{_PROBE}"]
        output = ["-Xptxas", "-v", "-cubin", "-o", _CUBIN] if full else ["-ptx", "-o", _PTX]
        return [
            *(str(self.toolchain.nvcc), "-ccbin", str(self.toolchain.gxx), *_FLAGS, *probe),
            *(f"-I{_KERNELS}", f"-I{self.sources.root / tree.INCLUDE}"),
            *("-gencode", f"arch={self.arch.compute},code={code}", _UNIT, *output),
        ]

    def shown(self, text: str) -> str:
        """For logs: the same wherever the cache and the compilers lie."""
        for path, name in (
            (self.sources.root, "WHEEL"),
            (_HERE.parent, "TILEWATCH"),
            (self.toolchain.nvcc, "nvcc"),
            (self.toolchain.gxx, "g++"),
        ):
            text = text.replace(str(path), name)
        return text

    def shown_command(self, *, full: bool) -> str:
        return self.shown(" ".join(self.command(full=full)))

    def key(self, config: Config, *, full: bool) -> str:
        """Names all that a verdict follows from: text, headers, CUTLASS, compilers, flags."""
        headers = [*_KERNELS.iterdir(), *(() if full else _PROBE.rglob("*.h"))]
        versions = f"{self.toolchain.version} {self.toolchain.gxx_version} {self.tree_digest}"
        texts = (header.read_text(encoding="utf-8") for header in sorted(headers))
        return compiler.digest(config.text, versions, self.shown_command(full=full), *texts)

    def start(self, configs: Sequence[Config], folder: Path, *, full: bool = False) -> Child:
        text = '#include "explored.hpp"\n' + "".join(config.text for config in configs)
        (folder / _UNIT).write_text(text, encoding="utf-8")
        environment = self.toolchain.environment(folder)
        return Child(
            self.command(full=full), folder=folder, cwd=folder, env=environment, timeout=_TIMEOUT_SECONDS
        )


def kernels(folder: Path) -> dict[str, Kernel]:
    """By configuration: what the probe wrote into each entry of the PTX."""
    ptx = (folder / _PTX).read_text(encoding="utf-8", errors="replace")
    entries = list(_ENTRY.finditer(ptx))
    ends = [entry.start() for entry in entries[1:]] + [len(ptx)]
    found = {}
    for entry, end in zip(entries, ends, strict=True):
        name = entry_name(entry[1])
        told = probe_lines.parse(ptx[entry.end() : end])
        if name is not None and len(told) == 1:
            found[name] = told[0]
    return found


def entry_name(mangled: str) -> str | None:
    """The configuration in the mangled name of an entry: `…8explored4nameE…` holds `name`."""
    match = _MANGLED.search(mangled)
    if match is None:
        return None
    length = int(match[1])
    name = mangled[match.end() : match.end() + length]
    return name if len(name) == length else None


def errors(stderr: str, names: set[str]) -> dict[str, list[compiler.Diagnostic]]:
    """Diagnostics by the configuration that they arose from, in the order reported."""
    found: dict[str, list[compiler.Diagnostic]] = {}
    for diagnostic in compiler.diagnostics(stderr, names):
        if diagnostic.place is not None:
            found.setdefault(diagnostic.place[0], []).append(diagnostic)
    return found


def telling(diagnostics: Sequence[compiler.Diagnostic]) -> compiler.Diagnostic:
    """The first failed static_assert, since what surrounds it follows from it; else the first."""
    asserts = (one for one in diagnostics if _STATIC_ASSERT.match(one.message))
    return next(asserts, diagnostics[0])


def reason(diagnostics: Sequence[compiler.Diagnostic]) -> str:
    """A static_assert in its author's words, or the error as the compiler puts it."""
    message = telling(diagnostics).message
    match = _STATIC_ASSERT.match(message)
    return match[1] if match else message


def body(output: str, folder: Path) -> tuple[ptxas.Entry, int]:
    """What ptxas made of the one kernel of a unit, and the cubin's size in bytes."""
    entries = ptxas.parse(output)
    if len(entries) != 1:
        raise BenchError("bad_unit", f"One explored configuration made {len(entries)} kernels.")
    return entries[0], (folder / _CUBIN).stat().st_size
