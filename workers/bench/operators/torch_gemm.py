"""Products through torch: cuBLAS on a GPU, for grouped ones CUTLASS; on a CPU its own libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import PLAIN, Gemm, GroupedGemm
from workers.bench.operators import formats
from workers.bench.operators.base import Operator, UnsupportedError
from workers.bench.operators.products import Dense, Grouped, GroupedProduct, Product


def operators(torch: Any, case: Case) -> list[Operator]:
    if isinstance(case, Gemm):
        if case.dtype in PLAIN:
            return [Product("torch.mm", _mm)]
        if case.dtype in _SCALED and hasattr(torch, "_scaled_mm"):
            return [Product("torch._scaled_mm", _SCALED[case.dtype])]
        if case.dtype == "nvfp4" and hasattr(torch.nn.functional, "scaled_mm"):
            return [Product("torch.nn.functional.scaled_mm", _nvfp4)]
    if isinstance(case, GroupedGemm) and case.dtype == "bf16" and hasattr(torch, "_grouped_mm"):
        return [GroupedProduct("torch._grouped_mm", _grouped_mm)]
    return []


def _mm(of: Dense) -> Callable[[], Any]:
    torch, a, b, d = of.torch, of.a.data, of.b.data.t(), of.output()
    tf32 = of.case.dtype == "tf32"
    if tf32 and d.device.type == "cpu":
        raise UnsupportedError("tf32 is a mode of NVIDIA's tensor cores; a CPU has none.")
    # "highest" is IEEE fp32; "high" lets fp32 inputs multiply as tf32.
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    return lambda: torch.mm(a, b, out=d)


def _scaled(of: Dense, scale_a: Any, scale_b: Any) -> Callable[[], Any]:
    torch, a, b, d = of.torch, of.a.data, of.b.data.t(), of.output()
    return lambda: torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=d.dtype, out=d)


def _per_tensor(of: Dense) -> Callable[[], Any]:
    return _scaled(of, of.a.scale, of.b.scale)


def _per_block(of: Dense) -> Callable[[], Any]:
    """cuBLAS reads the scales of A with neighbouring rows side by side, and those of B as they lie."""
    return _scaled(of, formats.column_major(of.torch, of.a.scales), of.b.scales.t())


def _mx(of: Dense) -> Callable[[], Any]:
    """Swizzled scales of 32 elements each; a torch without their type does not offer this."""
    torch = of.torch
    if not hasattr(torch, "float8_e8m0fnu"):
        raise UnsupportedError(f"torch {torch.__version__} has no float8_e8m0fnu.")
    scales = (formats.swizzle(torch, each.scales).view(torch.float8_e8m0fnu) for each in (of.a, of.b))
    return _scaled(of, *scales)


_SCALED = {"fp8": _per_tensor, "fp8_block": _per_block, "mxfp8": _mx}


def _nvfp4(of: Dense) -> Callable[[], Any]:
    """Two scales each: swizzled ones of 16 elements, and the tensor's. The function makes D itself."""
    torch, functional = of.torch, of.torch.nn.functional
    recipes = [functional.ScalingType.BlockWise1x16, functional.ScalingType.TensorWise]
    layouts = [functional.SwizzleType.SWIZZLE_32_4_4, functional.SwizzleType.NO_SWIZZLE]
    a, b = (each.data.view(torch.float4_e2m1fn_x2) for each in (of.a, of.b))
    scales_a, scales_b = (
        [formats.swizzle(torch, each.scales).flatten(), each.scale] for each in (of.a, of.b)
    )
    return functools.partial(
        functional.scaled_mm, a, b.t(), scales_a, recipes, scales_b, recipes, layouts, layouts,
        output_dtype=torch.bfloat16,
    )  # fmt: skip


def _grouped_mm(of: Grouped) -> Callable[[], Any]:
    torch, a, weights = of.torch, of.a.data, of.weights.data.transpose(1, 2)
    ends = torch.tensor(of.starts[1:], dtype=torch.int32, device=a.device)
    return lambda: torch._grouped_mm(a, weights, offs=ends)
