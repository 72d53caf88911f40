"""Pages of the tile room: the matrix, one cell's evidence, a log as it came, and the request for a survey."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.people.models import Role, User
from benchapp.people.permissions import acting, needs
from benchapp.runs.models import Job, State
from benchapp.runs.requests import request_survey
from benchapp.tiles import exports, families, queries
from benchapp.tiles.evidence import CellEvidence, cell_evidence
from benchapp.tiles.fates import Fate
from benchapp.tiles.forms import MatrixForm, SurveyForm
from benchapp.tiles.models import EvidenceLog

#: What the legend explains, in this order.
LEGEND = (
    ("survived", "●", "fits, or got further"),
    ("failed", "▲", "does not fit, does not compile or fails on the GPU"),
    ("nodispatch", "○", "candidate, never dispatched"),
    ("incorrect", "≠", "wrong result"),
    ("unsupported", "–", "not supported"),
    ("untested", "", "not tested"),
    ("absent", "·", "not in this version"),
)
#: From so many columns on, cells are drawn narrow.
NARROW_FROM = 32


@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    counted = queries.selections()
    known = queries.surveyed()
    every_release = queries.releases()
    form = MatrixForm.read(
        request.GET,
        selections=[selection for selection, _ in counted],
        versions=[release.version for release in every_release],
        surveyed=known,
    )
    selection = form.selection()
    surveyed = known.get(selection.arch, set())
    only_changes = bool(form.values["changes"])
    export = request.GET.get("format")
    if export in ("csv", "json"):
        cells = exports.flat(selection, every_release, surveyed, only_changes=only_changes)
        return exports.as_csv(selection, cells) if export == "csv" else exports.as_json(selection, cells)
    found = queries.matrix(
        selection, every_release, surveyed, form.values["version"] or "", only_changes=only_changes
    )
    runs = queries.survey_runs()
    surveyed_versions = {column.version for column in found.columns if column.surveyed}
    context = {
        "form": form,
        "selection": selection,
        "family": families.label(selection.family),
        "matrix": found,
        "narrow": len(found.columns) >= NARROW_FROM,
        "legend": LEGEND,
        "tiles_known": bool(counted),
        "opened": _opened(form.values["cell"] or found.telling),
        "running": [run for run in runs if run.state != State.FAILED],
        "failed": [
            run
            for run in runs
            if run.state == State.FAILED and run.recipe.versions.get(queries.PACKAGE) not in surveyed_versions
        ][:3],
        "survey_form": SurveyForm(initial={"arch": selection.arch}) if _may_operate(request) else None,
        "query": {name: form.querystring(format=name, cell=None) for name in ("csv", "json")},
        "without_cell": form.querystring(cell=None),
    }
    return render(request, "tiles/index.html", context)


def _may_operate(request: HttpRequest) -> bool:
    return isinstance(request.user, User) and request.user.may(Role.OPERATOR)


def _opened(cell: str) -> CellEvidence | None:
    """The evidence of `12@0.6.3`; None where there is no such cell."""
    tile_id, _, version = cell.partition("@")
    return cell_evidence(int(tile_id), version) if version else None


@require_safe
def evidence(request: HttpRequest, tile_id: int, version: str) -> HttpResponse:
    """A page of its own, or with `HX-Request` the part that opens beside the matrix."""
    found = cell_evidence(tile_id, version)
    if found is None:
        raise Http404(f"Nothing is known about tile {tile_id} in FlashInfer {version}.")
    context = {
        "found": found,
        "surveyed": found.variant.fate is not Fate.UNTESTED or bool(found.siblings),
        "family": families.label(found.tile.family),
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
