"""Products of models' layers, and squares."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm, GroupedGemm
from workers.bench.models import TENSOR_PARALLEL, Projection, model, models, projections

#: tokens at once. 96 lies between the tiles of 64 and 128, and 4352 leaves a last tile of 4096's sizes partly
#: filled, where one release lost a quarter.
DECODE_M = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256)
PREFILL_M = (512, 1024, 2048, 4096, 4352, 8192)
SQUARES = (1024, 2048, 4096, 8192, 16_384)
SQUARE_FORMATS = ("bf16", "fp16", "tf32", "fp8", "fp8_block", "mxfp8", "mxfp4", "nvfp4")


def sweep(ms: Iterable[int], n: int, k: int, dtype: str) -> list[Case]:
    """Dense products over one weight."""
    return [Gemm(m, n, k, dtype) for m in ms]


def decode(dtype: str) -> list[Case]:
    """Every product of a decode step of every model's layer, on one GPU and on one of eight."""
    return _of_models(DECODE_M, dtype, lambda each: bool(each.calls or each.grouped))


def prefill(dtype: str) -> list[Case]:
    """Every product of every model's layer, on one GPU and on one of eight."""
    return _of_models(PREFILL_M, dtype, lambda each: True)


def _of_models(ms: tuple[int, ...], dtype: str, wanted: Callable[[Projection], bool]) -> list[Case]:
    shapes = dict.fromkeys(
        (each.n, each.k)
        for of in models()
        for tp in TENSOR_PARALLEL
        for each in projections(of, tp)
        if wanted(each)
    )
    return [case for n, k in shapes for case in sweep(ms, n, k, dtype)]


def of_model(name: str, dtype: str) -> list[Case]:
    """One model's products at every number of tokens, and its routed experts together at decode batches."""
    of = model(name)
    cases: list[Case] = []
    for tp in TENSOR_PARALLEL:
        for each in projections(of, tp):
            cases += sweep((*DECODE_M, *PREFILL_M), each.n, each.k, dtype)
            if each.grouped:
                cases += [GroupedGemm(of.experts, m * of.top_k, each.n, each.k, dtype) for m in DECODE_M]
    return cases


def squares() -> list[Case]:
    return [Gemm(edge, edge, edge, dtype) for dtype in SQUARE_FORMATS for edge in SQUARES]
