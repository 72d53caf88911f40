"""Ask for work: the form, what would happen, and the button."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.fleet import asks, offers, plan_words, planning, words
from benchapp.fleet.trigger_forms import TriggerForm
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs
from benchapp.runs.actions import Asked
from benchapp.runs.again import words_of
from benchapp.runs.models import Job

#: Planned runs that the page names one by one.
MOST_SHOWN = 40


@require_safe
@never_cache
def trigger(request: HttpRequest) -> HttpResponse:
    """The form as its address fills it, with the plan; with `HX-Request` only what changes of it."""
    context = _context(request, request.GET)
    if request.headers.get("HX-Request") != "true":
        return render(request, "fleet/trigger.html", context)
    response = render(request, "fleet/_trigger.html", context)
    if "permalink" in context:
        response["HX-Replace-Url"] = context["permalink"]
    return response


def _context(request: HttpRequest, data: QueryDict) -> dict[str, Any]:
    machines = offers.Machines.read()
    form = TriggerForm(data, machines)
    context: dict[str, Any] = {
        "form": form,
        "may_ask": may(request, Role.OPERATOR),
    }
    if form.ask is None:
        return context
    plan = planning.plan(form.ask, machines)
    return context | {
        "plan": plan,
        "headline": plan_words.headline(plan),
        "expected": plan_words.expected(plan),
        "environments": plan_words.environments(plan),
        "shown": plan.runs[:MOST_SHOWN],
        "more": max(0, len(plan.runs) - MOST_SHOWN),
        "permalink": f"{reverse('fleet:trigger')}?{form.ask.query()}",
        # what the button sends is the very ask whose plan is shown
        "fields": words_of(form.ask.as_json()),
        "command": plan_words.command(form.ask),
        # each plan drawn has its own: the same plan pressed twice makes one job
        "key": str(uuid.uuid4()),
    }


@require_POST
@needs(Role.OPERATOR)
def ask(request: HttpRequest) -> HttpResponseBase:
    """Ask for what the plan showed. The same `key` again leads to the job that it made."""
    try:
        key = str(uuid.UUID(request.POST.get("key", "")))
    except ValueError:
        key = None
    try:
        wanted = asks.clean(asks.from_query(request.POST))
        asked = asks.request(
            wanted, user=acting(request), source=Job.Source.PERSON, key=key and f"trigger:{key}"
        )
    except ValidationError:
        # said again by the form, which names each field
        return render(request, "fleet/trigger.html", _context(request, request.POST), status=422)
    _tell(request, asked)
    if len(asked.runs) == 1:
        return redirect("runs:detail", asked.runs[0][0].pk)
    return redirect(f"{reverse('runs:index')}?job={asked.job.pk}")


def _tell(request: HttpRequest, asked: Asked) -> None:
    new = sum(created for _, created in asked.runs)
    if not asked.created:
        messages.info(request, "This was asked for before: nothing new is done.")
        return
    joined = len(asked.runs) - new
    said = f"Asked for: {words.count(new, 'run')} of job {asked.job.pk}."
    if joined:
        others = ", ".join(f"run {run.pk}" for run, created in asked.runs if not created)
        said += f" {words.count(joined, 'equal run')} under way joined: {others[:200]}."
    messages.success(request, said)
