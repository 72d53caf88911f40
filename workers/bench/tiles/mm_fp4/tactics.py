"""Which tactics a version's mm_fp4 runner offers and which kernels they launch: asked of its own code.

The runner's list and its switch are plain C++ that a host compiler takes without CUDA: `ask.cpp` includes
the version's own header, puts launchers that print in the place of the kernels, and sends every tactic
through.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError
from workers.bench.tiles import children
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import digest
from workers.bench.tiles.instantiations import Form
from workers.bench.tiles.mm_fp4.sources import CONFIGS, HEADERS, STORE256, Module
from workers.bench.tiles.mm_fp4.units import INPUTS
from workers.bench.tiles.sources import DATA, Sources
from workers.bench.tiles.toolchain import Toolchain

_HERE = Path(__file__).parent
_ASK, _STANDIN = _HERE / "ask.cpp", _HERE / "standin"
_GUARD = re.compile(r"^#ifndef\s+(\w+)\s*\n\s*#define\s+\1\b", re.MULTILINE)
_CUTLASS_INCLUDE = re.compile(r'^#include\s+["<](cutlass/[\w./]+)[">]', re.MULTILINE)
_TILE_NAME = re.compile(r"CtaShape(\d+)x(\d+)x(\d+)B")
_CLUSTER_NAME = re.compile(r"ClusterShape_(\d+)x(\d+)x(\d+)")
_FP4_A_BYTE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Tactic:
    """One entry of the list: its id is its place. `refused` is what the switch said instead of launching.

    `forms` are the kernels it launches; on SM103 two, of which the alignment of D decides. `name` is the
    list's own, whose K counts bytes in some places and elements in others. A refused tactic has the form
    that its name promises, K in bytes.
    """

    id: int
    name: str
    forms: tuple[Form, ...]
    refused: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """`reached` is all that the switch launches for any configuration, whether a tactic has it or not."""

    tactics: tuple[Tactic, ...]
    reached: frozenset[Form]


def ask(cache: Cache, sources: Sources, module: Module, toolchain: Toolchain, scratch: Path) -> Offer:
    """Tactics in the order of their ids. BenchError where the version's code is not as expected."""
    dispatch = _text(sources, f"{HEADERS}/{module.dispatch}")
    configs = _text(sources, CONFIGS)
    interface = _text(sources, f"{HEADERS}/fp4_gemm_cutlass.h")
    guards = [_guard(sources, f"{HEADERS}/{header}") for header in module.kernels]
    own = [path.read_text() for path in sorted((_ASK, *_STANDIN.rglob("*.h*")))]
    texts = (module.dispatch, dispatch, configs, interface, " ".join(guards))
    place = cache.place("tactics", digest(*texts, *own))
    said: Any = cache.read_json(place)
    if not isinstance(said, str):
        said = _run(cache, sources, module, toolchain, scratch, dispatch, guards)
        cache.write_json(place, said)
    return parse(said, module, configs)


def parse(said: str, module: Module, configs: str) -> Offer:
    """The lines of `ask.cpp`; `configs` is the header whose enumerators it prints by number."""
    tiles = enumerators(configs, "CutlassTileConfigSM100" if module.pairs else "CutlassTileConfigSM120")
    clusters = enumerators(configs, "ClusterShape")
    listed: dict[int, tuple[str, str, bool, bool]] = {}
    forms: dict[int, list[Form]] = {}
    refused: dict[int, str] = {}
    reached = set()
    for line in said.splitlines():
        kind, rest = line.split(" ", 1)
        if kind == "refused":
            number, _, message = rest.partition(" ")
            refused[int(number)] = message
            continue
        numbers = [int(number) for number in rest.split()]
        if kind == "tactic":
            identifier, tile, cluster, swap_ab, stream_k = numbers
            names = tiles.get(tile, str(tile)), clusters.get(cluster, str(cluster))
            listed[identifier] = (*names, bool(swap_ab), bool(stream_k))
        elif kind == "kernel":
            forms.setdefault(numbers[0], []).append(_form(numbers[1:], module))
        else:
            reached.add(_form(numbers, module))
    tactics = (
        Tactic(identifier, names[0], tuple(forms[identifier]))
        if identifier in forms
        else Tactic(
            identifier, names[0], _promised(module, *names), refused.get(identifier, "it launches nothing")
        )
        for identifier, names in sorted(listed.items())
    )
    return Offer(tuple(tactics), frozenset(reached))


def _form(numbers: list[int], module: Module) -> Form:
    m, n, k, cluster_m, cluster_n, cluster_k, sms, swap_ab, stream_k, store256 = numbers
    schedule = module.schedule(sms, stream_k=bool(stream_k), store256=bool(store256))
    return Form(INPUTS, (m, n, k), (cluster_m, cluster_n, cluster_k), "none", bool(swap_ab), schedule)


def enumerators(header: str, name: str) -> dict[int, str]:
    """The names in a C++ `enum class` by their values; empty where the header has no such enum."""
    match = re.search(rf"enum class {name}\b[^{{]*\{{(.*?)\}}", header, re.DOTALL)
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", match[1], flags=re.DOTALL) if match else ""
    named: dict[int, str] = {}
    value = 0
    for entry in filter(None, (entry.strip() for entry in body.split(","))):
        identifier, _, given = (part.strip() for part in entry.partition("="))
        value = int(given, 0) if given else value
        named[value] = identifier
        value += 1
    return named


def _promised(module: Module, tile: str, cluster: str, swap_ab: bool, stream_k: bool) -> tuple[Form, ...]:
    shape, over = _TILE_NAME.search(tile), _CLUSTER_NAME.search(cluster)
    if shape is None or over is None:
        return ()
    m, n, k = (int(size) for size in shape.groups())
    extents = (int(over[1]), int(over[2]), int(over[3]))
    schedule = module.schedule(2 if extents[0] % 2 == 0 else 1, stream_k=stream_k)
    return (Form(INPUTS, (m, n, k * _FP4_A_BYTE), extents, "none", swap_ab, schedule),)


def _run(
    cache: Cache,
    sources: Sources,
    module: Module,
    toolchain: Toolchain,
    scratch: Path,
    dispatch: str,
    guards: list[str],
) -> str:
    empty, program = scratch / "no_cutlass", scratch / "ask"
    for name in _CUTLASS_INCLUDE.findall(dispatch):
        (empty / name).parent.mkdir(parents=True, exist_ok=True)
        (empty / name).touch()
    options = [f"-D{guard}" for guard in guards]
    if STORE256 in dispatch:
        options.append("-DHAS_STORE256")
    header = f'-DTEMPLATE_HEADER="flashinfer/gemm/{module.dispatch}"'
    folders = [f"-I{folder}" for folder in (_STANDIN, empty, sources.root / DATA / "include")]
    compile_it = [
        str(toolchain.gxx),
        "-std=c++17",
        "-w",
        *options,
        header,
        *folders,
        str(_ASK),
        "-o",
        str(program),
    ]
    for command in (compile_it, [str(program)]):
        ended = children.run(command, folder=scratch, env=toolchain.environment(scratch), timeout=120)
        if ended.returncode != 0:
            cache.need_free(WORK_BYTES, "the tactics of mm_fp4")
            lines = [line for line in ended.stderr.splitlines() if "error" in line]
            said = lines[0] if lines else f"exit status {ended.returncode}"
            raise BenchError(
                "tactics_not_understood",
                f"The mm_fp4 runner of flashinfer {sources.version} does not tell its tactics: "
                f"{said.replace(str(sources.root), 'WHEEL')[:300]}",
            )
    return ended.stdout


def _guard(sources: Sources, name: str) -> str:
    match = _GUARD.search(_text(sources, name))
    if match is None:
        raise BenchError(
            "tactics_not_understood",
            f"{name} of flashinfer {sources.version} has no include guard to leave it out by.",
        )
    return match[1]


def _text(sources: Sources, name: str) -> str:
    try:
        return (sources.root / name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BenchError(
            "wheel_lacks_sources", f"The wheel of flashinfer {sources.version} lacks {name}."
        ) from error
