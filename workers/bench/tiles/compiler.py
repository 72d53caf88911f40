"""One run of nvcc over unmodified generated units, and what it says about each."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from workers.bench.document import Tier
from workers.bench.tiles import instantiations
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.children import Child, Ended
from workers.bench.tiles.instantiations import Instantiation, Unit
from workers.bench.tiles.sources import INCLUDES, Sources
from workers.bench.tiles.toolchain import Toolchain

_HERE = Path(__file__).parent
_PROBE, _STANDIN = _HERE / "probe", _HERE / "standin"
_FLAGS = (
    "-std=c++17",
    "-allow-unsupported-compiler",  # nothing is compiled for the host
    "--expt-relaxed-constexpr",
    "-static-global-template-stub=false",
    "-DNDEBUG",
    "-DFLASHINFER_ENABLE_FP8_E8M0",
    "-DFLASHINFER_ENABLE_FP4_E2M1",
)
#: As FlashInfer's own build sets it: it changes the code of a body, hence registers and spills.
_CODE_FLAGS = ("-use_fast_math", "-O3")
_PTX, _CUBIN, _TRANSLATION_UNIT = "survey.ptx", "survey.cubin", "survey.cu"
_PREPROCESSED = "survey.ii"
_TIMEOUT_SECONDS = {"types": 900, "body": 1800, "full": 1800}

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
    """How units are compiled at a tier.

    `types`: our header stands in for the kernels' body and tells their numbers. `body`: with the real body,
    to the end of the front end. `full`: to machine code.
    """

    toolchain: Toolchain
    sources: Sources
    arch: Arch
    defines: tuple[str, ...]
    tier: Tier = "types"

    def command(self) -> list[str]:
        """Complete but for the folder to run it in."""
        return [*self._opening(), *self._ending()]

    def preprocess_command(self) -> list[str]:
        """Writes what the compiler proper is given at this tier."""
        return [*self._opening(), "-E", _TRANSLATION_UNIT, "-o", _PREPROCESSED]

    def _opening(self) -> list[str]:
        own = [_PROBE, _STANDIN] if self.tier == "types" else [_STANDIN]
        includes = [*own, *(self.sources.root / folder for folder in INCLUDES)]
        code = self.arch.compute.replace("compute", "sm") if self.tier == "full" else self.arch.compute
        return [
            str(self.toolchain.nvcc),
            "-ccbin",
            str(self.toolchain.gxx),
            *_FLAGS,
            *(() if self.tier == "types" else _CODE_FLAGS),
            *self.defines,
            *(f"-I{folder}" for folder in includes),
            "-gencode",
            f"arch={self.arch.compute},code={code}",
        ]

    def _ending(self) -> list[str]:
        if self.tier == "full":
            return ["-Xptxas", "-v", "-cubin", _TRANSLATION_UNIT, "-o", _CUBIN]
        syntax_only = ["-fdevice-syntax-only"] if self.tier == "body" else []
        return [*syntax_only, "-ptx", _TRANSLATION_UNIT, "-o", _PTX]

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

    def identity(self) -> str:
        """Digest of the compilers and of the options that reach them past the preprocessor."""
        options = (option for option in self.command()[1:] if not option.startswith(("-I", "-D")))
        versions = f"{self.toolchain.version} {self.toolchain.gxx_version}"
        return digest(versions, self.shown(" ".join(options)))

    def key(self, units: Sequence[Unit]) -> str:
        """Names all that a verdict about these units of this very release follows from."""
        own = (path.read_text() for folder in (_PROBE, _STANDIN) for path in sorted(folder.rglob("*.h")))
        texts = (text for unit in units for text in (unit.name, unit.text))
        return digest(self.identity(), self.sources.digest, self.shown_command(), *own, *texts)

    def start(self, parts: Sequence[Part], folder: Path, *, preprocess: bool = False) -> Child:
        """Compile the parts together: the headers, by far the most text, are read once."""
        for part in parts:
            text = instantiations.without(part.unit.text, list(part.removed))
            (folder / part.unit.name).write_text(text, encoding="utf-8")
        includes = "".join(f'#include "{part.unit.name}"\n' for part in parts)
        (folder / _TRANSLATION_UNIT).write_text(includes, encoding="utf-8")
        environment = self.toolchain.environment(folder)
        command = self.preprocess_command() if preprocess else self.command()
        return Child(command, folder=folder, cwd=folder, env=environment, timeout=_TIMEOUT_SECONDS[self.tier])


def digest(*texts: str) -> str:
    """Of the texts in their order, each as a whole."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(hashlib.sha256(text.encode(errors="surrogatepass")).digest())
    return whole.hexdigest()


def ptx(folder: Path) -> str:
    return (folder / _PTX).read_text(encoding="utf-8", errors="replace")


def preprocessed(folder: Path) -> str:
    return (folder / _PREPROCESSED).read_text(encoding="utf-8", errors="replace")


def cubin_bytes(folder: Path) -> int:
    return (folder / _CUBIN).stat().st_size


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
        return "the compiler was stopped, its time was over"
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if re.search(r"error|signal|died|killed", line, re.IGNORECASE)), None)
    if ended.returncode < 0:
        ending = f"the compiler was killed by signal {-ended.returncode}"
    else:
        ending = f"the compiler ended with status {ended.returncode}"
    return f"{ending}: {said[:300]}" if said else ending
