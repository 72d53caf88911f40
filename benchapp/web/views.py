"""The overview, health, and the pages shown when something is wrong."""

from __future__ import annotations

import sys
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.fleet.queries import fleet
from benchapp.fleet.releases import news
from benchapp.runs.models import Document
from benchapp.web import health, queries

#: Between two looks at what runs, in seconds: while something does, and while nothing does.
BUSY_POLL_S = 2
IDLE_POLL_S = 15


def _motion(motion: queries.Motion) -> dict[str, Any]:
    return {
        "motion": motion,
        "more": motion.total - len(motion.runs),
        "poll_s": BUSY_POLL_S if motion.total else IDLE_POLL_S,
    }


def _findings(motion: queries.Motion) -> dict[str, Any]:
    looks = queries.needs_a_look()
    alerts = queries.open_alerts()
    results = queries.newest_results()
    here = [document for document in results if document.origin != Document.Origin.RECORDED]
    return {
        "looks": looks,
        "open_alerts": alerts,
        "to_look_at": len(looks) + alerts.standing.told,
        "results": [
            (document, queries.title_of(document), queries.taken_at(document)) for document in results
        ],
        "newest": queries.taken_at(here[0]) if here else None,
        "fit": queries.newest_fit(),
        "fastest": queries.fastest_gemm(),
        "models": queries.newest_models(),
        "series": queries.series_health(),
        "coverage": queries.coverage(),
        "kinds": list(queries.MEASURING.values()),
        "fleet": fleet(),
        "news": news(),
        "active": motion.total,
    }


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    motion = queries.motion()
    return render(request, "web/overview.html", _motion(motion) | _findings(motion))


@require_safe
def now(request: HttpRequest) -> HttpResponseBase:
    """What runs now. Polled with its ETag; says “results” when the rest of the overview may have changed."""
    motion = queries.motion()
    unchanged = get_conditional_response(request, etag=motion.etag)
    if unchanged is not None:
        return unchanged
    response = render(request, "web/_motion.html", _motion(motion))
    response["ETag"] = motion.etag
    response["Cache-Control"] = "no-cache"
    if request.GET.get("seen") != motion.pulse:
        response["HX-Trigger"] = "results"
    return response


@require_safe
@never_cache
def findings(request: HttpRequest) -> HttpResponse:
    """All of the overview but what runs now."""
    return render(request, "web/_findings.html", _findings(queries.motion()) | {"fragment": True})


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """Health for load balancers: 503 when Postgres is away, the only server no page can do without."""
    report = health.report()
    return JsonResponse(report.as_json(), status=200 if report.database else 503)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: 503 where the database is away, else 500. Touches neither database nor session."""
    error = sys.exc_info()[1]
    away = isinstance(error, OperationalError | InterfaceError)
    name, status = ("503.html", 503) if away else ("500.html", 500)
    return HttpResponse(render_to_string(name), status=status)
