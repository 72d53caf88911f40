"""Matrix products as operators: inputs drawn in the case's format, one call, one check. Needs torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import PLAIN, Gemm, GroupedGemm, output_of
from workers.bench.document import Correctness
from workers.bench.operators import correctness, formats
from workers.bench.operators.asking import in_its_words
from workers.bench.operators.base import Ready
from workers.bench.operators.formats import Matrix
from workers.bench.operators.support import NORMAL, called, device


@dataclasses.dataclass(frozen=True, slots=True)
class Dense:
    """A [M,K] and B [N,K] of one dense case, on one device."""

    torch: Any
    case: Gemm
    a: Matrix
    b: Matrix

    def output(self, rows: int | None = None) -> Any:
        """D [M,N], or of more rows than that; NaN, which nothing but a kernel replaces."""
        return poisoned(self.torch, rows or self.case.m, self.case.n, self.case.dtype, self.a.data.device)


@dataclasses.dataclass(frozen=True, slots=True)
class Grouped:
    """The rows of all groups one below the other, and a weight [N,K] for each, stacked: `weights.data` is
    [groups, N, …], its scales [groups, …] and [groups].

    Every group begins at a multiple of `align` rows: `starts` has groups + 1 row numbers, `counts` says
    how many rows of each are real. Rows between are zeros, and no part of the case.
    """

    torch: Any
    case: GroupedGemm
    a: Matrix
    weights: Matrix
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    def output(self) -> Any:
        """D [rows with those between, N], all NaN."""
        return poisoned(self.torch, self.starts[-1], self.case.n, self.case.dtype, self.a.data.device)

    def weight(self, group: int) -> Matrix:
        w = self.weights
        return Matrix(
            w.dtype, *(part if part is None else part[group] for part in (w.data, w.scales, w.scale))
        )


def poisoned(torch: Any, rows: int, columns: int, dtype: str, device: Any) -> Any:
    held = formats.plain_dtype(torch, output_of(dtype))
    return torch.full((rows, columns), math.nan, dtype=held, device=device)


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """A dense GEMM by one backend. `bind` lays the inputs out as that backend wants them and gives the
    launch, which returns D."""

    backend: str
    bind: Callable[[Dense], Callable[[], Any]]

    def ready(self, torch: Any, case: Case) -> Ready:
        if not isinstance(case, Gemm):
            raise TypeError(f"{case} is no dense GEMM.")
        where = device(torch)
        operands = Dense(
            torch,
            case,
            formats.draw(torch, case.m, case.k, case.dtype, where),
            formats.draw(torch, case.n, case.k, case.dtype, where, weight=True),
        )

        def check(outputs: tuple[Any, ...]) -> Correctness:
            return correctness.compare(torch, outputs[0], operands.a, operands.b)

        return _bound(torch, self.bind, operands, check)


@dataclasses.dataclass(frozen=True, slots=True)
class GroupedProduct:
    """A grouped GEMM by one backend, whose groups begin at multiples of `align` rows."""

    backend: str
    bind: Callable[[Grouped], Callable[[], Any]]
    align: int = 1

    def ready(self, torch: Any, case: Case) -> Ready:
        if not isinstance(case, GroupedGemm):
            raise TypeError(f"{case} is no grouped GEMM.")
        operands = draw_groups(torch, case, device(torch), self.align)

        def check(outputs: tuple[Any, ...]) -> Correctness:
            return compare_groups(outputs[0], operands)

        return _bound(torch, self.bind, operands, check)


def _bound(
    torch: Any,
    bind: Callable[[Any], Callable[[], Any]],
    operands: Any,
    check: Callable[[tuple[Any, ...]], Correctness],
) -> Ready:
    with in_its_words():
        launch = bind(operands)
        return called(torch, Ready(lambda: (launch(),), check, NORMAL))


def draw_groups(torch: Any, case: GroupedGemm, where: str, align: int) -> Grouped:
    """Fresh rows and weights; UnsupportedError where K does not divide into the format's blocks."""
    formats.check_k(case.k, case.dtype)
    starts = [0]
    for count in case.rows:
        starts.append(starts[-1] + math.ceil(count / align) * align)
    held = formats.plain_dtype(torch, case.dtype) if case.dtype in PLAIN else torch.float32
    x = torch.randn(starts[-1], case.k, dtype=held, device=where)
    for group, count in enumerate(case.rows):
        x[starts[group] + count : starts[group + 1]] = 0
    a = Matrix(case.dtype, x) if case.dtype in PLAIN else formats.quantise(torch, x, case.dtype)
    return Grouped(torch, case, a, _stacked(torch, case, where), tuple(starts), tuple(case.rows))


def _stacked(torch: Any, case: GroupedGemm, where: str) -> Matrix:
    """Each group's weight put into its place as it is drawn: together they may fill half a GPU."""
    places: list[Any] = []
    for group in range(case.groups):
        one = formats.draw(torch, case.n, case.k, case.dtype, where, weight=True)
        parts = (one.data, one.scales, one.scale)
        if not places:
            places = [part if part is None else part.new_empty(case.groups, *part.shape) for part in parts]
        for place, part in zip(places, parts, strict=True):
            if part is not None:
                place[group] = part
    return Matrix(case.dtype, *places)


def compare_groups(out: Any, operands: Grouped) -> Correctness:
    """As `correctness.compare`, each compared row against its own group's weight."""
    torch, counts, starts = operands.torch, operands.counts, operands.starts
    real = torch.cat(
        [
            torch.arange(start, start + count, device=out.device)
            for start, count in zip(starts, counts, strict=False)
        ]
    )
    d = out[real]
    rows = correctness.rows_to_compare(torch, d, correctness.MAX_ROWS)
    reference = torch.empty(len(rows), operands.case.n, dtype=torch.float64, device=out.device)
    numbers = real[rows]
    everything = torch.arange(operands.case.n, device=out.device)
    for group, (start, count) in enumerate(zip(starts, counts, strict=False)):
        mine = (numbers >= start) & (numbers < start + count)
        if bool(mine.any()):
            left = operands.a.values(torch, numbers[mine])
            reference[mine] = left @ operands.weight(group).values(torch, everything).t()
    return correctness.figures(d, reference, rows, operands.case.dtype)
