"""The page that compares two stacks, GPUs or windows of time; the same as Markdown and as CSV."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.runs.models import Document
from benchapp.trends import compare_queries as queries
from benchapp.trends import compare_sides as sides
from benchapp.trends import compare_words as words
from benchapp.trends.compare_forms import SAME, CompareForm
from benchapp.trends.compare_markdown import markdown
from benchapp.trends.compare_pairs import pairs
from benchapp.trends.compare_sides import Side

#: Which class the page opens on: the first that holds any.
FIRST = ("worse", "incorrect", "better", "missing", "uncertain", "same")
#: Rows of a class in the Markdown copy.
COPIED = {"worse": 10, "incorrect": 10, "better": 5}
TOO_MUCH = "This takes too long to compare: narrow a side to one GPU, one stack or a window of time."


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    held = sides.held()
    form = CompareForm.read(request.GET, held=held)
    if not held:
        return render(request, "trends/compare.html", {"form": form})
    before, after = (_side(form, which, held) for which in ("a", "b"))
    context: dict[str, Any] = {
        "form": form,
        "before": before,
        "after": after,
        "swap": form.querystring(
            **{f"{name}_a": form.values[f"{name}_b"] or None for name in ("on", "only", "since", "until")},
            **{f"{name}_b": form.values[f"{name}_a"] or None for name in ("on", "only", "since", "until")},
            a=form.values["b"],
            b=form.values["a"],
            page=None,
            show=None,
        ),
    }
    hindrance = _hindrance(before, after)
    if hindrance:
        form.offer({name: [] for name in ("kind", "dtype", "shape", "backend")})
        return render(request, "trends/compare.html", context | {"hindrance": hindrance})
    try:
        with transaction.atomic():
            pairs(before, after, form.narrow(), by_backend=form.values["pair"] == SAME)
            if request.GET.get("format") == "csv":
                return _download(queries.export(), "text/csv", "compare.csv")
            context |= _found(form, before, after, request)
    except OperationalError as error:
        if "statement timeout" not in str(error):
            raise
        form.offer({name: [] for name in ("kind", "dtype", "shape", "backend")})
        return render(request, "trends/compare.html", context | {"hindrance": TOO_MUCH}, status=503)
    if request.GET.get("format") == "md":
        return HttpResponse(context["markdown"], content_type="text/plain; charset=utf-8")
    return render(request, "trends/compare.html", context)


def _side(form: CompareForm, which: str, held: list[sides.Held]) -> Side:
    on, choice = form.values[f"on_{which}"], form.values[which]
    return queries.side(
        choice,
        sides.at(on, held),
        place=form.label(f"on_{which}"),
        name=form.label(which),
        since=form.values[f"since_{which}"],
        until=form.values[f"until_{which}"],
        only=form.only(which),
    )


def _hindrance(before: Side, after: Side) -> str:
    """Why there is nothing to compare, or nothing."""
    for name, side in (("before", before), ("after", after)):
        if not side.documents:
            return f"Nothing is stored of the side {name}, {side}."
    if (before.documents, before.since, before.until) == (after.documents, after.since, after.until):
        return f"Both sides are {before}: choose another version, GPU or window of time on one of them."
    return ""


def _found(form: CompareForm, before: Side, after: Side, request: HttpRequest) -> dict[str, Any]:
    """What `compare_pair` holds, for the page and for Markdown. Call it in the transaction that made it."""
    order = form.order()
    offers = queries.offers()
    form.offer(offers)
    whole, groups = queries.groups()
    show = form.values["show"] or next((name for name in FIRST if whole.counts[name]), FIRST[0])
    pages = max(1, -(-whole.counts[show] // queries.PAGE))
    page = min(form.values["page"], pages)
    rows = queries.listed(show, order, offset=(page - 1) * queries.PAGE)
    host = words.about_host(queries.host_counts())
    gaps = [group for group in groups if group.lost or group.new]
    missing = [words.coverage(group, before.name, after.name) for group in gaps]
    top = {
        verdict: queries.listed(verdict, order, limit=limit)
        for verdict, limit in COPIED.items()
        if whole.counts[verdict]
    }
    address = request.build_absolute_uri(request.path + form.querystring(page=None))
    return {
        "apart": words.apart(before, after),
        "whole": whole,
        "summary": words.summary(whole),
        "speed": words.about_speed(whole.spread),
        "host": host,
        "without_time": queries.without_time(),
        "groups": groups,
        "missing": missing,
        "lost": [words.coverage(group, before.name, after.name) for group in gaps if group.lost],
        "tabs": [
            (name, words.GLYPHS[name], whole.counts[name], form.querystring(show=name, page=None))
            for name in queries.VERDICTS
        ],
        "show": show,
        "meaning": words.MEANINGS[show],
        "rows": [{"row": row, "why": words.verdict(row), "host": words.host(row)} for row in rows],
        "libraries": words.libraries(rows),
        "page": page,
        "pages": pages,
        "earlier": form.querystring(show=show, page=page - 1) if page > 1 else "",
        "later": form.querystring(show=show, page=page + 1) if page < pages else "",
        "shapes": offers["shape"],
        "stacks": sides.differing(before.stacks, after.stacks),
        "origins": _origins(before, after),
        "markdown": markdown(before, after, whole, missing, host, top, address),
        "md": form.querystring(page=None, format="md"),
        "csv": form.querystring(page=None, format="csv"),
    }


def _origins(before: Side, after: Side) -> list[str]:
    """What was not measured here, and sides of other GPUs of one model, in sentences."""
    documents = Document.objects.filter(pk__in=[*before.documents, *after.documents]).order_by()
    found = set(documents.values_list("origin", "target_id").distinct())
    origins, gpus = {origin for origin, _ in found}, {target for _, target in found}
    said = [
        f"Some of this was {Document.Origin(origin).label}."
        for origin in (Document.Origin.RECORDED, Document.Origin.IMPORT)
        if origin in origins
    ]
    if before.place == after.place and len(gpus) > 1:
        said.append(f"Measured on {len(gpus)} GPUs of this model: a pair of two also holds their difference.")
    return said


def _download(body: bytes, content_type: str, name: str) -> HttpResponse:
    return HttpResponse(
        body,
        content_type=f"{content_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
