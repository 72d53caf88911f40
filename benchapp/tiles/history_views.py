"""Pages over versions: the diff of two releases, tactic ids decoded, sizes, and what is worth trying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from benchapp.catalog.models import Release
from benchapp.catalog.versions import newest_order
from benchapp.runs.tables import Plain
from benchapp.tiles import consistency, diff, exports, families, queries, sizes, tactics, untried
from benchapp.tiles.entries import entries, lists
from benchapp.tiles.forms import SelectionForm
from benchapp.tiles.queries import Selection

#: A page lists no more deltas of one kind than this; what it leaves out is counted, and exports have all.
MOST_DELTAS = 100


class DiffForm(SelectionForm):
    """Two surveyed releases; the newest and the one before it are the default."""

    to = forms.ChoiceField(label="To", required=False)

    field_order = ("arch", "family", "inputs", "output", "from", "to")

    def __init__(self, data: Mapping[str, Any], *, selections: Sequence[Selection]) -> None:
        super().__init__(data, selections=selections)
        self.fields["from"] = forms.ChoiceField(label="From", required=False)
        looked_at = queries.surveyed_releases(self.selection.arch, self.selection.family)
        self.releases = {release.version: release for release in looked_at}
        versions = list(self.releases)
        newest = max(versions, key=newest_order, default="")
        asked = str(data.get("to", ""))
        to = asked if asked in versions[1:] else newest
        earlier = versions[: versions.index(to)] if to else []
        before = max(earlier, key=newest_order, default=to)
        self.offer_versions("from", versions, before)
        self.offer_versions("to", versions, newest)
        self.order_fields(self.field_order)


class TacticsForm(SelectionForm):
    """One release, and either an id or a tile to be looked up."""

    version = forms.ChoiceField(label="Version", required=False)
    id = forms.IntegerField(
        label="Tactic id",
        required=False,
        min_value=-1,
        max_value=1_000_000,
        widget=forms.NumberInput(attrs={"class": "id"}),
    )
    tile = forms.ChoiceField(label="Tile", required=False)

    def __init__(self, data: Mapping[str, Any], *, selections: Sequence[Selection]) -> None:
        super().__init__(data, selections=selections)
        self.releases = queries.releases().get(queries.PACKAGE, [])
        self.dense = self.selection.family not in families.OF_TWO_GEMMS
        found = lists(self.selection, self.releases)
        #: by version, without what was found of each
        self.decoded = {
            release.version: tactics.decode(found.get(release.pk, {}).values(), dense=self.dense)
            for release in self.releases
        }
        listed = [version for version, decoded in self.decoded.items() if decoded]
        versions = listed or list(self.decoded)
        self.offer_versions("version", versions, max(versions, key=newest_order, default=""))
        shapes = tactics.shapes(self.decoded)
        self.offer("tile", [("", "any"), *((shape, shape.replace("x", "×")) for shape in shapes)], "")


def _selections() -> list[Selection]:
    return queries.selections(queries.facets())


@require_safe
def difference(request: HttpRequest) -> HttpResponseBase:
    form = DiffForm.read(request.GET, selections=_selections())
    from_, to = form.values["from"] or "", form.values["to"] or ""
    sides = [form.releases[version] for version in (from_, to) if version]
    found = entries(form.selection, sides)
    before, after = (found[release.pk] for release in sides) if sides else ({}, {})
    deltas = diff.compare(before, after)
    rows = diff.flat(deltas, from_, to)
    name = f"tiles-diff-{from_}-{to}"
    if (exported := _exported(request, form, name, diff.COLUMNS, rows)) is not None:
        return exported
    groups = []
    for change, heading in diff.HEADINGS.items():
        of_change = [delta for delta in deltas if delta.change is change]
        if of_change:
            shown = of_change[:MOST_DELTAS]
            groups.append((change, heading, shown, len(of_change), len(of_change) - len(shown)))
    shared = len(before.keys() & after.keys())
    context = {
        "form": form,
        "selection": form.selection,
        "family": families.label(form.selection.family),
        "from": from_,
        "to": to,
        "groups": groups,
        "headline": diff.headline(from_, to, deltas, shared) if from_ != to else "",
        "lost": len(diff.losses(deltas)),
        "query": _queries(form),
        "back": reverse("tiles:index") + form.selection.query(version=to),
    }
    return render(request, "tiles/diff.html", context)


@require_safe
def tactic_ids(request: HttpRequest) -> HttpResponseBase:
    shipped = [selection for selection in _selections() if selection.family in families.SHIPPED]
    form = TacticsForm.read(request.GET, selections=shipped)
    version, asked, shape = (form.values[name] for name in ("version", "id", "tile"))
    release = next((release for release in form.releases if release.version == version), None)
    known = entries(form.selection, [release])[release.pk].values() if release else ()
    decoded = tactics.decode(known, dense=form.dense)
    rows = tactics.flat(version or "", decoded)
    if (exported := _exported(request, form, f"tactics-{version}", tactics.COLUMNS, rows)) is not None:
        return exported
    found = [tactic.entry for tactic in {tactic.entry.key: tactic for tactic in decoded}.values()]
    context = {
        "form": form,
        "selection": form.selection,
        "family": families.label(form.selection.family),
        "version": version,
        "decoded": decoded,
        "headline": tactics.headline(version or "", decoded),
        "cannot_run": consistency.dead_tactics(found) if decoded else "",
        "asked": asked,
        "about": tactics.about_id(version, asked, decoded) if asked is not None else "",
        "meanings": tactics.meanings(asked, form.decoded) if asked is not None else [],
        "shape": (shape or "").replace("x", "×"),
        "of_shape": tactics.ids_of_tile(shape, form.decoded) if shape else [],
        "query": _queries(form),
        "back": reverse("tiles:index") + form.selection.query(version=version or ""),
    }
    return render(request, "tiles/tactics.html", context)


@require_safe
def size_trend(request: HttpRequest) -> HttpResponse:
    """A page of its own, or with `HX-Request` the part that opens below the matrix."""
    form = SelectionForm.read(request.GET, selections=_selections())
    return _part(request, "_sizes", "Sizes over versions", form, sizes.context(form.selection.arch))


@require_safe
def worth_trying(request: HttpRequest) -> HttpResponse:
    """A page of its own, or with `HX-Request` the part that opens below the matrix."""
    form = SelectionForm.read(request.GET, selections=_selections())
    versions = [release.version for release in queries.releases().get(queries.PACKAGE, [])]
    focus = request.GET.get("version")
    if focus not in versions:
        focus = max(versions, key=newest_order, default="")
    context = untried.context(form.selection.arch, form.selection.inputs, focus)
    return _part(request, "_untried", "Worth trying", form, context)


def _part(
    request: HttpRequest, name: str, title: str, form: SelectionForm, context: dict[str, Any]
) -> HttpResponse:
    within = request.headers.get("HX-Request") == "true"
    shared = {
        "part": f"tiles/{name}.html",
        "title": title,
        "back": reverse("tiles:index") + form.selection.query(),
    }
    response = render(request, f"tiles/{name}.html" if within else "tiles/part.html", context | shared)
    response["Vary"] = "HX-Request, Cookie"
    return response


def below(selection: Selection, releases: Sequence[Release], focus: str) -> dict[str, Any]:
    """What `tiles/_below.html` shows under the matrix. At most two queries; the rest loads when opened."""
    query = urlencode({"arch": selection.arch, "inputs": selection.inputs, "version": focus})
    links = {"diff": reverse("tiles:diff") + selection.query()}
    if selection.family in families.SHIPPED:
        links |= {
            "tactics": reverse("tiles:tactics") + selection.query(version=focus),
            "untried": f"{reverse('tiles:untried')}?{query}",
            "sizes": f"{reverse('tiles:sizes')}?{urlencode({'arch': selection.arch})}",
        }
        return {"below": links, **consistency.context(selection, releases, focus)}
    return {"below": links}


def _queries(form: SelectionForm) -> dict[str, str]:
    return {name: form.querystring(format=name) for name in ("csv", "json")}


def _exported(
    request: HttpRequest,
    form: SelectionForm,
    name: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Plain]],
) -> HttpResponseBase | None:
    """The rows as CSV or JSON where the address asks for them; None where it asks for the page."""
    kind = request.GET.get("format")
    if kind not in ("csv", "json"):
        return None
    if (refused := exports.refused(form)) is not None:
        return refused
    if kind == "json":
        return JsonResponse({"query": {k: form.values[k] for k in form.fields}, "rows": list(rows)})
    return exports.as_csv(name, columns, rows)
