"""Pages of the tile room: its three views, one cell's evidence, a log, the request for a survey."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs
from benchapp.runs import again
from benchapp.runs.models import Job
from benchapp.runs.requests import request_survey
from benchapp.tiles import exports, families, funnel, queries
from benchapp.tiles.evidence import cell_evidence
from benchapp.tiles.forms import VIEWS, SurveyForm
from benchapp.tiles.grid import grid, pool
from benchapp.tiles.history_views import below
from benchapp.tiles.matrix import matrix
from benchapp.tiles.models import EvidenceLog
from benchapp.tiles.page import Page
from benchapp.tiles.provenance import only_recorded

#: Runs under way, and failed ones, that the page names one by one.
MOST_NOTICES = 3
#: What the legend explains, in this order.
LEGEND = (
    ("survived", "●", "fits, or got further"),
    ("failed", "▲", "does not fit, does not compile or fails on the GPU"),
    ("nodispatch", "○", "candidate, never dispatched"),
    ("nocandidate", "◌", "instantiated, never offered"),
    ("incorrect", "≠", "wrong result"),
    ("unsupported", "–", "not supported"),
    ("untested", "", "not tested"),
    ("absent", "·", "not in this version"),
)
#: Marks on a cell: class in the style sheet, sign, meaning.
MARKS = (
    ("chosen", "★", "chosen by an autotuner"),
    ("spills", "", "spills registers; on amber: heavily"),
    ("by-body", "", "compiled with its body, not just its types"),
    ("by-full", "", "compiled in full"),
    ("by-device", "", "tried on a GPU"),
    ("by-imported", "", "from elsewhere"),
)


@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    page = Page.read(request)
    only_changes = bool(page.form.values["changes"])
    export = request.GET.get("format")
    if export in ("csv", "json"):
        if (refused := exports.refused(page.form)) is not None:
            return refused
        cells = exports.flat(
            page.selection, page.releases, page.surveyed, narrow=page.narrow, only_changes=only_changes
        )
        if export == "csv":
            return exports.as_csv(f"tiles-{page.selection.arch}", exports.COLUMNS, cells)
        return exports.as_json(page.selection, cells)
    under_way, failed = queries.survey_runs()
    form = page.form
    context: dict[str, Any] = {
        "page": page,
        "form": form,
        "selection": page.selection,
        "family": families.label(page.selection.family),
        "package": families.package_label(page.package),
        "views": [
            (name, label, form.querystring(view=None if name == "versions" else name, cell=None))
            for name, label in VIEWS.items()
        ],
        "legend": LEGEND,
        "marks": MARKS,
        "tiles_known": bool(page.facets),
        "running": under_way[:MOST_NOTICES],
        "more_running": len(under_way[MOST_NOTICES:]),
        "failed": [run for run in failed if run.recipe.versions.get(queries.PACKAGE) not in page.surveyed][
            :MOST_NOTICES
        ],
        "survey_form": SurveyForm(initial={"arch": page.selection.arch})
        if may(request, Role.OPERATOR)
        else None,
        "query": {name: form.querystring(format=name, view=None, cell=None) for name in ("csv", "json")},
        "without_cell": form.querystring(cell=None),
        "without_changes": form.querystring(cell=None, changes=None),
        "without_switches": form.querystring(cell=None, k=None, fusion=None, swap=None, schedule=None),
    }
    if page.facets:
        context |= _of_view(page, only_changes=only_changes)
    return render(request, "tiles/index.html", context)


def _of_view(page: Page, *, only_changes: bool) -> dict[str, Any]:
    """What one view shows below the filters."""
    if page.view == "funnel":
        return {"summary": page.summary(), **funnel.context(page.selection, page.releases, page.focus)}
    context: dict[str, Any] = {
        "summary": page.summary(),
        "why_not": page.why_not(),
        "recorded": only_recorded(page.selection.arch, page.package) & page.surveyed,
    }
    if page.view == "grid":
        found = grid(
            page.selection,
            page.narrow,
            page.columns,
            page.focus,
            page.listings.get(page.focus, {}),
            page.filters(),
        )
        context["grid"] = found
        context["opened"] = page.opened(found.telling if found else "")
        context["steps"] = (
            {
                name: page.form.querystring(version=version, cell=None)
                for name, version in (("before", found.before), ("after", found.after))
            }
            if found
            else {}
        )
    else:
        shown = matrix(
            page.selection,
            page.narrow,
            page.releases,
            page.surveyed,
            page.listings,
            page.focus,
            only_changes=only_changes,
        )
        context["matrix"] = shown
        context["opened"] = page.opened(shown.telling)
    return context | below(page.selection, page.releases, page.focus)


@require_safe
def at(request: HttpRequest, m: int, n: int, k: int, version: str) -> HttpResponse:
    """All variants of one tile in one release: what a cell of the grid stands for."""
    page = Page.read(request)
    column = next((column for column in page.columns if column.version == version), None)
    found = column and pool(
        page.selection, page.narrow, (m, n, k), column, page.listings.get(version, {}), page.filters()
    )
    if not found:
        raise Http404(f"Nothing is known about the tile {m}×{n}×{k} in {version}.")
    beside = request.headers.get("HX-Request") == "true"
    context = {
        "pool": found,
        "selection": page.selection,
        "family": families.label(page.selection.family),
        "package": families.package_label(page.package),
        "back": page.form.querystring(view="grid", version=version, cell=f"{m}x{n}x{k}@{version}"),
    }
    response = render(request, "tiles/_pool.html" if beside else "tiles/pool.html", context)
    response["Vary"] = "HX-Request, Cookie"
    return response


@require_safe
def evidence(request: HttpRequest, tile_id: int, version: str) -> HttpResponse:
    """A page of its own, or with `HX-Request` the part that opens beside the matrix."""
    found = cell_evidence(tile_id, version)
    if found is None:
        raise Http404(f"Nothing is known about tile {tile_id} in {version}.")
    context = {
        "found": found,
        "family": families.label(found.tile.family),
        "again": again.of_tiles(version, found.tile.arch) if found.release.package == queries.PACKAGE else "",
    }
    beside = request.headers.get("HX-Request") == "true"
    response = render(request, "tiles/_evidence.html" if beside else "tiles/evidence.html", context)
    response["Vary"] = "HX-Request, Cookie"
    return response


@require_safe
def log(request: HttpRequest, log_id: int) -> HttpResponse:
    """A compiler's or generator's words, whole and as plain text."""
    found = EvidenceLog.objects.filter(pk=log_id).first()
    if found is None:
        raise Http404(f"There is no log {log_id}.")
    return HttpResponse(found.text, content_type="text/plain; charset=utf-8")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.OPERATOR)
def survey(request: HttpRequest) -> HttpResponseBase:
    """Ask for a survey; an identical one under way is shown instead of a second."""
    form = SurveyForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "tiles/survey.html", {"form": form}, status=422 if form.is_bound else 200)
    run, created = request_survey(
        form.cleaned_data["version"],
        form.cleaned_data["arch"],
        user=acting(request),
        source=Job.Source.PERSON,
    )
    if not created:
        messages.info(request, "The same survey is under way already; this is it.")
    return redirect("runs:detail", run.pk)
