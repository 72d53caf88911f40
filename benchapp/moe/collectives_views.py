"""What the GPUs of a gang exchange: times and bandwidths by message, backend and version."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.moe import collective_points, collective_queries
from benchapp.moe.bandwidths import bus_factor
from benchapp.moe.collective_chart import drawn, time_chart
from benchapp.moe.collective_forms import CollectivesForm
from workers.bench.cases.collective import AllReduce

#: Notes that a page shows.
MAX_NOTES = 12


@require_safe
def collectives(request: HttpRequest) -> HttpResponse:
    offered = collective_queries.offers()
    targets = collective_queries.targets(offered)
    places = collective_queries.places(targets.values())
    form = CollectivesForm.read(request.GET, offered=offered, places=places)
    offer = form.offer
    if offer is None:
        return render(request, "moe/collectives.html", {"form": form})
    found = collective_queries.find(offer, targets[offer.target])
    reduces = offer.kind == AllReduce.kind
    lines = drawn(found.exchanges)
    context: dict[str, Any] = {
        "form": form,
        "offer": offer,
        "reduces": reduces,
        "kind": collective_points.KIND_NAMES[offer.kind],
        "place": places[offer.target],
        "links": list(dict.fromkeys(each.link for each in found.exchanges if each.link)),
        "headline": collective_points.headline(found.exchanges),
        "chart": time_chart(found.exchanges),
        "not_drawn": sorted({each.label for each in found.exchanges if each.median} - set(lines)),
        "rows": [_row(each) for each in found.exchanges],
        "references": sorted({each.reference for each in found.exchanges if each.reference}),
        "factor": bus_factor(offer.kind, offer.ranks),
        "in_a_step": collective_points.in_a_step(
            found.exchanges, collective_queries.decode_steps(offer) if reduces else []
        ),
        "notes": found.notes[:MAX_NOTES],
        "more_notes": max(0, len(found.notes) - MAX_NOTES),
        "capped": len(found.exchanges) if found.capped else None,
        "recorded": found.recorded,
    }
    return render(request, "moe/collectives.html", context)


def _row(each: collective_points.Exchange) -> dict[str, Any]:
    return {
        "exchange": each,
        "algorithm": collective_points.bandwidth_words(each.algorithm_bandwidth),
        "bus": collective_points.bandwidth_words(each.bus_bandwidth),
    }
