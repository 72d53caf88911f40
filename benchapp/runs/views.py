"""Pages of jobs and runs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_POST, require_safe

from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs
from benchapp.runs import actions, again, queries, queues
from benchapp.runs.forms import InvalidForm, RunFilters
from benchapp.runs.models import Document, Job, Measurement, Run, State
from benchapp.runs.states import ACTIVE, FINAL
from benchapp.runs.step_words import Told, told


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    filters = RunFilters.read(request.GET)
    page, jobs = queries.runs_page(
        state=filters.values["state"],
        kind=filters.values["kind"],
        job=filters.values["job"],
        number=request.GET.get("page"),
    )
    job = queries.job_or_none(filters.values["job"]) if filters.values["job"] else None
    waits = queries.why_they_wait(page.object_list)
    for run in page.object_list:
        run.waits = waits.get(run.pk, "")
        run.again, run.asked_of = again.of_run(run), queues.describe(run.queue)
    counts = queries.counts_by_state()
    previous = page.previous_page_number() if page.has_previous() else None
    following = page.next_page_number() if page.has_next() else None
    return render(
        request,
        "runs/index.html",
        {
            "filters": filters,
            "page": page,
            "jobs": jobs,
            **(_job(request, job) if job else {}),
            "counts": counts,
            "under_way": counts.get(State.RUNNING, 0) + counts.get(State.DELIVERED, 0),
            "previous": previous and (filters.querystring(page=previous) or request.path),
            "following": following and filters.querystring(page=following),
        },
    )


def _run(run_id: int) -> Run:
    run = queries.run_or_none(run_id)
    if run is None:
        raise Http404(f"There is no run {run_id}.")
    return run


def _job(request: HttpRequest, job: Job) -> dict[str, Any]:
    """What a page says of a job, and whether all of it can be cancelled by whoever looks."""
    counts = queries.counts_by_state(job.pk)
    active = sum(number for state, number in counts.items() if state in ACTIVE)
    return {
        "job": job,
        "job_runs": sum(counts.values()),
        "job_counts": [(number, State(state).label) for state, number in sorted(counts.items())],
        "job_again": again.of_job(job),
        "may_cancel_job": active > 0 and may(request, Role.OPERATOR),
    }


def _progress(request: HttpRequest, run: Run) -> dict[str, Any]:
    attempts = queries.attempts_of(run)
    waits = queries.why_it_waits(run)
    for attempt in attempts:
        attempt.shown = queries.readable_tail(attempt)  # type: ignore[attr-defined]
    return {
        "run": run,
        "attempts": attempts,
        "waits": waits,
        "tail": queries.TAIL,
        "ended": run.state in FINAL,
        "etag": queries.pulse(run, attempts, waits),
        "may_cancel": run.state in (State.QUEUED, State.RUNNING) and may(request, Role.OPERATOR),
    }


@require_safe
def detail(request: HttpRequest, run_id: int) -> HttpResponse:
    return _detail(request, _run(run_id))


def _detail(
    request: HttpRequest, run: Run, form: InvalidForm | None = None, status: int = 200
) -> HttpResponse:
    documents = queries.documents_of(run)
    accepted = next((d for d in documents if d.state == Document.State.ACCEPTED), None)
    results = queries.results_of(accepted)
    context = _progress(request, run) | {
        "documents": documents,
        "accepted": accepted,
        "results": results,
        "rated": [_rated(row) for row in results.rows],
        "compared": queries.compared(accepted),
        "command": queries.repeat_command(accepted),
        "again": again.of_run(run),
        "asked_of": queues.describe(run.queue),
        "usual_s": None if run.state in FINAL else queries.usual_s(run),
        "may_mark": run.state in FINAL and may(request, Role.OPERATOR),
        "invalid_form": form or InvalidForm(),
        **_job(request, run.job),
    }
    return render(request, "runs/detail.html", context, status=status)


def _rated(row: Measurement) -> tuple[Measurement, float | None, float | None, Told | None]:
    """(measurement, FLOP/s, GB/s, what is said of it instead of both)."""
    case = row.series.case
    said = told(case.kind, case.params, row.facts, row.median)
    return row, None if said else queries.rate(row), None if said else queries.traffic(row), said


@require_safe
def progress(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """The part of a run's page that changes. Polled with its ETag: 304 while nothing changed."""
    context = _progress(request, _run(run_id))
    unchanged = get_conditional_response(request, etag=context["etag"])
    if unchanged is not None:
        return unchanged
    response = render(request, "runs/_progress.html", context)
    response["ETag"] = context["etag"]
    response["Cache-Control"] = "no-cache"
    if context["ended"] and "HX-Request" in request.headers:
        response["HX-Refresh"] = "true"  # results and documents stand elsewhere on the page
    return response


@require_safe
def log(request: HttpRequest, run_id: int, number: int) -> HttpResponse:
    """One attempt's whole log, as it was written."""
    text = queries.attempt_log(run_id, number)
    if text is None:
        raise Http404(f"Run {run_id} has no attempt {number}.")
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="run-{run_id}-attempt-{number}.log"'
    return response


@require_safe
def document(request: HttpRequest, document_id: int) -> HttpResponse:
    """A document, byte for byte as it came."""
    row = queries.document_or_none(document_id)
    if row is None:
        raise Http404(f"There is no document {document_id}.")
    body = bytes(row.body)
    # a table that was imported is a zip archive of the files it came in
    kind = "zip" if body.startswith(b"PK") else "json"
    response = HttpResponse(body, content_type=f"application/{kind}")
    response["Content-Disposition"] = f'attachment; filename="document-{row.pk}-{row.sha256[:12]}.{kind}"'
    return response


@require_POST
@needs(Role.OPERATOR)
def cancel(request: HttpRequest, run_id: int) -> HttpResponse:
    run = _run(run_id)
    if not actions.cancel(run, acting(request)):
        messages.warning(request, f"Run {run.pk} had ended already: there was nothing to cancel.")
    elif run.state == State.QUEUED:
        messages.success(request, f"Run {run.pk} is cancelled.")
    else:
        messages.success(request, f"Run {run.pk} is asked to stop; its worker ends it within seconds.")
    return redirect("runs:detail", run_id=run.pk)


@require_POST
@needs(Role.OPERATOR)
def cancel_job(request: HttpRequest, job_id: int) -> HttpResponse:
    job = queries.job_or_none(job_id)
    if job is None:
        raise Http404(f"There is no job {job_id}.")
    cancelled = actions.cancel_job(job, acting(request))
    if cancelled:
        messages.success(
            request,
            f"{cancelled} run{'s' if cancelled > 1 else ''} of job {job.pk}: what was queued is cancelled, "
            "what is running is asked to stop.",
        )
    else:
        messages.warning(
            request, f"Every run of job {job.pk} had ended already: there was nothing to cancel."
        )
    return redirect(f"{reverse('runs:index')}?job={job.pk}")


@require_POST
@needs(Role.OPERATOR)
def invalid(request: HttpRequest, run_id: int) -> HttpResponse:
    """Take a run out of ranking, with a reason."""
    run, form = _run(run_id), InvalidForm(request.POST)
    if not form.is_valid():
        return _detail(request, run, form, status=422)
    if actions.mark_invalid(run, acting(request), form.cleaned_data["reason"]):
        messages.success(request, f"Run {run.pk} takes no part in ranking any more.")
    else:
        messages.warning(
            request, f"Run {run.pk} has not ended, or is marked so already: nothing was changed."
        )
    return redirect("runs:detail", run_id=run.pk)


@require_POST
@needs(Role.OPERATOR)
def valid(request: HttpRequest, run_id: int) -> HttpResponse:
    """Put a run back into ranking."""
    run = _run(run_id)
    if actions.mark_invalid(run, acting(request), ""):
        messages.success(request, f"Run {run.pk} takes part in ranking again.")
    return redirect("runs:detail", run_id=run.pk)
