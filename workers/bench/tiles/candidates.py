"""The tactics that a version offers, each with what the version's own dispatch makes of it.

The program of `dispatch` is built with g++ and run; it needs no GPU. What it says is kept in the cache.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import children, dispatch
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import digest
from workers.bench.tiles.instantiations import ACTIVATION_BITS, Form
from workers.bench.tiles.sources import INCLUDES, Sources
from workers.bench.tiles.toolchain import Toolchain

_HERE = Path(__file__).parent
_OWN_INCLUDES = (_HERE / "host", _HERE / "standin")
# nvcc finds its own headers
_PREPROCESS = (
    *("-x", "c++", "-std=c++17", "-allow-unsupported-compiler", "-E"),
    *("-DNDEBUG", "-DFLASHINFER_ENABLE_FP8_E8M0", "-DFLASHINFER_ENABLE_FP4_E2M1"),
)
# headers written for nvcc name device built-ins before they are declared
_COMPILE = ("-x", "c++-cpp-output", "-std=c++17", "-O0", "-w", "-fpermissive", "-ffunction-sections")
# what is left undefined, functions of the CUDA runtime, is never called
_LINK = ("-no-pie", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all")
#: codes of the errors that leave a version's tactics unknown, and nothing else
NOT_UNDERSTOOD = ("unknown_rule", "no_listing", "bad_listing")
_BUILD_SECONDS, _RUN_SECONDS = 300, 60
# what an exception of TensorRT-LLM says around its message
_FRAME = re.compile(r"^\s*\d+\s+\S*(?:0x[0-9a-f]+|\[)")
_PLACE = re.compile(r"\s*\(\S+:\d+\)\s*$")
_BACKTRACE = "\x1f1 "


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """`form` is the kernel that the dispatch reaches, None where it throws: then `said` is its message."""

    form: Form | None
    said: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tactic:
    """`id` is the autotuner's, absolute in GEMM1 ++ GEMM2. `form` is what the tactic asks for, None for
    kernels of older architectures, which have ids too but no instantiation."""

    inputs: str
    gemm: int
    id: int
    form: Form | None
    outcome: Outcome | None


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """All that a version offers on an architecture.

    `answers` tell what the dispatch makes of forms that somebody asked about, `refusals` by family why its
    heuristic threw.
    """

    tactics: tuple[Tactic, ...]
    answers: dict[Form, Outcome]
    refusals: dict[str, str]


def read(
    cache: Cache,
    sources: Sources,
    arch: Arch,
    toolchain: Toolchain,
    defines: Sequence[str],
    asked: Collection[Form],
    scratch: Path,
) -> Offer:
    """BenchError where the sources are not understood, or the program cannot be built or run."""
    families = sorted({form.inputs for form in asked})
    text = dispatch.program(sources, families)
    forms = sorted(asked, key=str)
    questions = "".join(_question(form, arch) for form in forms)
    own = [path.read_text() for folder in _OWN_INCLUDES for path in sorted(folder.rglob("*.h"))]
    about = (
        f"{toolchain.version} {toolchain.gxx_version} {arch.sm}",
        " ".join((*_PREPROCESS, *_COMPILE, *_LINK, *defines)),
        questions,
    )
    place = cache.place("tactics", digest(*about, sources.digest, text, *own))
    said = cache.read_json(place)
    if not isinstance(said, str):
        build = _Build(cache, sources, toolchain, Path(tempfile.mkdtemp(prefix="tactics-", dir=scratch)))
        code = build.preprocess(text, defines)
        shared = cache.place("tactics", digest(*about, code))
        said = cache.read_json(shared)
        if not isinstance(said, str):
            said = build.run(arch, questions)
            cache.write_json(shared, said)
        cache.write_json(place, said)
    return parse(said, forms)


def parse(said: str, asked: Sequence[Form]) -> Offer:
    """What the program wrote, asked about these forms. BenchError `bad_listing` for anything else."""
    tactics: list[Tactic] = []
    refusals: dict[str, str] = {}
    answers: list[Outcome] = []
    try:
        for line in said.split("\n"):
            kind, *fields = line.split("\t")
            if kind == "offer":
                tactics.append(_tactic(fields))
            elif kind == "refused":
                refusals[fields[0]] = message(fields[2])
            elif kind == "answer":
                answers.append(_outcome(fields, asked[len(answers)].inputs))
        return Offer(tuple(tactics), dict(zip(asked, answers, strict=True)), refusals)
    except (IndexError, KeyError, ValueError) as error:
        raise BenchError("bad_listing", f"The program that lists tactics wrote nonsense: {error}.") from error


def message(said: str) -> str:
    """An exception's own words: without its prefix, the function it arose in, its place and its backtrace."""
    text = said.partition(_BACKTRACE)[0].replace("[TensorRT-LLM][ERROR] ", "")
    text = text.partition("Config was")[0]
    lines = [_PLACE.sub("", line).strip() for line in text.split("\x1f")]
    return " ".join(line for line in lines if line and "[with " not in line and not _FRAME.match(line))[:300]


def _tactic(fields: list[str]) -> Tactic:
    inputs, gemm, number, kind = fields[0], int(fields[1]), int(fields[2]), fields[3]
    if kind != "tma":
        return Tactic(inputs, gemm, number, None, None)
    outcome = _outcome(fields[15:], inputs)
    if outcome.form is not None:
        return Tactic(inputs, gemm, number, outcome.form, outcome)
    if fields[4] == "0":
        raise ValueError(f"a tile of tactic {number} that has no name and is not dispatched")
    m, n, k_bytes, cluster_m, cluster_n, cluster_k, sm = map(int, fields[4:11])
    epilogue, dynamic, fusion, swap = fields[11:15]
    form = Form(
        inputs,
        (m, n, k_bytes * 8 // ACTIVATION_BITS[inputs]),
        (cluster_m, cluster_n, cluster_k),
        fusion,
        swap == "1",
        _word(sm, inputs, epilogue, dynamic),
    )
    return Tactic(inputs, gemm, number, form, outcome)


def _outcome(fields: list[str], inputs: str) -> Outcome:
    if fields[0] == "never":
        return Outcome(None, message(fields[1]))
    arch, m, n, k, cluster_m, cluster_n, cluster_k = map(int, fields[1:8])
    schedule, fusion, _, dynamic, swap = fields[8:13]
    form = Form(
        inputs,
        (m, n, k),
        (cluster_m, cluster_n, cluster_k),
        fusion,
        swap == "1",
        _word(arch, inputs, schedule, dynamic),
    )
    return Outcome(form)


def _word(sm: int, inputs: str, epilogue: str, dynamic: str) -> str:
    # of other inputs SM103 runs SM100's kernels, though its tactics are numbered 103
    prefix = "sm103_" if sm == 103 and inputs == "nvfp4xnvfp4" else ""
    return f"{prefix}{epilogue}{'_dynamic' if dynamic == '1' else ''}"


def _question(form: Form, arch: Arch) -> str:
    m, n, k = form.tile
    own = "100" if arch.module == "103" else arch.module
    values = (
        form.inputs,
        "103" if form.schedule.startswith("sm103_") else own,
        *(m, n, k * ACTIVATION_BITS[form.inputs] // 8),
        *form.cluster,
        form.schedule.removeprefix("sm103_").removesuffix("_dynamic"),
        int(form.schedule.endswith("_dynamic")),
        form.fusion,
        int(form.swap_ab),
    )
    return " ".join(map(str, values)) + "\n"


class _Build:
    """The program in a folder of its own."""

    def __init__(self, cache: Cache, sources: Sources, toolchain: Toolchain, folder: Path) -> None:
        self._cache = cache
        self._sources = sources
        self._toolchain = toolchain
        self._folder = folder

    def preprocess(self, text: str, defines: Sequence[str]) -> str:
        """Its code, less what only tells where a line stood: whichever version it is of, it says the same."""
        source, code = self._folder / "tactics.cpp", self._folder / "tactics.ii"
        source.write_text(text, encoding="utf-8")
        includes = [f"-I{include}" for include in (_OWN_INCLUDES[0], *INCLUDES, *_OWN_INCLUDES[1:])]
        compilers = [str(self._toolchain.nvcc), "-ccbin", str(self._toolchain.gxx)]
        self._command([*compilers, *_PREPROCESS, *defines, *includes, str(source), "-o", str(code)])
        lines = code.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if line and not line.startswith("# "))

    def run(self, arch: Arch, questions: str) -> str:
        """What the program says."""
        asked, program = self._folder / "asked", self._folder / "tactics"
        asked.write_text(questions, encoding="utf-8")
        gxx, compiled = str(self._toolchain.gxx), f"{program}.o"
        self._command([gxx, *_COMPILE, "-c", f"{program}.ii", "-o", compiled])
        self._command([gxx, compiled, *_LINK, "-o", str(program)])
        ended = children.run(
            [str(program), str(arch.sm), str(asked)],
            folder=self._folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            timeout=_RUN_SECONDS,
        )
        if ended.returncode != 0:
            raise self._failed("does not run to its end", ended)
        return ended.stdout

    def _command(self, command: list[str]) -> None:
        ended = children.run(
            command,
            folder=self._folder,
            cwd=self._sources.root,  # include folders are relative, and so are the places exceptions name
            env=self._toolchain.environment(self._folder),
            timeout=_BUILD_SECONDS,
        )
        if ended.returncode != 0:
            self._cache.need_free(WORK_BYTES, "the program that lists tactics")
            raise self._failed("cannot be built", ended)

    def _failed(self, what: str, ended: children.Ended) -> BenchError:
        lines = ended.stderr.splitlines()
        said = next((line for line in lines if "error" in line), lines[-1] if lines else "no reason given")
        version = self._sources.version
        return BenchError(
            "no_listing",
            f"The program that lists the tactics of flashinfer {version} {what}: {said.strip()[:300]}",
        )
