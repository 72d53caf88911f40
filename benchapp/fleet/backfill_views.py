"""The page of backfills: what has no data, and the button that asks for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from benchapp.fleet import backfill
from benchapp.fleet.backfill import Gap, Have, Item
from benchapp.fleet.schedule_forms import BackfillForm, GapsForm
from benchapp.fleet.words import count
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs
from benchapp.runs.actions import Asked

MOST_SHOWN = 200


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Both forms; one that the address fills says what is missing."""
    return render(request, "fleet/schedules_backfill.html", _context(request, request.GET))


def _context(request: HttpRequest, data: QueryDict) -> dict[str, Any]:
    of_ask = BackfillForm(data) if "ask" in data else BackfillForm()
    today = timezone.now().date()
    first = {"start": today - dt.timedelta(days=7), "end": today, "schedule": data.get("schedule", "")}
    of_gaps = GapsForm(data) if "start" in data else GapsForm(initial=first)
    items, gaps = _missing(of_ask), _gaps(of_gaps)
    return {
        "of_ask": of_ask,
        "of_gaps": of_gaps,
        "items": items and items[:MOST_SHOWN],
        "gaps": gaps and gaps[:MOST_SHOWN],
        "due": sum(len(gap.due) for gap in gaps or ()),
        "counts": {have: sum(item.have is have for item in items or ()) for have in Have},
        "missing": sum(item.have is Have.MISSING for item in items or ()),
        "sent": [(name, value) for name, values in data.lists() for value in values if name in _SENT],
        "may_ask": may(request, Role.OPERATOR),
    }


_SENT = (*BackfillForm.base_fields, *GapsForm.base_fields)


def _missing(form: BackfillForm) -> list[Item] | None:
    """None where the form is empty or faulty; its faults say why."""
    if not form.is_valid():
        return None
    try:
        return backfill.items(form.wanted())
    except ValidationError as error:
        _tell(form, error)
        return None


def _gaps(form: GapsForm) -> list[Gap] | None:
    if not form.is_valid():
        return None
    try:
        return backfill.gaps(form.cleaned_data["schedule"], *form.window())
    except ValidationError as error:
        _tell(form, error)
        return None


def _tell(form: forms.Form, error: ValidationError) -> None:
    for field, said in error.message_dict.items() if hasattr(error, "error_dict") else [("", error.messages)]:
        form.add_error(field if field in form.fields else None, said)


@require_POST
@needs(Role.OPERATOR)
def fill(request: HttpRequest) -> HttpResponseBase:
    """Ask for what is missing now, which may be less than the page showed."""
    user = acting(request)
    of_ask = BackfillForm(request.POST) if "ask" in request.POST else BackfillForm()
    of_gaps = GapsForm(request.POST) if "start" in request.POST else GapsForm()
    asked: Sequence[Asked] = ()
    try:
        if (items := _missing(of_ask)) is not None:
            asked = backfill.fill(of_ask.wanted(), items, user=user)
        elif (gaps := _gaps(of_gaps)) is not None:
            asked = backfill.fill_gaps(of_gaps.cleaned_data["schedule"], gaps, user=user)
        else:
            return render(
                request, "fleet/schedules_backfill.html", _context(request, request.POST), status=422
            )
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return redirect("fleet:backfill")
    runs = sum(created for each in asked for _, created in each.runs)
    if runs:
        messages.success(request, f"Asked for: {count(runs, 'run')}, after all other work.")
    else:
        messages.info(request, "Nothing is missing that is not under way.")
    return redirect("runs:index")
