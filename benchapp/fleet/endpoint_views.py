"""Pages of endpoints: which servers may be measured, and the form that asks for it."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.fleet import endpoints
from benchapp.fleet.endpoint_forms import EndpointForm, MeasureForm
from benchapp.fleet.models import Endpoint
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    rows = endpoints.rows()
    disabled = sum(not row.endpoint.enabled for row in rows)
    context = {
        "rows": rows,
        "disabled": disabled,
        "enabled": len(rows) - disabled,
        "may_ask": may(request, Role.OPERATOR),
        "may_admit": may(request, Role.ADMIN),
    }
    return render(request, "fleet/endpoints.html", context)


def _endpoint(endpoint_id: int) -> Endpoint:
    found = Endpoint.objects.filter(pk=endpoint_id).first()
    if found is None:
        raise Http404(f"There is no endpoint {endpoint_id}.")
    return found


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def new(request: HttpRequest) -> HttpResponseBase:
    return _form(request, EndpointForm(request.POST if request.method == "POST" else None))


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def edit(request: HttpRequest, endpoint_id: int) -> HttpResponseBase:
    data = request.POST if request.method == "POST" else None
    return _form(request, EndpointForm(data, endpoint=_endpoint(endpoint_id)))


def _form(request: HttpRequest, form: EndpointForm) -> HttpResponseBase:
    if form.is_valid():
        try:
            endpoint, changed = form.save(acting(request))
        except ValidationError as error:
            form.add_error(None, error)
        else:
            said = (
                "may be measured" if form.endpoint is None else "is changed" if changed else "stays as it was"
            )
            messages.success(request, f"{endpoint.name} {said}.")
            return redirect("fleet:endpoints")
    return render(request, "fleet/endpoints_form.html", {"form": form}, status=422 if form.is_bound else 200)


@require_POST
@needs(Role.ADMIN)
def disable(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    endpoint = _endpoint(endpoint_id)
    if endpoints.switch(endpoint, acting(request), enabled=False):
        messages.success(request, f"{endpoint.name} is measured no more; what was measured stays.")
    return redirect("fleet:endpoints")


@require_POST
@needs(Role.ADMIN)
def enable(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    endpoint = _endpoint(endpoint_id)
    if endpoints.switch(endpoint, acting(request), enabled=True):
        messages.success(request, f"{endpoint.name} may be measured again.")
    return redirect("fleet:endpoints")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.OPERATOR)
def measure(request: HttpRequest, endpoint_id: int) -> HttpResponseBase:
    endpoint = _endpoint(endpoint_id)
    form = MeasureForm(endpoint, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            run, created = endpoints.measure(endpoint, form.load(), acting(request))
        except ValidationError as error:
            form.add_error(None, error)
        else:
            if not created:
                messages.info(request, "This is under way already: nothing new is done.")
            return redirect("runs:detail", run.pk)
    context = {"form": form, "endpoint": endpoint}
    return render(request, "fleet/endpoints_measure.html", context, status=422 if form.is_bound else 200)
