"""Operation names of cutlass_profiler for CUTLASS 3.x kernels.

`cutlass3x_sm<arch>_<class>_<core>gemm_<A>_<B>_<acc>_<C>_<D>_<MxNxK>_<cluster>_<stages>_<layout>_align<n><rest>`:
`GemmOperation.procedural_name` and `extended_name_3x` of `cutlass_library/gemm_operation.py`, 4.2 to 4.5.
"""

from __future__ import annotations

import dataclasses
import re

_NAME = re.compile(
    r"cutlass3x_sm(?P<arch>\d{2,3})[af]?_(?P<op>[a-z]{2,40})_[a-z0-9]{0,40}gemm_(?:[a-z0-9]{1,20}_)??"
    r"(?P<a>[a-z0-9]{1,20})_(?P<b>[a-z0-9]{1,20})_(?P<acc>[a-z0-9]{1,12})_(?P<c>[a-z0-9]{1,12})_(?P<d>[a-z0-9]{1,20})"
    r"_(?P<tile>\d{1,5}x\d{1,5}x\d{1,5})_(?P<cluster>\d{1,2}x\d{1,2}x\d{1,2})_(?P<stages>\d{1,3})"
    r"_(?P<layout>[a-z]{2,3})_align(?P<align>\d{1,3})(?P<rest>(?:_[a-z0-9]{1,40}){0,12})"
)
#: (scale and element, vector size in the name) → the word used for a tile's inputs
_TYPES = {
    "ue4m3xe2m1": "nvfp4",
    "ue8m0xe2m1": "mxfp4",
    "ue8m0xe4m3": "mxfp8",
    "e4m3": "fp8",
    "e2m1": "fp4",
}
LONGEST_SCHEDULE = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """`stages` is None where CUTLASS chose their number itself."""

    arch: str
    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    stages: int | None
    schedule: str


def parse(name: str) -> Operation | None:
    """What a name says, or None where it is no 3.x GEMM of this form."""
    found = _NAME.fullmatch(name[:400])
    if found is None:
        return None
    tile, cluster = _three(found["tile"]), _three(found["cluster"])
    output = found["d"]
    if 0 in tile or not all(1 <= extent <= 64 for extent in cluster) or len(output) > 12:
        return None
    schedule = _schedule(found["layout"], found["rest"])
    if len(schedule) > LONGEST_SCHEDULE:
        return None
    stages = int(found["stages"])
    return Operation(
        arch=f"sm{found['arch']}",
        inputs=f"{_TYPES.get(found['a'], found['a'])}x{_TYPES.get(found['b'], found['b'])}",
        output=output,
        tile=tile,
        cluster=cluster,
        stages=stages or None,
        schedule=schedule,
    )


def _three(text: str) -> tuple[int, int, int]:
    m, n, k = map(int, text.split("x"))
    return m, n, k


def _schedule(layout: str, rest: str) -> str:
    """The schedule's name; another layout than TN is part of it, since it makes another kernel."""
    schedule = rest.lstrip("_").replace("warpspecialized", "ws") or "auto"
    return schedule if layout.startswith("tn") else f"{layout}_{schedule}"
