"""What a FlashInfer version generates for an architecture, and with which macros it compiles that."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Collection
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import children, instantiations
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.instantiations import Unit
from workers.bench.tiles.sources import MODULES, Sources

_CHILD = Path(__file__).with_name("run_generator.py")


@dataclasses.dataclass(frozen=True, slots=True)
class Generated:
    """`units` hold the surveyed families, in the order of their names. The counts are of all that the version
    writes for the architecture."""

    units: tuple[Unit, ...]
    all_units: int
    all_instantiations: int


def generate(
    cache: Cache,
    sources: Sources,
    arch: Arch,
    nvcc_version: str,
    scratch: Path,
    inputs: Collection[str] = instantiations.INPUTS,
) -> Generated:
    """BenchError if the version writes nothing of the families asked for."""
    output = scratch / "generated"
    output.mkdir()
    ended = children.run(
        [sys.executable, "-I", str(_CHILD), str(sources.root), str(output), arch.module, nvcc_version],
        folder=scratch,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8"},
        timeout=120,
    )
    if ended.returncode != 0:
        cache.need_free(WORK_BYTES, "the generator")
        said = ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"]
        raise BenchError(
            "generator_failed", f"The generator of flashinfer {sources.version} failed: {said[-1][:300]}"
        )
    units, texts = [], {}
    for path in sorted(output.rglob("*.generated.cu")):
        texts[path.name] = path.read_text(encoding="utf-8", errors="replace")
        unit = instantiations.parse(path.name, texts[path.name], *arch.tags, inputs=inputs)
        if unit.instantiations:
            units.append(unit)
    if not units:
        raise BenchError(
            "no_instantiations",
            f"flashinfer {sources.version} generates no grouped GEMM of {', '.join(inputs)} for {arch.name}.",
        )
    return Generated(tuple(units), len(texts), sum(map(instantiations.written, texts.values())))


def defines(sources: Sources, arch: Arch) -> tuple[str, ...]:
    """The -D options in the wheel's own build function for this architecture."""
    wanted = f"gen_cutlass_fused_moe_sm{arch.module}_module"
    try:
        body = ast.parse((sources.root / MODULES).read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise BenchError(
            "wheel_lacks_sources", f"{MODULES} of flashinfer {sources.version}: {error}."
        ) from error
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            literals = (leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant))
            return tuple(value for value in literals if isinstance(value, str) and value.startswith("-D"))
    raise BenchError("wheel_lacks_sources", f"flashinfer {sources.version} has no {wanted} in {MODULES}.")
