"""What is explored: each configuration, its C++ text, and the order in which they are tried."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

ARCHES = ("sm120", "sm121")
_INPUTS = {"nvfp4xnvfp4": ("Nvfp4", "Nvfp4"), "mxfp8xmxfp4": ("Mxfp8", "Mxfp4")}
_SCHEDULES = {"cooperative": "Cooperative", "pingpong": "Pingpong", "auto": "Auto"}


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """One kernel; `tile` is (M, N, K) in elements. `with_c`: the epilogue reads a bf16 C, else C is void.

    `swap_ab`: D is column-major, as where activations and weights have changed places.
    """

    grouped: bool
    inputs: str
    tile: tuple[int, int, int]
    schedule: str = "cooperative"
    with_c: bool = False
    swap_ab: bool = False

    @property
    def name(self) -> str:
        """Unique, and a C++ identifier: errors and PTX name the configuration by it."""
        words = ["grouped" if self.grouped else "dense", self.inputs, "x".join(map(str, self.tile))]
        words += [self.schedule, *["with_c"] * self.with_c, *["swap"] * self.swap_ab]
        return "_".join(words)

    @property
    def scout(self) -> Config:
        """The plain kernel of the same tile, whose fate decides whether the other modes are tried."""
        return Config(self.grouped, self.inputs, self.tile)

    @property
    def text(self) -> str:
        """An explicit instantiation, for a unit that includes explored.hpp."""
        a, b = _INPUTS[self.inputs]
        if self.swap_ab:
            a, b = b, a
        grouped, swap = (str(flag).lower() for flag in (self.grouped, self.swap_ab))
        c = "Bf16" if self.with_c else "void"
        axes = ", ".join([grouped, a, b, c, swap, _SCHEDULES[self.schedule], *map(str, self.tile)])
        kernel = f"explored::{self.name}"
        return (
            f'#line 1 "{self.name}"\n'
            f"namespace explored {{ struct {self.name} : Gemm<{axes}>::Kernel {{}}; }}\n"
            f"template __global__ void cutlass::device_kernel<{kernel}>("
            f"CUTLASS_GRID_CONSTANT typename {kernel}::Params const);\n"
        )


_M, _N, _K = (128, 256), (32, 64, 128, 256), (128, 64, 256)
#: (M, N, K) of every mode. The mainloop wants two stages, so what has no room for them is an edge.
_NVFP4 = tuple(tile for tile in itertools.product(_M, _N, _K) if (tile[0] + tile[1]) * tile[2] < 96 * 1024)
_MXFP8 = tuple(tile for tile in itertools.product(_M, _N, (128,)) if tile[0] + tile[1] < 384)
#: beyond what is expected to compile; tried in one mode only, since there is a reason to be learnt, not more
_EDGES = (
    *((64, 128, 128), (128, 16, 128), (128, 192, 128), (192, 128, 128)),
    *((128, 256, 256), (256, 128, 256), (256, 256, 256), (128, 128, 512), (512, 128, 128)),
)


def configurations() -> list[Config]:
    """All, scouts first and plain ones before others, so that any beginning is a fair sample."""
    found = [
        *_edges(),
        *_modes(_NVFP4, inputs="nvfp4xnvfp4"),
        *_modes(_MXFP8, inputs="mxfp8xmxfp4"),
    ]
    return sorted(dict.fromkeys(found), key=lambda config: config != config.scout)


def _edges() -> Iterator[Config]:
    for grouped, tile in itertools.product((True, False), _EDGES):
        yield Config(grouped, "nvfp4xnvfp4", tile)


def _modes(tiles: tuple[tuple[int, int, int], ...], **common: Any) -> Iterator[Config]:
    for with_c, swap_ab, schedule, grouped in itertools.product(
        (False, True), (False, True), _SCHEDULES, (True, False)
    ):
        for tile in tiles:
            yield Config(grouped, tile=tile, schedule=schedule, with_c=with_c, swap_ab=swap_ab, **common)
