"""Servers under load: throughput, interactivity and latencies of an endpoint by concurrency and stack."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.moe import serving_charts, serving_points, serving_queries
from benchapp.moe.serving_forms import ServingForm, lengths_words, place_of

#: Notes that a page shows.
MAX_NOTES = 12


@require_safe
def serving(request: HttpRequest) -> HttpResponse:
    offered = serving_queries.offers()
    targets = serving_queries.targets(offered)
    form = ServingForm.read(request.GET, offered=offered, targets=targets)
    if form.offer is None:
        return render(request, "moe/serving.html", {"form": form})
    found = serving_queries.find(form.offer)
    loads = found.loads
    has_gpus = any(load.output_per_gpu for load in loads)
    if not has_gpus:
        del form.fields["rate"]
    per_gpu = has_gpus and form.values["rate"] == "gpu"
    lines = serving_points.by_stack(loads)
    context: dict[str, Any] = {
        "form": form,
        "offer": form.offer,
        "place": place_of(targets[form.offer.target]),
        "lengths": lengths_words(form.offer),
        "headline": serving_points.headline(loads),
        "change": serving_points.change(loads),
        "failures": serving_points.failures(loads),
        "rows": [_row(load) for line in lines.values() for load in line],
        "has_gpus": has_gpus,
        "per_gpu": per_gpu,
        "throughput": serving_charts.throughput(loads, per_gpu=per_gpu),
        "first_token": serving_charts.first_token(loads),
        "not_drawn": sorted(set(lines) - set(serving_charts.drawn(loads))),
        "notes": found.notes[:MAX_NOTES],
        "more_notes": max(0, len(found.notes) - MAX_NOTES),
        "capped": len(loads) if found.capped else None,
        "recorded": found.recorded,
    }
    return render(request, "moe/serving.html", context)


def _row(load: serving_points.Load) -> dict[str, Any]:
    """One line of the table: rates in words, latencies in the order of its columns."""
    return {
        "load": load,
        "out": serving_points.rate_words(load.output_rate),
        "out_gpu": serving_points.rate_words(load.output_per_gpu, gpu=True) if load.output_per_gpu else "",
        "taken": serving_points.rate_words(load.input_rate),
        "taken_gpu": serving_points.rate_words(load.input_per_gpu, gpu=True) if load.input_per_gpu else "",
        "user": serving_points.rate_words(load.interactivity),
    }
