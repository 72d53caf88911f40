"""Pages of the release watch and of candidates."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.versions import version_order
from benchapp.fleet import asks, candidates, releases, schedule_queries
from benchapp.fleet.candidate_forms import CandidateForm, SurveyForm
from benchapp.fleet.models import Candidate, WatchedRelease
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs
from benchapp.runs.models import Job
from benchapp.tiles.models import Listing

#: Versions of a package named one by one.
MOST_VERSIONS = 60
MOST_CANDIDATES = 200


@require_safe
def watch(request: HttpRequest) -> HttpResponse:
    rows = list(WatchedRelease.objects.all())
    states = schedule_queries.job_states(row.job_id for row in rows if row.job_id)
    packages = []
    for package in releases.PACKAGES:
        of_package = [row for row in rows if row.package == package.name]
        of_package.sort(key=lambda row: version_order(row.version), reverse=True)
        shown = [(row, states.get(row.job_id or 0), releases.is_final(row.version)) for row in of_package]
        packages.append((package, shown[:MOST_VERSIONS], len(shown)))
    first = releases.PACKAGES[0].name
    final = [row for row in rows if row.new and releases.is_final(row.version)]
    final.sort(key=lambda row: row.package != first)
    context = {
        "packages": packages,
        "seen": bool(rows),
        "newest": final[0] if final else None,
        "newest_label": releases.label_of(final[0].package) if final else "",
        "away": releases.away_since(),
    }
    return render(request, "fleet/releases.html", context)


@require_safe
def listed(request: HttpRequest) -> HttpResponse:
    return _candidates(request, CandidateForm())


def _candidates(request: HttpRequest, form: CandidateForm, status: int = 200) -> HttpResponse:
    rows = list(Candidate.objects.defer("body").select_related("registered_by")[:MOST_CANDIDATES])
    surveyed: dict[str, list[str]] = {}
    found = Listing.objects.filter(release__version__in=[row.version for row in rows]).order_by("arch")
    for version, arch in found.values_list("release__version", "arch").distinct():
        surveyed.setdefault(version, []).append(arch)
    context: dict[str, Any] = {
        "rows": [(row, surveyed.get(row.version, [])) for row in rows],
        "form": form,
        "survey": SurveyForm(),
        "may_ask": may(request, Role.OPERATOR),
        "limit": candidates.LIMIT_BYTES,
    }
    return render(request, "fleet/candidates.html", context, status=status)


@require_POST
@needs(Role.OPERATOR)
def add(request: HttpRequest) -> HttpResponseBase:
    """Register a wheel sent by a browser."""
    form = CandidateForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            candidate, created = form.register(acting(request))
        except ValidationError as error:
            form.tell(error)
        else:
            said = "is registered" if created else "was registered before"
            messages.success(request, f"{candidate.version} {said}.")
            return redirect("fleet:candidates")
    return _candidates(request, form, status=422)


@require_POST
@needs(Role.OPERATOR)
def survey(request: HttpRequest, candidate_id: int) -> HttpResponseBase:
    candidate = Candidate.objects.defer("body").filter(pk=candidate_id).first()
    if candidate is None:
        raise Http404(f"There is no candidate {candidate_id}.")
    form = SurveyForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Arch: expected an architecture known here.")
        return redirect("fleet:candidates")
    ask = candidates.survey(candidate, [form.cleaned_data["arch"]])
    asked = asks.request(ask, user=acting(request), source=Job.Source.PERSON)
    return redirect("runs:detail", asked.runs[0][0].pk)
