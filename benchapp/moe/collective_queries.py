"""Collectives as they were measured; the number of queries does not grow with them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence

from django.db.models import Max

from benchapp.catalog.models import Series, Target
from benchapp.moe.collective_points import DecodeStep, Exchange, link_words, ordered, version_of
from benchapp.moe.newest import GLYPHS, ROLES, Row, mark_of, newest, notes_of
from benchapp.runs import steps
from benchapp.runs.models import Document, Latest
from benchapp.runs.queries import source_of
from benchapp.web.templatetags.units import small_ratio
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.models import models

CASES: dict[str, type[AllReduce] | type[AllToAll]] = {case.kind: case for case in (AllReduce, AllToAll)}


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A sweep over message sizes that can be shown."""

    target: int
    ranks: int
    kind: str
    hidden: int


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    exchanges: list[Exchange]
    notes: list[str]
    capped: bool
    recorded: bool


def offers() -> list[Offer]:
    """Every sweep that was measured: the target measured last first, then most ranks."""
    names = ("series__case__params__ranks", "series__case__kind", "series__case__params__hidden")
    rows = list(
        Latest.objects.filter(series__case__kind__in=steps.COLLECTIVES, series__metric="time")
        .values_list("series__target_id", *names)
        .annotate(at=Max("measured_at"))
    )
    newest_of = {
        target: max(row[-1] for row in rows if row[0] == target) for target in {row[0] for row in rows}
    }
    rows.sort(key=lambda row: (row[0], -row[1], row[2], row[3]))
    rows.sort(key=lambda row: newest_of[row[0]], reverse=True)
    return [Offer(target, ranks, kind, hidden) for target, ranks, kind, hidden, _ in rows]


def targets(offered: Sequence[Offer]) -> dict[int, Target]:
    return Target.objects.select_related("host").in_bulk({offer.target for offer in offered})


def places(found: Collection[Target]) -> dict[int, str]:
    """A name for each by its key, with its host, and with the start of its UUID where that is not enough."""
    named = {target.pk: ", ".join(filter(None, (str(target), str(target.host or "")))) for target in found}
    same = Counter(named.values())
    return {
        target.pk: named[target.pk] + (f", {target.uuid[:12]}" if same[named[target.pk]] > 1 else "")
        for target in found
    }


def find(offer: Offer, target: Target) -> Found:
    """The newest measurement of each message, backend, configuration and stack, by size."""
    series = Series.objects.filter(
        case__kind=offer.kind,
        metric="time",
        target=target,
        case__params__ranks=offer.ranks,
        case__params__hidden=offer.hidden,
    )
    rows, capped = newest(series)
    settings = {str(row["series__configuration__settings"]) for row in rows}
    return Found(
        exchanges=ordered([_exchange(row, offer, target, named=len(settings) > 1) for row in rows]),
        notes=notes_of(rows),
        capped=capped,
        recorded=any(row["document__origin"] == Document.Origin.RECORDED for row in rows),
    )


def decode_steps(offer: Offer) -> list[DecodeStep]:
    """The quickest whole decode step of each model and batch that was measured on the target with tensor
    parallelism over as many GPUs."""
    layers = {model.name: model.layers for model in models()}
    names = [f"series__case__params__{name}" for name in ("model", "batch", "context", "layers")]
    rows = (
        Latest.objects.filter(
            series__case__kind="decode",
            series__metric="time",
            series__target=offer.target,
            series__case__params__tp=offer.ranks,
            series__case__params__ep=1,
            good_median__isnull=False,
        )
        .order_by("-good_median")
        .values_list(*names, "good_median")
    )
    found = {
        (name, batch): DecodeStep(name, batch, context, seconds)
        for name, batch, context, depth, seconds in rows
        if layers.get(name) == depth and seconds
    }
    return list(found.values())


def _exchange(row: Row, offer: Offer, target: Target, *, named: bool) -> Exchange:
    mark, backend = mark_of(row), row["series__backend"]
    href, source = source_of(row)
    settings = row["series__configuration__settings"] if named else {}
    # a later run of one GPU describes the same target without its links
    properties = row["document__facts__properties"] or target.properties
    times = (row["median"], row["q1"], row["q3"])
    return Exchange(
        case=CASES[offer.kind].read(row["series__case__params"], "case"),
        backend=backend,
        version=version_of(backend, row["stack__components"]),
        configuration=", ".join(
            f"{name.replace('_', ' ')} {told}" for name, told in sorted(settings.items())
        ),
        link=link_words(properties, offer.ranks),
        time=None if None in times else times,
        n=row["n"],
        timer=row["timer"].replace("_", " "),
        outcome=row["outcome"],
        flags=tuple(row["flags"]),
        mark=mark,
        glyph=GLYPHS.get(mark, ""),
        role=ROLES.get(mark, ""),
        remark=row["run__invalid_reason"] or row["error"],
        reference=row["reference"],
        error_words=_error_words(row),
        measured_at=row["measured_at"],
        href=href,
        source=source,
    )


def _error_words(row: Row) -> str:
    """How far the result is from the reference; "–" where nothing was checked."""
    nan = f", {row['nan_count']:,} NaN" if row["nan_count"] else ""
    return f"{small_ratio(row['max_relative_error'])}{nan}"
