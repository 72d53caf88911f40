"""Dense products through FlashInfer, by whatever functions and backends the installed version states.

Layouts are FlashInfer's documented ones: B is handed over as the transposed view of [N,K], block scales of
4- and 8-bit microscaling formats in the 128 × 4 swizzle, except where a comment says otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm
from workers.bench.operators import formats, no_jit
from workers.bench.operators.asking import backends_of, module_of, takes
from workers.bench.operators.base import Operator, UnsupportedError
from workers.bench.operators.formats import Matrix
from workers.bench.operators.products import Dense, Product

Launch = Callable[[], Any]
#: rows of a weight that TRT-LLM's kernels interleave
_EPILOGUE_TILE = 128


def operators(torch: Any, case: Case) -> list[Operator]:
    if not isinstance(case, Gemm) or case.dtype not in _FUNCTIONS:
        return []
    gemm = no_jit.flashinfer(torch, "flashinfer.gemm")
    if gemm is None:
        return []
    found: list[Operator] = []
    for name, bind in _FUNCTIONS[case.dtype].items():
        function = getattr(gemm, name, None)
        if function is not None:
            found.extend(
                Product(
                    full_name(name, backend), functools.partial(bind_where_offered, bind, function, backend)
                )
                for backend in backends_of(function) or (None,)
            )
    return _without_twins(found)


def full_name(function: str, backend: str | None) -> str:
    return f"flashinfer.{function}" if backend is None else f"flashinfer.{function}.{backend}"


def bind_where_offered(
    bind: Callable[[Any, str | None, Any], Launch], function: Any, backend: str | None, of: Any
) -> Launch:
    """`bind(function, backend, of)`, once the library was asked what it does not check by itself in time.

    Raises UnsupportedError. Without a compiler for cuTile, tuning ends in "No valid config found"; and some
    functions fetch TRT-LLM's kernels before they look at the GPU. These are then not tried where `mm_fp4`
    states that it has none for this GPU: a conclusion of ours, and the message says so.
    """
    gemm, torch = module_of("flashinfer.gemm"), of.torch
    if backend == "cutile" and not gemm.is_cuda_tile_available():  # type: ignore[union-attr]
        raise UnsupportedError(
            "flashinfer.gemm.is_cuda_tile_available() is False: no compiler of cuTile here."
        )
    if (backend or "").startswith("trtllm") and not hasattr(function, "is_backend_supported"):
        states = getattr(getattr(gemm, "mm_fp4", None), "is_backend_supported", None)
        major, minor = torch.cuda.get_device_capability()
        if states is not None and not states("trtllm", 10 * major + minor):
            raise UnsupportedError(
                f"Not tried: {function.__name__} would fetch TRT-LLM's kernels without a look at the GPU, and"
                f" FlashInfer's mm_fp4.is_backend_supported('trtllm', {10 * major + minor}) is False."
            )
    return bind(function, backend, of)


def _without_twins(found: list[Operator]) -> list[Operator]:
    """Without the functions of one kernel that `mm_bf16` also offers as a backend."""
    names = {each.backend for each in found}
    twins = {
        "flashinfer.tgv_gemm_sm100": "flashinfer.mm_bf16.tgv",
        "flashinfer.tinygemm_bf16": "flashinfer.mm_bf16.tinygemm",
    }
    return [each for each in found if twins.get(each.backend) not in names]


def _mm_bf16(function: Any, backend: str | None, of: Dense) -> Launch:
    return functools.partial(function, of.a.data, of.b.data.t(), out=of.output(), backend=backend)


def _tgv(function: Any, backend: str | None, of: Dense) -> Launch:
    bias = of.torch.zeros(of.case.n, dtype=of.a.data.dtype, device=of.a.data.device)
    out = {"out": of.output()} if takes(function, "out") else {}
    return functools.partial(function, of.a.data, of.b.data.t(), bias, **out)


def _tinygemm(function: Any, backend: str | None, of: Dense) -> Launch:
    d = of.output()

    def launch() -> Any:
        function(of.a.data, of.b.data, d)
        return d

    return launch


def _bmm_fp8(function: Any, backend: str | None, of: Dense) -> Launch:
    d = of.output()
    a, b, out = of.a.data.unsqueeze(0), of.b.data.unsqueeze(0).transpose(1, 2), d.unsqueeze(0)

    def launch() -> Any:
        function(a, b, of.a.scale, of.b.scale, d.dtype, out=out, backend=backend)
        return d

    return launch


def _mm_fp8(function: Any, backend: str | None, of: Dense) -> Launch:
    """B shuffled and cut into blocks of K by the library's own preparation, before any call."""
    flashinfer = module_of("flashinfer")
    prepare = getattr(flashinfer, "prepare_low_latency_gemm_weights", None)
    if prepare is None:
        raise UnsupportedError("flashinfer has no prepare_low_latency_gemm_weights.")
    weight = prepare(of.b.data, {})
    return functools.partial(
        function, of.a.data, weight, of.a.scale * of.b.scale, out=of.output(), backend=backend
    )


def _mm_fp4(function: Any, backend: str | None, of: Dense) -> Launch:
    torch, nvfp4 = of.torch, of.case.dtype == "nvfp4"
    weight = shuffled(torch, of.b) if backend == "trtllm" else of.b
    a_scales, b_scales = (formats.swizzle(torch, each.scales).view(torch.uint8) for each in (of.a, weight))
    return functools.partial(
        function,
        of.a.data,
        weight.data.t(),
        a_scales,
        b_scales.t(),
        of.a.scale * of.b.scale if nvfp4 else None,
        out=of.output(),
        block_size=formats.BLOCK[of.case.dtype],
        backend=backend,
        use_nvfp4=nvfp4,
    )


def _mm_mxfp8(function: Any, backend: str | None, of: Dense) -> Launch:
    torch = of.torch
    weight = shuffled(torch, of.b) if backend == "trtllm" else of.b
    a_scales, b_scales = (formats.swizzle(torch, each.scales).flatten() for each in (of.a, weight))
    return functools.partial(
        function, of.a.data, weight.data.t(), a_scales, b_scales, out=of.output(), backend=backend
    )


def shuffled(torch: Any, weight: Matrix) -> Matrix:
    """Rows in the order in which TRT-LLM's kernels take them, by the library's own table."""
    utils = module_of("flashinfer.utils")
    if weight.rows % _EPILOGUE_TILE:
        raise UnsupportedError(f"trtllm takes N in multiples of {_EPILOGUE_TILE}, got {weight.rows}.")
    order = utils.get_shuffle_matrix_a_row_indices(weight.data.view(torch.uint8), _EPILOGUE_TILE)  # type: ignore[union-attr]
    order = order.to(weight.data.device)
    data, scales = (formats.take(torch, held, order) for held in (weight.data, weight.scales))
    return Matrix(weight.dtype, data, scales, weight.scale)


def _blockscale_sm90(function: Any, backend: str | None, of: Dense) -> Launch:
    """Scales of A column by column, each column beginning at a multiple of 16 bytes: the kernel copies them
    by TMA in that layout, whatever strides the tensor states. Those of B as they lie."""
    scales = formats.column_major(of.torch, of.a.scales, multiple=4)
    return functools.partial(function, of.a.data, of.b.data, scales, of.b.scales, out=of.output())


def _groupwise(function: Any, backend: str | None, of: Dense) -> Launch:
    """M is padded to a multiple of 4, as the function asks for; D is that much longer too."""
    torch, m = of.torch, of.case.m
    rows = math.ceil(m / 4) * 4
    pad = functools.partial(torch.nn.functional.pad, pad=(0, 0, 0, rows - m))
    a = pad(of.a.data.view(torch.uint8)).view(of.a.data.dtype)
    a_scales, d = pad(of.a.scales), of.output(rows)
    major = "K"
    if backend == "trtllm":
        a_scales, major = a_scales.t().contiguous(), "MN"

    def launch() -> Any:
        function(a, of.b.data, a_scales, of.b.scales, scale_major_mode=major, out=d, backend=backend)
        return d[:m]

    return launch


_FUNCTIONS: dict[str, dict[str, Callable[[Any, str | None, Dense], Launch]]] = {
    "bf16": {"mm_bf16": _mm_bf16, "tgv_gemm_sm100": _tgv, "tinygemm_bf16": _tinygemm},
    "fp8": {"bmm_fp8": _bmm_fp8, "mm_fp8": _mm_fp8},
    "fp8_block": {"fp8_blockscale_gemm_sm90": _blockscale_sm90, "gemm_fp8_nt_groupwise": _groupwise},
    "mxfp8": {"mm_mxfp8": _mm_mxfp8},
    "mxfp4": {"mm_fp4": _mm_fp4},
    "nvfp4": {"mm_fp4": _mm_fp4},
}
