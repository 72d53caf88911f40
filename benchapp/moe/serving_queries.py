"""Loads of servers as they were measured; the number of queries does not grow with them."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db.models import Max

from benchapp.catalog.models import Series, Target
from benchapp.moe.newest import GLYPHS, ROLES, Row, mark_of, newest, notes_of
from benchapp.moe.serving_points import Load, key_of, stack_names
from benchapp.runs import steps
from benchapp.runs.models import Document, Latest
from benchapp.runs.queries import source_of


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A sweep over concurrency that can be shown."""

    target: int
    model: str
    input: int
    output: int

    @property
    def lengths(self) -> str:
        return f"{self.input}x{self.output}"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    loads: list[Load]
    notes: list[str]
    capped: bool
    recorded: bool


def offers() -> list[Offer]:
    """Every endpoint, model and pair of lengths, the one measured last first."""
    names = [f"series__case__params__{name}" for name in ("model", "input", "output")]
    rows = (
        Latest.objects.filter(series__case__kind=steps.SERVING, series__metric="time")
        .values_list("series__target_id", *names)
        .annotate(at=Max("measured_at"))
        .order_by("-at", "series__target_id", *names)
    )
    return [Offer(target, model, taken, made) for target, model, taken, made, _ in rows]


def targets(offered: list[Offer]) -> dict[int, Target]:
    return Target.objects.select_related("host").in_bulk({offer.target for offer in offered})


def find(offer: Offer) -> Found:
    """The newest measurement of each load and stack."""
    series = Series.objects.filter(
        case__kind=steps.SERVING,
        metric="time",
        target=offer.target,
        case__params__model=offer.model,
        case__params__input=offer.input,
        case__params__output=offer.output,
    )
    rows, capped = newest(series)
    names = stack_names(row["stack__components"] for row in rows)
    # stacks that differ in the generator of the load alone are one server's
    kept: dict[tuple[Any, ...], Load] = {}
    for row in rows:
        load = _load(row, names)
        key = (load.stack_name, row["series__backend"], load.concurrency, load.requests)
        if key not in kept or (kept[key].mark == "invalid" and load.mark != "invalid"):
            kept[key] = load
    return Found(
        loads=list(kept.values()),
        notes=notes_of(rows),
        capped=capped,
        recorded=any(row["document__origin"] == Document.Origin.RECORDED for row in rows),
    )


def _load(row: Row, names: dict[str, str]) -> Load:
    mark, stack, params = mark_of(row), row["stack__components"], row["series__case__params"]
    href, source = source_of(row)
    return Load(
        concurrency=params["concurrency"],
        requests=params["requests"],
        stack=stack,
        stack_name=names[key_of(stack)],
        serving=steps.serving_of(row["facts"]),
        outcome=row["outcome"],
        flags=tuple(row["flags"]),
        mark=mark,
        glyph=GLYPHS.get(mark, ""),
        role=ROLES.get(mark, ""),
        remark=row["run__invalid_reason"] or row["error"],
        measured_at=row["measured_at"],
        href=href,
        source=source,
    )
