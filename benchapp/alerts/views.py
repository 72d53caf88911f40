"""The inbox of alerts, the page of one, and what is done there."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.alerts import confirm, evidence, exports, narrowing, queries, reporting, triage, upstream, words
from benchapp.alerts import detail as details
from benchapp.alerts.acts import ACTS
from benchapp.alerts.forms import (
    AlertFilters,
    AssignForm,
    BisectForm,
    BulkForm,
    CloseForm,
    LinkForm,
    NoteForm,
    ReasonForm,
    SnoozeForm,
    WatchForm,
)
from benchapp.alerts.models import Alert
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs

State = Alert.State
#: Evidence that the table of changes has in full.
STRONGEST = ("strongest",)
#: Kinds of which a bisect can find the version.
BISECTED = (Alert.Kind.STACK, Alert.Kind.BUILD)


def _filters(request: HttpRequest) -> AlertFilters:
    offers = narrowing.offers()
    return AlertFilters.read(
        request.GET,
        gpus=offers.gpus,
        hosts=offers.hosts,
        people=offers.people,
        signed_in=request.user.is_authenticated,
    )


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    filters = _filters(request)
    page, rows = queries.page(narrowing.narrowed(filters, request.user), request.GET.get("page"))
    detecting = queries.detecting()
    may_act = may(request, Role.OPERATOR)
    number = page.number if page.number > 1 else None
    context = {
        "filters": filters,
        "page": page,
        "rows": rows,
        "narrowed": bool(filters.querystring(state=None)),
        "standing": queries.standing(),
        "detecting": detecting,
        "failures": queries.failures() if detecting.failing else [],
        "may_act": may_act,
        "bulk": BulkForm() if may_act else None,
        "here": filters.querystring(page=number),
        "previous": filters.querystring(page=page.previous_page_number()) or request.path
        if page.has_previous()
        else "",
        "following": filters.querystring(page=page.next_page_number()) if page.has_next() else "",
    }
    return render(request, "alerts/index.html", context)


@require_POST
@needs(Role.OPERATOR)
def bulk(request: HttpRequest) -> HttpResponse:
    """Do one thing to each alert that was ticked; what could not be done is named, and holds up nothing."""
    user, form = acting(request), BulkForm(request.POST)
    back = _inbox(request.POST.get("next", ""))
    if not form.is_valid():
        for faults in form.errors.values():
            messages.error(request, " ".join(map(str, faults)))
        return redirect(back)
    act, reason = form.cleaned_data["act"], form.cleaned_data["reason"]
    assignee = form.cleaned_data["assignee"]

    def one(alert_id: int) -> Alert:
        if act == "acknowledge":
            return triage.acknowledge(alert_id, user)
        if act == "investigate":
            return triage.investigate(alert_id, user)
        if act == "assign":
            return triage.assign(alert_id, user, assignee)
        if act == "reopen":
            return triage.reopen(alert_id, user, reason)
        return triage.close(alert_id, user, State(act), reason)

    outcomes = triage.each(form.cleaned_data["alert"], one)
    done = [outcome.alert_id for outcome in outcomes if not outcome.fault]
    if done:
        told = dict(BulkForm.ACTS)[act]
        whose = f" {assignee.get_username() if assignee else 'nobody'}" if act == "assign" else ""
        named = ", ".join(map(str, done[:10])) + (", …" if len(done) > 10 else "")
        messages.success(
            request, f"{len(done)} alert{'s' if len(done) > 1 else ''}: {told}{whose} ({named})."
        )
    for outcome in outcomes:
        if outcome.fault:
            messages.warning(request, outcome.fault)
    return redirect(back)


def _inbox(query: str) -> str:
    """The inbox as it was filtered; of a query nothing but a query leads anywhere."""
    path = reverse("alerts:index")
    return f"{path}{query}" if query.startswith("?") and query.isprintable() else path


def _alert(alert_id: int) -> Alert:
    alert = details.alert_or_none(alert_id)
    if alert is None:
        raise Http404(f"There is no alert {alert_id}.")
    return alert


@require_safe
def detail(request: HttpRequest, alert_id: int) -> HttpResponse:
    return _detail(request, _alert(alert_id))


def _detail(
    request: HttpRequest, alert: Alert, bound: dict[str, forms.Form] | None = None, status: int = 200
) -> HttpResponse:
    """The page, with forms as they were filled in where one could not be taken."""
    moved = details.changes(alert)
    strongest = moved[0].change if moved else None
    drawn = details.drawn(alert, strongest) if strongest else None
    compared, comparisons = details.comparisons(alert)
    context: dict[str, Any] = {
        "alert": alert,
        "chip": words.chip(alert),
        "way": words.direction(alert),
        "ratio": words.ratio(alert.ratio) if alert.ratio is not None else "",
        "confirming": words.confirming(alert),
        "asleep": queries.asleep_words(alert),
        "moved": moved,
        "counted": details.counted(alert),
        "drawn": drawn,
        "sides": details.sides(alert, drawn),
        "differs": words.differing(alert),
        "suspects": words.suspects(alert.suspects),
        "compared": compared,
        "comparisons": comparisons,
        "bisects": details.bisects(alert),
        "evidence": evidence.blocks(alert.evidence, STRONGEST if moved else ()),
        "history": details.history(alert),
        "report": upstream.markdown(reporting.report(alert, drawn)),
        "shown": [(row, words.level(row.point.median, drawn.change.series.metric)) for row in drawn.rows]
        if drawn
        else [],
        "may_act": may(request, Role.OPERATOR),
        "confirmable": alert.kind in confirm.KINDS or bool(compared),
        "may_confirm": alert.closed_at is None and alert.kind in confirm.KINDS,
        "may_bisect": alert.closed_at is None and alert.kind in BISECTED,
        "forms": _forms(alert, drawn) | (bound or {}),
    }
    return render(request, "alerts/detail.html", context, status=status)


def _forms(alert: Alert, drawn: details.Drawn | None) -> dict[str, forms.Form]:
    first = next(iter(words.suspects(alert.suspects)), None)
    snoozed = {
        "until": alert.snoozed_until,
        "component": alert.snoozed_component or (first[0] if first else ""),
        "version": alert.snoozed_version,
    }
    made: dict[str, forms.Form] = {
        "close": CloseForm(),
        "reopen": ReasonForm(),
        "known": ReasonForm(),
        "assign": AssignForm(initial={"assignee": alert.assignee.get_username() if alert.assignee else None}),
        "note": NoteForm(),
        "link": LinkForm(initial={"url": alert.upstream_url}),
        "snooze": SnoozeForm(initial=snoozed),
        "bisect": BisectForm(),
    }
    if drawn is not None:
        made["watch"] = WatchForm.of(drawn.change.series_id, details.watch_of(drawn.change))
    return made


@require_POST
@needs(Role.OPERATOR)
def act(request: HttpRequest, alert_id: int, name: str) -> HttpResponseBase:
    """One of `acts.ACTS`. Whoever came too late is told who was faster, and keeps what they typed."""
    chosen = ACTS.get(name)
    if chosen is None:
        raise Http404(f"Nothing of the name {name} can be done with an alert.")
    alert = _alert(alert_id)
    form = chosen.form(request.POST)
    if not form.is_valid():
        return _detail(request, alert, {name: form}, status=422)
    try:
        sentence = chosen.do(alert_id, acting(request), form)
    except (triage.Meanwhile, ValueError) as error:
        messages.warning(request, str(error))
        return _detail(request, _alert(alert_id), {name: form}, status=409)
    messages.success(request, sentence)
    return redirect("alerts:detail", alert_id)


@require_safe
def changes(request: HttpRequest, alert_id: int, form: str) -> HttpResponse:
    """Every change of an alert, as CSV or JSON."""
    if form not in ("csv", "json"):
        raise Http404("Changes are told as csv or json.")
    alert = _alert(alert_id)
    found = exports.rows(details.changes(alert, None))
    return exports.as_csv(alert, found) if form == "csv" else exports.as_json(alert, found)


@require_safe
def upstream_markdown(request: HttpRequest, alert_id: int) -> HttpResponse:
    alert = _alert(alert_id)
    strongest = queries.strongest([alert_id]).get(alert_id)
    drawn = details.drawn(alert, strongest) if strongest else None
    text = upstream.markdown(reporting.report(alert, drawn))
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@require_safe
@never_cache
def of_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """A fragment for a run's page: the alerts that it began, or was asked for to decide."""
    return render(request, "alerts/of.html", {"rows": queries.of_run(run_id)})


@require_safe
@never_cache
def of_case(request: HttpRequest) -> HttpResponse:
    """A fragment for a chart of trends: the open alerts about what it draws."""
    rows = queries.of_case(
        request.GET.get("target", ""), request.GET.get("kind", ""), request.GET.get("shape", "")
    )
    return render(request, "alerts/of.html", {"rows": rows})
