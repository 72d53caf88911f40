"""Reads the lines that `probe/cutlass/device_kernel.h` leaves in the PTX."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

_LINE = re.compile(r"//\s*tilewatch\s+((?:\w+=-?\d+\s*)+)$", re.MULTILINE | re.ASCII)
_PAIR = re.compile(r"(\w+)=(-?\d+)", re.ASCII)

#: element codes of the probe header
ELEMENTS = {0: "void", 1: "e2m1", 2: "e4m3", 3: "f16", 4: "bf16", 5: "ue4m3", 6: "ue8m0"}
_INPUTS = {
    ("e2m1", "e2m1", "ue4m3"): "nvfp4xnvfp4",
    ("e4m3", "e2m1", "ue8m0"): "mxfp8xmxfp4",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """What one compiled kernel's own types say. `parts` sum to `need_bytes`."""

    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
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
    return [_kernel(match[1].strip()) for match in _LINE.finditer(ptx)]


def _kernel(line: str) -> Kernel:
    values = {key: int(value) for key, value in _PAIR.findall(line)}
    try:
        swap_ab = bool(values["swap"])
        a, b, scale = (ELEMENTS.get(values[key], "unknown") for key in ("a", "b", "sf"))
        activation, weight = (b, a) if swap_ab else (a, b)
        return Kernel(
            inputs=_INPUTS.get((activation, weight, scale), f"{activation}x{weight}"),
            output=ELEMENTS.get(values["output"], "unknown"),
            tile=(values["m"], values["n"], values["k"]),
            cluster=(values["cm"], values["cn"], values["ck"]),
            fusion="finalize" if values["finalize"] else "none",
            swap_ab=swap_ab,
            stages=values["stages"],
            threads=values["threads"],
            need_bytes=values["need"],
            parts=_parts(values),
            line=line,
        )
    except KeyError as error:
        raise ValueError(f"the probe line lacks {error.args[0]}: {line}") from error


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
