"""Pages of hosts and GPUs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_POST, require_safe

from benchapp.fleet import actions, maintenance, queries
from benchapp.fleet.forms import MaintenanceForm
from benchapp.fleet.models import Installation
from benchapp.fleet.waiting import place_names
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs

POLL_S = 10
#: With more hosts than this only those that need a look are shown with all their GPUs.
HOSTS_IN_FULL = 8


def _fleet(request: HttpRequest) -> dict[str, Any]:
    fleet = queries.fleet()
    chosen = request.GET.get("host", "")
    hosts = [row for row in fleet.hosts if row.installation.host == chosen] if chosen else fleet.hosts
    many = not chosen and len(hosts) > HOSTS_IN_FULL
    in_full = [row for row in hosts if row.troubles][:HOSTS_IN_FULL] if many else hosts
    may_operate = may(request, Role.OPERATOR)
    return {
        "fleet": fleet,
        "chosen": chosen,
        "hosts": hosts,
        "many": many,
        "in_full": in_full,
        "may_operate": may_operate,
        "environments_shown": ":" if chosen else ":3",
        "poll_s": POLL_S,
        "etag": f'"{fleet.etag.strip(chr(34))}-{int(may_operate)}"',
    }


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    context = _fleet(request)
    if context["chosen"] and not context["hosts"]:
        raise Http404(f"No host {context['chosen'][:60]} is known here.")
    return render(request, "fleet/index.html", context)


@require_safe
def now(request: HttpRequest) -> HttpResponseBase:
    """All of the fleet page that changes. Polled with its ETag: 304 while nothing changed."""
    context = _fleet(request)
    unchanged = get_conditional_response(request, etag=context["etag"])
    if unchanged is not None:
        return unchanged
    response = render(request, "fleet/_now.html", context)
    response["ETag"] = context["etag"]
    response["Cache-Control"] = "no-cache"
    return response


@require_safe
def maintenance_page(request: HttpRequest) -> HttpResponse:
    what = request.GET.get("what", "")[:200]
    return _maintenance(request, MaintenanceForm(initial={"what": what}))


def _maintenance(request: HttpRequest, form: MaintenanceForm, status: int = 200) -> HttpResponse:
    rows = list(maintenance.current_and_coming())
    names = place_names(rows)
    may_operate = may(request, Role.OPERATOR)
    context = {"form": form, "rows": [(row, names[row.pk]) for row in rows], "may_operate": may_operate}
    return render(request, "fleet/maintenance.html", context, status=status)


@require_POST
@needs(Role.OPERATOR)
def take_out(request: HttpRequest) -> HttpResponse:
    form = MaintenanceForm(request.POST)
    if not form.is_valid():
        return _maintenance(request, form, status=400)
    said = form.cleaned_data
    row, created = actions.take_out(
        user=acting(request),
        reason=said["reason"],
        starts_at=said["starts_at"],
        ends_at=said["ends_at"],
        **form.place,
    )
    name = place_names([row])[row.pk]
    if not created:
        messages.warning(request, f"{name} is drained already: {row.reason}")
    elif said["ends_at"] is None and said["starts_at"] is None:
        messages.success(request, f"{name} is drained: what runs there goes on, and nothing new begins.")
    else:
        messages.success(request, f"Maintenance of {name} is noted.")
    return redirect("fleet:index")


@require_POST
@needs(Role.OPERATOR)
def lift(request: HttpRequest, maintenance_id: int) -> HttpResponse:
    row = actions.lift(maintenance_id, user=acting(request))
    if row is None:
        messages.warning(request, "This had been ended already.")
    else:
        messages.success(request, f"{place_names([row])[row.pk]} takes runs again.")
    return redirect("fleet:index")


def _installation(key: str) -> Installation:
    row = Installation.objects.filter(key=key).first()
    if row is None:
        raise Http404(f"There is no installation {key}.")
    return row


@require_POST
@needs(Role.OPERATOR)
def collect(request: HttpRequest, key: str) -> HttpResponse:
    row = _installation(key)
    actions.collect(row, user=acting(request))
    messages.success(request, f"{row.host} is asked to free disk; its next report tells what came of it.")
    return redirect("fleet:index")


@require_POST
@needs(Role.OPERATOR)
def forget(request: HttpRequest, key: str) -> HttpResponse:
    row = _installation(key)
    if actions.forget(row, user=acting(request)):
        messages.success(request, f"{row.host} is off this page until it reports again.")
    else:
        messages.warning(request, f"{row.host} was heard of lately: only a silent host can be forgotten.")
    return redirect("fleet:index")
