"""Dense products through sgl-kernel, a rival of FlashInfer's in an environment of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm
from workers.bench.operators import formats
from workers.bench.operators.asking import module_of
from workers.bench.operators.base import Operator
from workers.bench.operators.products import Dense, Product


def operators(torch: Any, case: Case) -> list[Operator]:
    if not isinstance(case, Gemm) or case.dtype not in _FUNCTIONS or not torch.cuda.is_available():
        return []
    library, (name, bind) = module_of("sgl_kernel"), _FUNCTIONS[case.dtype]
    function = getattr(library, name, None)
    return [] if function is None else [Product(f"sgl.{name}", functools.partial(bind, function))]


def _fp4(function: Any, of: Dense) -> Callable[[], Any]:
    """Both matrices as they lie, scales in the 128 × 4 swizzle. The function makes D itself."""
    scales = (formats.swizzle(of.torch, each.scales) for each in (of.a, of.b))
    alpha = of.a.scale * of.b.scale
    return functools.partial(function, of.a.data, of.b.data, *scales, alpha, of.torch.bfloat16)


def _fp8(function: Any, of: Dense) -> Callable[[], Any]:
    """It wants a scale for each row of A and of B: here the tensor's, repeated."""
    scales = (each.scale.repeat(each.rows) for each in (of.a, of.b))
    return functools.partial(function, of.a.data, of.b.data.t(), *scales, of.torch.bfloat16)


def _fp8_block(function: Any, of: Dense) -> Callable[[], Any]:
    """Scales of A column by column, those of B as the transposed view of how they lie."""
    a_scales = formats.column_major(of.torch, of.a.scales)
    return functools.partial(function, of.a.data, of.b.data.t(), a_scales, of.b.scales.t(), of.torch.bfloat16)


_FUNCTIONS: dict[str, tuple[str, Callable[[Any, Dense], Callable[[], Any]]]] = {
    "nvfp4": ("cutlass_scaled_fp4_mm", _fp4),
    "fp8": ("fp8_scaled_mm", _fp8),
    "fp8_block": ("fp8_blockwise_scaled_mm", _fp8_block),
}
