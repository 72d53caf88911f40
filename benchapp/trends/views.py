"""The trends page: a measured case over size, versions or time, against the ceiling of its hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.models import Target
from benchapp.catalog.versions import newest_order
from benchapp.trends import charts, modules, queries, words
from benchapp.trends.coverage import coverage
from benchapp.trends.forms import TrendsForm
from benchapp.trends.points import Point, kind_name, shape_name
from benchapp.trends.roofline_chart import launch_line, roofline_chart
from benchapp.trends.utilisation import METRICS, why_no_ceiling


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    kinds = queries.offered_kinds()
    targets = queries.targets(target for target, _ in kinds)
    form = TrendsForm.read(request.GET, kinds=kinds, targets=targets)
    view = form.values["view"]
    if view == "modules":
        return _modules(request, form)
    target = next((each for each in targets if str(each.pk) == form.values["target"]), None)
    if target is None:
        return render(request, "trends/index.html", {"form": form})
    if view == "coverage":
        return _coverage(request, form, target)
    return _sweep(request, form, target)


def _sweep(request: HttpRequest, form: TrendsForm, target: Target) -> HttpResponse:
    view, metric, kind, shape = (form.values[name] for name in ("view", "metric", "kind", "shape"))
    dtype = form.values["dtype"] if form.values["dtype"] != "all" else ""
    backend, component = form.values["backend"] or "", form.values["component"]
    chosen, left_out = _sizes(form, kind, shape or "", dtype, backend)
    found = queries.find(
        target, kind, shape or "", dtype=dtype, backend=backend, sizes=chosen, every=view == "time"
    )
    components = found.components()
    if component not in [name for name, _ in components]:
        component = components[0][0] if components else component
    form.offer_components(components, component)
    steps = queries.calls_of(found)
    model = form.values["model"] if form.values["model"] in steps else next(iter(steps), "")
    form.offer_models(list(steps), model)
    points = queries.points(found, component, queries.launch_floors(target), steps.get(model, 1))
    versions = sorted({point.version for point in points}, key=newest_order, reverse=True)
    form.offer_versions(versions)
    older: list[str] = []
    if view in ("batch", "roofline"):
        points, older = _of_versions(points, versions, form.values["version"])
    limits = [point.limit for point in points]
    drawn = _chart(view, points, metric, component)
    if drawn and metric == "recoverable" and view != "roofline":
        drawn["y"]["title"] += words.per_step(points, model)
    changed = words.change(points) if view == "versions" else ""
    context: dict[str, Any] = {
        "form": form,
        "target": target,
        "place": form.target_name,
        "kind": kind_name(kind),
        "shape": shape_name(shape or ""),
        "component": component,
        "points": points,
        "rows": [_row(point) for point in points],
        "rated": any(point.flops for point in points),
        "chart": drawn,
        "metric": METRICS["tflops" if view == "roofline" else metric],
        "headline": changed or words.headline(points),
        "bound": "" if changed else words.about_bound(points),
        "compare": _compare(target, kind, component, versions) if view == "versions" else "",
        "standing": words.left_standing(points),
        "how": words.how(points),
        "notes": [words.drawn_so(points), words.libraries(points), *_floor_note(view, points)],
        "model": model,
        "recoverable": words.recoverable(points, model) if metric == "recoverable" else "",
        "ceilings": words.ceilings(points),
        "missing": why_no_ceiling(target, points[limits.index(None)].dtype) if None in limits else "",
        "peaks": words.against_peaks(points),
        "switch": _switch(form, view, metric),
        "recorded": queries.is_recorded(points),
        "imported": queries.is_imported(points),
        "measured": max((point.measured_at for point in points), default=None),
        "single_version": versions[0] if view == "versions" and len(versions) == 1 else "",
        "left_out": left_out,
        "older": older,
        "capped": queries.MAX_POINTS if found.capped else None,
    }
    return render(request, "trends/index.html", context)


def _sizes(
    form: TrendsForm, kind: str, shape: str, dtype: str, backend: str
) -> tuple[Sequence[int], Sequence[int]]:
    """(sizes to read, sizes left out): lines over versions and time are kept to what can be told apart."""
    if form.extents():
        return sorted(form.extents()), []
    if form.values["view"] in ("batch", "roofline"):
        return [], []
    offers = queries.offers_of(form.target_chosen, kind, shape)
    lines = len([1 for d, b in offers if d == (dtype or d) and b == (backend or b)])
    sizes = queries.sizes_of(form.target_chosen, kind, shape, dtype)
    chosen = charts.spread(sizes, max(2, charts.MAX_LINES // max(1, lines)))
    return chosen, sorted(set(sizes) - set(chosen))


def _of_versions(points: list[Point], versions: list[str], version: str) -> tuple[list[Point], list[str]]:
    """The points of one version, or of the newest few: (points, versions left out)."""
    if version:
        return [point for point in points if point.version == version], []
    lines = len({(point.dtype, point.backend, point.configuration) for point in points if not point.mark})
    shown = versions[: max(2, charts.MAX_LINES // max(1, lines))]
    return [point for point in points if point.version in shown], versions[len(shown) :]


def _chart(view: str, points: list[Point], metric: str, component: str) -> dict[str, Any] | None:
    if view == "roofline":
        return roofline_chart(points, sparse=metric == "sparse")
    if not any(point.at(metric) is not None for point in points):
        return None
    if view == "time":
        return charts.time_chart(points, metric)
    if view == "versions" or not any(point.size for point in points):
        return charts.version_chart(points, metric, component)
    return charts.batch_chart(points, metric)


def _floor_note(view: str, points: list[Point]) -> list[str]:
    """Where the roofline plot draws no launch floor although one is known."""
    known = [point for point in points if point.floor and point.intensity]
    if view != "roofline" or not known or launch_line(known) is not None:
        return []
    return ["The launch floor lies above the roof everywhere here: it limits none of these shapes."]


def _switch(form: TrendsForm, view: str, metric: str) -> list[tuple[str, str, bool]]:
    """The two ends of the switch between peaks: (label, address, whether it is on)."""
    sparse = metric == "sparse"
    dense = None if view == "roofline" else "peak"
    return [
        (
            "dense peak",
            form.querystring(metric=dense),
            not sparse and (view == "roofline" or metric == "peak"),
        ),
        ("2:4 sparse peak", form.querystring(metric="sparse"), sparse),
    ]


def _compare(target: Target, kind: str, component: str, versions: Sequence[str]) -> str:
    """The address that compares the oldest with the newest version; "" of one."""
    if len(versions) < 2:
        return ""
    sides = [version if " " in version else f"{component} {version}" for version in versions]
    asked = {"on_a": target.pk, "a": sides[-1], "on_b": target.pk, "b": sides[0]}
    return f"{reverse('trends:compare')}?{urlencode({**asked, 'kind': kind})}"


def _row(point: Point) -> dict[str, Any]:
    """One line of the table: FLOP/s, bytes/s and fractions, for the unit filters."""
    scales = {
        "tflops": 1e12, "peak": 0.01, "peak_measured": 0.01, "sparse": 0.01, "roofline": 0.01,
        "bandwidth": 0.01, "gbs": 1.0, "recoverable": 1e-6, "host": 1e-6,
    }  # fmt: skip
    values = {name: point.at(name) for name in scales}
    return {
        "point": point,
        **{name: None if (at := values[name]) is None else at * scale for name, scale in scales.items()},
    }


def _coverage(request: HttpRequest, form: TrendsForm, target: Target) -> HttpResponse:
    asked = {name: form.values[name] if name in request.GET else "" for name in ("kind", "shape")}
    found = coverage(
        target,
        component=form.values["component"],
        kind=asked["kind"] or "",
        shape=asked["shape"] or "",
        number=request.GET.get("page"),
    )
    form.offer_components(found.components, found.component)
    page = found.page
    context = {
        "form": form,
        "target": target,
        "place": form.target_name,
        "found": found,
        "asked": asked,
        "narrowed": f"{kind_name(asked['kind'] or '')} {shape_name(asked['shape'] or '')}".strip(),
        "previous": form.querystring(page=page.previous_page_number(), **_kept(asked))
        if page.has_previous()
        else "",
        "following": form.querystring(page=page.next_page_number(), **_kept(asked))
        if page.has_next()
        else "",
    }
    return render(request, "trends/coverage.html", context)


def _kept(asked: dict[str, Any]) -> dict[str, Any]:
    """What narrows a coverage stays in its pages' addresses, also where it is the default elsewhere."""
    return {name: value for name, value in asked.items() if value}


def _modules(request: HttpRequest, form: TrendsForm) -> HttpResponse:
    found = modules.modules()
    context = {
        "form": form,
        "found": found,
        "headline": modules.headline(found),
        "chart": modules.chart(found),
        "lines": modules.MAX_LINES,
    }
    return render(request, "trends/modules.html", context)
