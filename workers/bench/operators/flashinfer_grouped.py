"""Grouped products through FlashInfer: a weight for each group of rows, as in a MoE layer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import GroupedGemm
from workers.bench.operators import formats, no_jit
from workers.bench.operators.asking import backends_of
from workers.bench.operators.base import Operator
from workers.bench.operators.flashinfer_gemm import bind_where_offered, full_name
from workers.bench.operators.products import Grouped, GroupedProduct

Launch = Callable[[], Any]
#: what the wrapper's documentation advises
_WORKSPACE_BYTES = 128 * 2**20
#: the wrapper takes its backend as any text; these are the two that its documentation names
_SEGMENT_BACKENDS = ("sm80", "sm90")


def operators(torch: Any, case: Case) -> list[Operator]:
    if not isinstance(case, GroupedGemm):
        return []
    gemm = no_jit.flashinfer(torch, "flashinfer.gemm")
    if gemm is None:
        return []
    found: list[Operator] = []
    wrapper = getattr(gemm, "SegmentGEMMWrapper", None)
    if case.dtype in ("bf16", "fp16") and wrapper is not None:
        found.extend(
            GroupedProduct(
                f"flashinfer.SegmentGEMMWrapper.{backend}", functools.partial(_segments, wrapper, backend)
            )
            for backend in _SEGMENT_BACKENDS
        )
    for name, (bind, align) in _FUNCTIONS.get(case.dtype, {}).items():
        function = getattr(gemm, name, None)
        if function is not None:
            found.extend(
                GroupedProduct(
                    full_name(name, backend),
                    functools.partial(bind_where_offered, bind, function, backend),
                    align,
                )
                for backend in backends_of(function) or (None,)
            )
    return found


def _segments(wrapper: Any, backend: str, of: Grouped) -> Launch:
    torch, device = of.torch, of.a.data.device
    segments = wrapper(torch.empty(_WORKSPACE_BYTES, dtype=torch.int8, device=device), backend)
    indptr = torch.tensor(of.starts, dtype=torch.int64, device=device)
    # sm80 adds its product to what `out` holds (group_gemm.cuh: beta is 1): only the zeros that the wrapper
    # itself makes for every call give the product, and they are part of what it costs.
    out = None if backend == "sm80" else of.output()
    return functools.partial(
        segments.run, of.a.data, of.weights.data, of.case.groups, True, out=out, seg_indptr=indptr
    )


def _indptr(of: Grouped) -> Any:
    return of.torch.tensor(of.starts, dtype=of.torch.int32, device=of.a.data.device)


def _groupwise(function: Any, backend: str | None, of: Grouped) -> Launch:
    chosen = {} if backend is None else {"backend": backend}
    return functools.partial(
        function, of.a.data, of.weights.data, of.a.scales, of.weights.scales, _indptr(of),
        scale_major_mode="K", out=of.output(), **chosen,
    )  # fmt: skip


def _nvfp4(function: Any, backend: str | None, of: Grouped) -> Launch:
    torch = of.torch
    scales = [formats.swizzle(torch, each).view(torch.uint8) for each in of.weights.scales]
    return functools.partial(
        function, of.a.data, of.weights.data, scales_by_group(of), torch.stack(scales), _indptr(of),
        alpha=of.a.scale * of.weights.scale, out=of.output(),
    )  # fmt: skip


def scales_by_group(of: Grouped) -> Any:
    """Block scales of A, each group swizzled by itself, as bytes.

    Group g begins at row ⌊(start + g·127) / 128⌋·128: the kernel computes that, so that no list of
    beginnings is needed (group_gemm_nvfp4_groupwise_sm120.cuh).
    """
    torch, tile = of.torch, formats.TILE_ROWS

    def begin(group: int) -> int:
        return (of.starts[group] + group * (tile - 1)) // tile * tile

    groups = [
        formats.swizzle(torch, of.a.scales[start:end].view(torch.uint8))
        for start, end in zip(of.starts, of.starts[1:], strict=False)
    ]
    held = groups[0].new_zeros(begin(len(groups)) + tile, groups[0].shape[1])
    for group, scales in enumerate(groups):
        held[begin(group) : begin(group) + len(scales)] = scales
    return held


def _deep_gemm(function: Any, backend: str | None, of: Grouped) -> Launch:
    """Every row names its group; those between groups name the one before them."""
    torch = of.torch
    lengths = torch.tensor(of.starts).diff()
    groups = torch.arange(of.case.groups, dtype=torch.int32).repeat_interleave(lengths).to(of.a.data.device)
    return functools.partial(
        function, of.a.data, of.weights.data, of.a.scales, of.weights.scales, groups, out=of.output()
    )


#: by format: each function, and the multiple of rows at which it wants its groups to begin
_FUNCTIONS: dict[str, dict[str, tuple[Callable[[Any, str | None, Grouped], Launch], int]]] = {
    "fp8_block": {
        "group_gemm_fp8_nt_groupwise": (_groupwise, 4),
        "group_deepgemm_fp8_nt_groupwise": (_deep_gemm, 128),
    },
    "nvfp4": {"group_gemm_nvfp4_nt_groupwise": (_nvfp4, 4)},
}
