"""The units of a version's mm_fp4 module, and the kernels that each of them instantiates."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import children
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.dispatch import without_comments
from workers.bench.tiles.instantiations import Instantiation, Unit, Variant
from workers.bench.tiles.mm_fp4.sources import HEADERS, MODULES, STORE256, STREAM_K, TEMPLATES, Module
from workers.bench.tiles.sources import Sources

INPUTS = "nvfp4xnvfp4"

_CHILD = Path(__file__).with_name("run_module.py")
_MACRO = re.compile(r"\bINSTANTIATE_\w+\s*\(([^()]*)\)")
_OUTPUTS = {"half": "f16", "__nv_bfloat16": "bf16"}
_SMS = {"_1SM": 1, "_2SM": 2, "_1SM_sm103": 1, "_2SM_sm103": 2}
_FLAGS = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """Units in the order of their names, and the -D options they are compiled with. `counts_stages` is False
    where the sources fix the number of pipeline stages instead of having CUTLASS count them."""

    units: tuple[Unit, ...]
    defines: tuple[str, ...]
    counts_stages: bool


def render(cache: Cache, sources: Sources, module: Module, scratch: Path) -> Rendered:
    """What the version's own function writes. BenchError where it, or what it writes, is not understood."""
    output = scratch / "mm_fp4"
    output.mkdir()
    paths = [str(sources.root / MODULES), module.function, str(sources.root / TEMPLATES), str(output)]
    ended = children.run(
        [sys.executable, "-I", str(_CHILD), *paths],
        folder=scratch,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8"},
        timeout=120,
    )
    if ended.returncode != 0:
        cache.need_free(WORK_BYTES, "the units of mm_fp4")
        said = ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"]
        raise BenchError(
            "generator_failed", f"{module.function} of flashinfer {sources.version} failed: {said[-1][:300]}"
        )
    asked = json.loads((output / "module.json").read_text(encoding="utf-8"))
    headers = [(sources.root / HEADERS / header).read_text("utf-8", "replace") for header in module.kernels]
    stream_k = any("LauncherStreamK" in header for header in headers)
    units = []
    for path in sorted(Path(source) for source in asked["sources"]):
        if path.is_relative_to(output):  # the others are the module's own, they instantiate no kernel
            text = path.read_text(encoding="utf-8", errors="replace")
            units.append(parse(path.name, text, module, stream_k))
    if not units:
        raise BenchError("no_instantiations", f"flashinfer {sources.version} writes no unit of mm_fp4.")
    return Rendered(
        tuple(units),
        tuple(flag for flag in asked["flags"] if flag.startswith("-D")),
        counts_stages=all("StageCountAuto" in header for header in headers),
    )


def parse(name: str, text: str, module: Module, stream_k: bool) -> Unit:
    """`text` of a file `name`; with `stream_k` every line makes a stream-K kernel besides the plain one.

    BenchError where a line instantiates something else than expected.
    """
    code = without_comments(text)
    found = []
    for match in _MACRO.finditer(code):
        first = code.count("\n", 0, match.start()) + 1
        lines = (first, first + match[0].count("\n"))
        arguments = [argument.strip() for argument in match[1].split(",")]
        variant = _variant(arguments, module, STORE256 in code)
        if variant is None:
            raise BenchError(
                "units_not_understood", f"{name} instantiates what the survey cannot read: {match[0][:150]}"
            )
        found.append(Instantiation(variant, *lines))
        if stream_k:
            found.append(Instantiation(dataclasses.replace(variant, schedule=STREAM_K), *lines))
    if not found:
        raise BenchError("units_not_understood", f"{name} instantiates nothing that the survey can read.")
    return Unit(name, text, tuple(found))


def _variant(arguments: list[str], module: Module, store256: bool) -> Variant | None:
    """From (output, M, N, K, cluster M, N, K, SMs[, swap_ab]); K is in elements here."""
    if len(arguments) not in (8, 9):
        return None
    output, *numbers, sms = arguments[:8]
    swap_ab = arguments[8] if len(arguments) == 9 else "false"
    if not all(number.isdecimal() for number in numbers):
        return None
    if output not in _OUTPUTS or sms not in _SMS or swap_ab not in _FLAGS:
        return None
    m, n, k, cluster_m, cluster_n, cluster_k = map(int, numbers)
    return Variant(
        inputs=INPUTS,
        output=_OUTPUTS[output],
        tile=(m, n, k),
        cluster=(cluster_m, cluster_n, cluster_k),
        fusion="none",
        swap_ab=_FLAGS[swap_ab],
        schedule=module.schedule(_SMS[sms], store256=store256),
    )
