"""Pages of schedules."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.fleet import asks, schedule_queries, schedules
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Firing, Schedule
from benchapp.fleet.schedule_forms import ScheduleForm, link_of
from benchapp.fleet.schedule_times import cron_in_words
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs

FIRINGS_A_PAGE = 50
EXAMPLES = ("0 3 * * *", "30 */6 * * *", "0 22 * * 1-5", "0 6 * * SUN", "0 6 1 * *", "0 6 * * MON#1")


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    rows = schedule_queries.rows()
    context = {
        "rows": rows,
        "paused": sum(row.schedule.paused_at is not None for row in rows),
        "next": min((row.upcoming[0].at for row in rows if row.upcoming), default=None),
        "may_ask": may(request, Role.OPERATOR),
    }
    return render(request, "fleet/schedules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.OPERATOR)
def new(request: HttpRequest) -> HttpResponseBase:
    """The form; the parameters of a permalink of the trigger page fill it."""
    form = ScheduleForm(request.POST) if request.method == "POST" else ScheduleForm(initial=_asked(request))
    if form.is_valid():
        schedule = schedules.add(form.fields_of_schedule(), acting(request))
        messages.success(request, f"{schedule.name} is scheduled.")
        return redirect("fleet:schedule", schedule.pk)
    return _form(request, form)


def _asked(request: HttpRequest) -> dict[str, Any]:
    if not request.GET:
        return {}
    try:
        ask = Ask.from_json(asks.from_query(request.GET))
    except ValidationError as error:
        messages.warning(request, " ".join(error.messages))
        return {}
    return {"ask": link_of(ask), "name": str(ask)[:100]}


def _form(request: HttpRequest, form: ScheduleForm) -> HttpResponse:
    context = {
        "form": form,
        "asks_for": form.asks_for(),
        "examples": [(cron, cron_in_words(cron)) for cron in EXAMPLES],
    }
    return render(request, "fleet/schedules_form.html", context, status=422 if form.is_bound else 200)


def _schedule(schedule_id: int) -> Schedule:
    found = Schedule.objects.filter(pk=schedule_id).select_related("created_by").first()
    if found is None:
        raise Http404(f"There is no schedule {schedule_id}.")
    return found


@require_safe
def detail(request: HttpRequest, schedule_id: int) -> HttpResponse:
    schedule = _schedule(schedule_id)
    page = Paginator(schedule.firings.all(), FIRINGS_A_PAGE).get_page(request.GET.get("page"))
    firings: list[Firing] = list(page.object_list)
    states = schedule_queries.job_states(firing.job_id for firing in firings if firing.job_id)
    row = schedule_queries.row(schedule, None, states)
    context = {
        "row": row,
        "schedule": schedule,
        "link": link_of(row.ask) if row.ask else None,
        "page": page,
        "firings": [schedule_queries.fired(firing, states) for firing in firings],
        "outcomes": schedule_queries.outcomes(schedule),
        "may_ask": may(request, Role.OPERATOR),
    }
    return render(request, "fleet/schedules_detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.OPERATOR)
def edit(request: HttpRequest, schedule_id: int) -> HttpResponseBase:
    schedule = _schedule(schedule_id)
    posted = request.method == "POST"
    form = ScheduleForm(request.POST, schedule=schedule) if posted else ScheduleForm.of(schedule)
    if form.is_valid():
        schedules.edit(schedule, form.fields_of_schedule(), acting(request))
        messages.success(request, "Changed. Times before now are not made up for.")
        return redirect("fleet:schedule", schedule.pk)
    return _form(request, form)


@require_POST
@needs(Role.OPERATOR)
def pause(request: HttpRequest, schedule_id: int) -> HttpResponse:
    schedule = _schedule(schedule_id)
    if schedules.pause(schedule, acting(request)):
        messages.success(request, f"{schedule.name} is paused; what runs goes on.")
    return redirect("fleet:schedule", schedule.pk)


@require_POST
@needs(Role.OPERATOR)
def resume(request: HttpRequest, schedule_id: int) -> HttpResponse:
    schedule = _schedule(schedule_id)
    if schedules.resume(schedule, acting(request)):
        messages.success(request, f"{schedule.name} is due again from now on.")
    return redirect("fleet:schedule", schedule.pk)


@require_POST
@needs(Role.OPERATOR)
def run_now(request: HttpRequest, schedule_id: int) -> HttpResponse:
    schedule = _schedule(schedule_id)
    try:
        firing = schedules.run_now(schedule, acting(request))
    except ValidationError as error:
        messages.error(request, f"This cannot be asked for: {' '.join(error.messages)}")
    else:
        messages.success(request, firing.sentence or f"Asked for as job {firing.job_id}.")
    return redirect("fleet:schedule", schedule.pk)


@require_POST
@needs(Role.OPERATOR)
def delete(request: HttpRequest, schedule_id: int) -> HttpResponse:
    schedule = _schedule(schedule_id)
    try:
        schedules.delete(schedule, acting(request))
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return redirect("fleet:schedule", schedule.pk)
    messages.success(request, f"{schedule.name} is deleted.")
    return redirect("fleet:schedules")
