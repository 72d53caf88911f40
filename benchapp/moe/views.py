"""Tokens a second of whole models: versions against batches, what a step is spent on, GPUs and users."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.catalog.models import Target
from benchapp.moe import exports, links, queries, step_charts, step_words
from benchapp.moe.change import Change, change
from benchapp.moe.forms import MoeForm
from benchapp.moe.points import Point
from benchapp.runs.models import Document
from benchapp.runs.steps import PARTS, part_name

#: Versions beside each other on a page.
VERSIONS = 4
#: Versions and rows of a table that is taken away: a request must end.
EXPORTED, EXPORTED_ROWS = 100, 20_000
Pairs = Mapping[int, tuple[Point, Change | None]]


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    held, unknown = queries.held()
    targets = queries.targets(each.target for each in held)
    form = MoeForm.read(request.GET, held=held, targets=targets)
    wanted = request.GET.get("format")
    if wanted in ("csv", "json"):
        return _export(form, targets, as_csv=wanted == "csv")
    if not form.chosen:
        return render(request, "moe/index.html", {"form": form})
    until = form.values["until"] or ""
    reading = queries.read(form.over_gpus, targets, form.named, versions=VERSIONS, until=until)
    form.offer_versions(reading.every, VERSIONS)
    form.faults += _unknown(until, reading.every)
    cases = {each.case for each in form.chosen}
    points = [point for point in reading.points if point.case in cases]
    pairs = _pairs(points)
    groups = []
    for name, sliced in (("whole", False), ("slice", True)):
        those = [point for point in points if _is_slice(point) == sliced]
        over = [point for point in reading.points if _is_slice(point) == sliced]
        if those:
            groups.append(_group(name, those, over, form.at_batch, reading.versions, pairs))
    case = form.chosen[0].case
    origins = {point.origin for point in points}
    context: dict[str, Any] = {
        "form": form,
        "case": case,
        "is_tiny": case.model.startswith("tiny-"),
        "groups": groups,
        "headline": groups[0]["headline"] if groups else "",
        "recorded": Document.Origin.RECORDED in origins,
        "imported": Document.Origin.IMPORT in origins,
        "measured": max((point.measured_at for point in points), default=None),
        "limits": sorted({str(point.limit) for point in points if point.limit}),
        "not_shown": [version for version in reading.every if version not in reading.versions],
        "capped": len(reading.points) if reading.capped else None,
        "unknown": unknown,
        "csv": form.querystring(format="csv"),
        "json": form.querystring(format="json"),
        "alone": links.measured(case, [targets[each.target] for each in form.chosen]),
        "legend": [(part, part_name(part)) for part in PARTS],
    }
    return render(request, "moe/index.html", context)


def _export(form: MoeForm, targets: Mapping[int, Target], *, as_csv: bool) -> HttpResponse:
    """Every batch of the selection in its newest versions, as a table."""
    if form.faults:
        return exports.refused(form.faults)
    until = form.values["until"] or ""
    reading = queries.read(
        form.chosen, targets, form.named, versions=EXPORTED, until=until, most=EXPORTED_ROWS
    )
    faults = _unknown(until, reading.every)
    if reading.capped:
        faults.append(f"More than {EXPORTED_ROWS:,} rows: choose less of it.")
    if faults:
        return exports.refused(faults)
    pairs = _pairs(reading.points)
    found = exports.rows([(point, pairs.get(point.measurement, (None, None))[1]) for point in reading.points])
    return exports.as_csv(found) if as_csv else exports.as_json(found)


def _unknown(until: str, every: Sequence[str]) -> list[str]:
    if not until or until in every:
        return []
    return [f"Up to version: “{until[:40]}” was not measured; showing the newest."]


def _is_slice(point: Point) -> bool:
    return point.case.layers != point.case.layout.model.layers


def _pairs(points: Sequence[Point]) -> Pairs:
    """Of each measurement with a speed what its line held in the last version before that has one, and the
    change; points newest first."""
    lines: dict[queries.Key, list[Point]] = defaultdict(list)
    for point in points:
        if point.rate:
            lines[point.case, point.backend, point.configuration].append(point)
    kept = queries.samples(points)
    return {
        after.measurement: (before, change(before, after, kept))
        for line in lines.values()
        for after, before in itertools.pairwise(line)
    }


def _group(
    name: str, points: list[Point], over: list[Point], batch: int, versions: Sequence[str], pairs: Pairs
) -> dict[str, Any]:
    """All that is shown of whole models, or of slices."""
    at = [point for point in points if point.case.batch == batch]
    longest = max(
        (sum(point.step.parts.values()) for point in at if point.step and point.step.parts), default=0.0
    )
    gang = [point for point in over if point.case.batch == batch]
    scaled = step_charts.efficiency(gang) if len({point.gpus for point in gang}) > 1 else []
    return {
        "name": name,
        "batch": batch,
        "sliced": next((point.sliced for point in points if point.sliced), ""),
        "headline": step_words.headline(points, batch, versions, pairs),
        "rows": [_row(point, pairs) for point in sorted(points, key=_place)],
        "rate": step_charts.batch_chart(points, "Throughput", "tok/s", lambda point: point.rate),
        "tpot": step_charts.batch_chart(
            points,
            "TPOT" if points[0].case.kind == "decode" else "Time of a prefill",
            "ms",
            lambda point: point.tpot * 1e3 if point.tpot else None,
        ),
        "gpus": step_charts.gpu_chart(gang),
        "scaled": [(point, step_words.rate_words(point.rate), share) for point, share in scaled],
        "users": step_charts.users_chart(points),
        "not_drawn": list(step_charts.lines(points))[step_charts.MAX_LINES :],
        "bars": [
            (point, step_words.bars(point, longest), step_words.shares(point), step_words.traced(point))
            for point in at
            if point.ranked
        ],
        "moved": [
            (point, said)
            for point in at
            if point.measurement in pairs
            and (said := step_words.moved_words(pairs[point.measurement][0], point))
        ],
        "left_out": list(dict.fromkeys(said for point in points for said in point.left_out)),
    }


def _row(point: Point, pairs: Pairs) -> dict[str, Any]:
    _, changed = pairs.get(point.measurement, (None, None))
    return {
        "point": point,
        "rate": step_words.rate_words(point.rate),
        "per_gpu": step_words.rate_words(point.per_gpu),
        "per_watt": step_words.rate_words(point.per_watt),
        "per_user": step_words.rate_words(point.per_user),
        "change": changed,
        "change_words": step_words.change_words(changed) if changed else "",
    }


def _place(point: Point) -> tuple[int, int, str, str]:
    """Versions of one line stand together, the newest first."""
    return point.case.layers, point.case.batch, point.backend, point.configuration
