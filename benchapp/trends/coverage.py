"""What was measured when, version by version, and why there is no data where there is none."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case as Choice
from django.db.models import Q, When

from benchapp.catalog.models import Series, Stack, Target
from benchapp.catalog.versions import newest_order, version_order
from benchapp.runs.models import Measurement, Run, State
from benchapp.runs.ranking import may_rank
from benchapp.trends.components import varying, version_of
from benchapp.trends.models import Offer
from benchapp.trends.points import kind_name, shape_name, size_name
from workers.bench.backends import library_of

#: Rows of one page: each is a format and backend of a shape, with all of its sizes.
OFFERS_A_PAGE = 40
#: Sizes of one shape that stand as rows of their own.
MAX_SERIES, MAX_ROWS = 3000, 40_000
#: Versions that fit side by side: the newest.
MAX_VERSIONS = 10
FAILED_RUNS = 50
#: How outcomes that are no speed are told, by role of colour.
ROLES = {"incorrect": "incorrect", "unsupported": "unsupported", "invalid": "uncertain"}
GLYPHS = {"incorrect": "≠", "unsupported": "–", "invalid": "~"}


@dataclasses.dataclass(slots=True)
class Cell:
    """The newest of each case of a row in one version."""

    good: int = 0
    newest: dt.datetime | None = None
    #: outcome → how many cases, in words
    troubles: Counter[str] = dataclasses.field(default_factory=Counter)
    #: outcome → what the library or the bench said, distinct
    said: dict[str, list[str]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    @property
    def told(self) -> list[tuple[str, str, int, str, str]]:
        """(glyph, role, how many, outcome in words, what was said) of what is no speed."""
        return [
            (
                GLYPHS.get(outcome, "▲"),
                ROLES.get(outcome, "failed"),
                number,
                {"unsupported": "not supported"}.get(outcome, outcome.replace("_", " ")),
                " · ".join(self.said[outcome][:3]),
            )
            for outcome, number in sorted(self.troubles.items())
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One format and backend of a shape, or one size of it."""

    label: str
    cells: list[Cell | None]
    #: cuBLAS or cuDNN where that is what computes
    library: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One kind and shape, with as many cases as its rows hold."""

    kind: str
    shape: str
    name: str
    rows: list[Row]
    cases: int


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    page: Page[Offer]
    component: str
    components: list[tuple[str, int]]
    versions: list[str]
    older: int
    groups: list[Group]
    #: (version, run id, what it said) of runs that ended without data
    failed: list[tuple[str, int, str]]
    newest: dt.datetime | None
    measured: int
    missing: int


def coverage(
    target: Target, *, component: str, kind: str = "", shape: str = "", number: str | None = None
) -> Coverage:
    """Cases × versions of a target, one page of it; with a shape, a row for each of its sizes."""
    offers = Offer.objects.filter(target=target)
    if kind:
        offers = offers.filter(kind=kind)
    if shape:
        offers = offers.filter(shape=shape)
    page = Paginator(offers.order_by("kind", "shape", "dtype", "backend"), OFFERS_A_PAGE).get_page(number)
    series = _series(target, list(page.object_list))
    rows = _newest(series)
    stacks = {
        pk: stack.components for pk, stack in Stack.objects.in_bulk({r["stack_id"] for r in rows}).items()
    }
    components = varying(stacks.values())
    component = component or (components[0][0] if components else "")
    by_stack = {pk: version_of(told, component) for pk, told in stacks.items()}
    every = sorted(set(by_stack.values()), key=newest_order)
    failed = _failed_runs(target, component)
    versions = sorted(every[-MAX_VERSIONS:], key=version_order)
    cells = _cells(rows, series, by_stack, by_size=bool(shape))
    groups = _groups(list(page.object_list), cells, versions, by_size=bool(shape))
    shown = [cell for group in groups for row in group.rows for cell in row.cells]
    return Coverage(
        page=page,
        component=component,
        components=components,
        versions=versions,
        older=len(every) - len(versions),
        groups=groups,
        failed=failed,
        newest=max((cell.newest for cell in shown if cell and cell.newest), default=None),
        measured=sum(cell.good for cell in shown if cell),
        missing=sum(cell is None for cell in shown),
    )


def _series(target: Target, offers: Sequence[Offer]) -> dict[int, Mapping[str, Any]]:
    if not offers:
        return {}
    wanted = reduce(
        or_,
        (Q(case__kind=o.kind, case__shape=o.shape, case__dtype=o.dtype, backend=o.backend) for o in offers),
    )
    found = Series.objects.filter(wanted, target=target, metric="time").order_by("pk")
    columns = (
        "pk",
        "case_id",
        "case__kind",
        "case__shape",
        "case__dtype",
        "case__size",
        "case__label",
        "backend",
    )
    return {row["pk"]: row for row in found.values(*columns)[:MAX_SERIES]}


def _newest(series: Iterable[int]) -> list[dict[str, Any]]:
    """The newest measurement of each series and stack, invalid ones only where there is no other."""
    marked = Choice(When(run__invalid_reason__gt="", then=1), default=0)
    rows = Measurement.objects.filter(series__in=list(series))
    rows = rows.order_by("series_id", "stack_id", marked, "-measured_at", "-id").distinct(
        "series_id", "stack_id"
    )
    columns = ("series_id", "stack_id", "measured_at", "outcome", "flags", "error", "run__invalid_reason")
    return list(rows.values(*columns)[:MAX_ROWS])


def _cells(
    rows: Iterable[Mapping[str, Any]],
    series: Mapping[int, Mapping[str, Any]],
    by_stack: Mapping[int, str],
    *,
    by_size: bool,
) -> dict[tuple[str, ...], dict[str, dict[str, Cell]]]:
    """Cells by offer, row label and version; of several stacks of one version the newest counts."""
    newest: dict[tuple[int, str, str, str], Mapping[str, Any]] = {}
    for row in rows:
        of = series[row["series_id"]]
        key = (of["case_id"], of["backend"], str(row["series_id"]), by_stack[row["stack_id"]])
        if key not in newest or newest[key]["measured_at"] < row["measured_at"]:
            newest[key] = row
    cells: dict[tuple[str, ...], dict[str, dict[str, Cell]]] = defaultdict(lambda: defaultdict(dict))
    in_order = sorted(newest.items(), key=lambda item: series[item[1]["series_id"]]["case__size"] or 0)
    for (_, backend, _, version), row in in_order:
        of = series[row["series_id"]]
        offer = (of["case__kind"], of["case__shape"], of["case__dtype"], backend)
        cell = cells[offer][_row_label(of) if by_size else ""].setdefault(version, Cell())
        _add(cell, row)
    return cells


def _row_label(of: Mapping[str, Any]) -> str:
    if of["case__size"] is None:
        return str(of["case__label"])
    return f"{size_name(of['case__kind'])}\u00a0=\u00a0{of['case__size']:,}"


def _add(cell: Cell, row: Mapping[str, Any]) -> None:
    cell.newest = max(cell.newest or row["measured_at"], row["measured_at"])
    invalid = row["run__invalid_reason"] or ""
    if may_rank(row["outcome"], row["flags"], invalid):
        cell.good += 1
        return
    outcome = "invalid" if row["outcome"] in ("ok", "unverified") else row["outcome"]
    cell.troubles[outcome] += 1
    said = invalid or row["error"] or ("faster than the hardware allows" if outcome == "invalid" else "")
    if said and said not in cell.said[outcome]:
        cell.said[outcome].append(said)


def _groups(
    offers: Sequence[Offer],
    cells: Mapping[tuple[str, ...], Mapping[str, Mapping[str, Cell]]],
    versions: Sequence[str],
    *,
    by_size: bool,
) -> list[Group]:
    by_shape: dict[tuple[str, str], list[Row]] = defaultdict(list)
    cases: Counter[tuple[str, str]] = Counter()
    for offer in offers:
        key = (offer.kind, offer.shape)
        what = ", ".join(filter(None, (offer.dtype, offer.backend))) or kind_name(offer.kind)
        for size, of in cells.get((offer.kind, offer.shape, offer.dtype, offer.backend), {}).items():
            label = f"{size}, {what}" if by_size else what
            shown = [of.get(version) for version in versions]
            by_shape[key].append(Row(label, shown, library_of(offer.backend) or ""))
        cases[key] += offer.cases
    return [
        Group(kind, shape, f"{kind_name(kind)} {shape_name(shape)}".strip(), rows, cases[kind, shape])
        for (kind, shape), rows in by_shape.items()
    ]


def _failed_runs(target: Target, component: str) -> list[tuple[str, int, str]]:
    """The newest runs on this target that ended without data, by the version they were asked for."""
    runs = Run.objects.filter(kind=Run.Kind.GEMM, state=State.FAILED, target=target).select_related("recipe")
    return [
        (str(run.recipe.versions.get(component) or run.recipe), run.pk, run.failure)
        for run in runs.order_by("-pk")[:FAILED_RUNS]
    ]
