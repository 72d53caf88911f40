"""Reads the lines that `probe/cutlass/device_kernel.h` leaves in the PTX."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from workers.bench.tiles.instantiations import schedule_word

_LINE = re.compile(
    r"\.entry\s+(?P<entry>[\w$]+)|//\s*tilewatch\s+(?P<line>(?:\w+=-?\d+\s*)+)$", re.MULTILINE | re.ASCII
)
#: in the name of a kernel whose blocks share the K of a tile
_STREAM_K = "StreamKScheduler"
_PAIR = re.compile(r"(\w+)=(-?\d+)", re.ASCII)

#: element codes of the probe header
ELEMENTS = {0: "void", 1: "e2m1", 2: "e4m3", 3: "f16", 4: "bf16", 5: "ue4m3", 6: "ue8m0"}
_INPUTS = {
    ("e2m1", "e2m1", "ue4m3"): "nvfp4xnvfp4",
    ("e4m3", "e2m1", "ue8m0"): "mxfp8xmxfp4",
    ("e4m3", "e4m3", "void"): "fp8xfp8",
    ("e4m3", "e4m3", "ue8m0"): "mxfp8xmxfp8",
    ("bf16", "bf16", "void"): "bf16xbf16",
}
#: K tiles of a block-scaled SM103 kernel that its launcher asks for at once
_SM103_K_TILES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """What one compiled kernel's own types say. `parts` sum to `need_bytes`.

    `tile` is one block's, as instantiations name it. `schedule` is None where the types do not tell it.
    """

    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str | None
    stages: int
    threads: int
    need_bytes: int
    parts: dict[str, int]
    line: str

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Kernel:
        return cls(**{**value, "tile": tuple(value["tile"]), "cluster": tuple(value["cluster"])})


def parse(ptx: str) -> list[Kernel]:
    """All kernels of a PTX text, in its order. ValueError if a line lacks a value."""
    found, entry = [], ""
    for match in _LINE.finditer(ptx):
        entry = match["entry"] or entry
        if match["line"]:
            found.append(_kernel(match["line"].strip(), entry))
    return found


def _kernel(line: str, entry: str) -> Kernel:
    values = {key: int(value) for key, value in _PAIR.findall(line)}
    try:
        swap_ab = bool(values["swap"])
        a, b, scale = (ELEMENTS.get(values[key], "unknown") for key in ("a", "b", "sf"))
        activation, weight = (b, a) if swap_ab else (a, b)
        return Kernel(
            inputs=_INPUTS.get((activation, weight, scale), f"{activation}x{weight}"),
            output=ELEMENTS.get(values["output"], "unknown"),
            tile=_tile(values),
            # chosen at run time, it is at least the blocks that share a tile
            cluster=(values["cm"] or values["blocks"], values["cn"] or 1, values["ck"] or 1),
            fusion="finalize" if values["finalize"] else "none",
            swap_ab=swap_ab,
            schedule=_schedule(values, entry),
            stages=values["stages"],
            threads=values["threads"],
            need_bytes=values["need"],
            parts=_parts(values),
            line=line,
        )
    except KeyError as error:
        raise ValueError(f"the probe line lacks {error.args[0]}: {line}") from error


def _tile(values: dict[str, int]) -> tuple[int, int, int]:
    """Of one block, and as the launcher was asked for it."""
    k_tiles = _SM103_K_TILES if values["arch"] == 103 else 1
    return values["m"] // values["blocks"], values["n"], values["k"] // k_tiles


def _schedule(values: dict[str, int], entry: str) -> str | None:
    if _STREAM_K in entry:
        return "stream_k"
    if values["arch"] >= 120:
        return "auto"
    if values["arch"] < 100:
        return None
    schedule = "PtrArrayNoSmemWarpSpecialized" if values["nosmem"] else "PtrArrayTmaWarpSpecialized"
    return schedule_word(schedule, dynamic=not values["cm"], tag=f"Sm{values['arch']}")


def _parts(values: dict[str, int]) -> dict[str, int]:
    """Splits the shared memory of a block; alignment gaps are `padding`, so that nothing is lost."""
    operands = {
        "operand_a": values["smem_a"],
        "operand_b": values["smem_b"],
        "scales_a": values["smem_sfa"],
        "scales_b": values["smem_sfb"],
    }
    if not operands["operand_a"] or not operands["operand_b"]:
        operands = {"mainloop": values["mainloop"]}
    parts = {
        **operands,
        "epilogue": values["epilogue"],
        "pipelines": values["pipelines"],
        "scheduler": values["scheduler"],
        "tensor_maps": values["tensormaps"],
    }
    parts = {name: size for name, size in parts.items() if size}
    padding = values["need"] - sum(parts.values())
    if padding < 0:  # storage that overlaps cannot be split
        return {"storage": values["need"]}
    return {**parts, "padding": padding} if padding else parts
