"""The filters of the page, one form for its three views, and the request for a survey."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms
from django.forms.boundfield import BoundField

from benchapp.catalog import versions
from benchapp.catalog.versions import newest_order
from benchapp.runs.requests import clean_version
from benchapp.tiles import families
from benchapp.tiles.queries import FIRST_ARCH, Facet, Narrow, Selection, selections
from benchapp.web.filters import FilterForm
from benchapp.web.templatetags.units import operands
from workers.bench.tiles.arches import ARCHES

#: The filters in order, each narrowing the next, and how their values read.
LABELS: dict[str, Callable[[str], str]] = {
    "arch": str.upper,
    "family": families.label,
    "inputs": operands,
    "output": str,
}
VIEWS = {"versions": "Versions", "grid": "M × N grid", "funnel": "Funnel"}
#: What narrows the variants of a selection, and how values read.
SWITCHES: dict[str, Callable[[Any], str]] = {
    "k": str,
    "fusion": str.lower,
    "swap": {"yes": "yes", "no": "no"}.__getitem__,
    "schedule": str,
}
#: A switch of so many values, "all" counted, is drawn as segments; of more, as a list.
MOST_SEGMENTS = 5
_CELL = rf"^(none|([0-9]{{1,12}}|[0-9]{{1,7}}(x[0-9]{{1,7}}){{2}})@{versions.PATTERN})\Z"


class SelectionForm(FilterForm):
    """What a page of the room is about. Each choice narrows the next, so that no combination is empty.

    `selections` are those that hold tiles, in the order in which they are preferred.
    """

    arch = forms.ChoiceField(label="Arch", required=False)
    family = forms.ChoiceField(label="Family", required=False)
    inputs = forms.ChoiceField(label="Inputs", required=False)
    output = forms.ChoiceField(label="Output", required=False)

    def __init__(self, data: Mapping[str, Any], *, selections: Sequence[Selection]) -> None:
        super().__init__(data)
        left = list(selections)
        chosen: list[str] = []
        for name, label in LABELS.items():
            values = list(dict.fromkeys(getattr(selection, name) for selection in left))
            first = FIRST_ARCH if name == "arch" and FIRST_ARCH in values else next(iter(values), "")
            wanted = str(data.get(name, ""))
            chosen.append(wanted if wanted in values else first)
            self.offer(name, [(value, label(value)) for value in sorted(values)], first)
            left = [selection for selection in left if getattr(selection, name) == chosen[-1]]
        #: What is chosen, known before validation, so that versions can be offered.
        self.selection = Selection(*chosen)

    def offer(self, name: str, choices: Sequence[tuple[str, str]], first: str) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list(choices)
        field.initial = first

    def offer_versions(self, name: str, versions: Sequence[str], first: str) -> None:
        self.offer(name, [(version, version) for version in reversed(versions)], first)


class TilesForm(SelectionForm):
    """The filters of the matrix, the grid and the funnel.

    `known` are the combinations that hold tiles, `versions` the releases of each package in release order and
    `surveyed` those in which a survey looked at a family, by architecture and family.
    """

    view = forms.ChoiceField(choices=list(VIEWS.items()), required=False, widget=forms.HiddenInput)
    version = forms.ChoiceField(label="Version", required=False)
    k = forms.ChoiceField(label="K", required=False)
    fusion = forms.ChoiceField(label="Fusion", required=False)
    swap = forms.ChoiceField(label="Swap", required=False)
    schedule = forms.ChoiceField(label="Schedule", required=False)
    changes = forms.BooleanField(label="Only changes", required=False)
    cell = forms.RegexField(_CELL, required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        known: Sequence[Facet],
        versions: Mapping[str, Sequence[str]],
        surveyed: Mapping[tuple[str, str], set[str]],
    ) -> None:
        super().__init__(data, selections=selections(known))
        self.fields["view"].initial = "versions"
        all_versions = versions.get(families.package(self.selection.family), ())
        looked_at = surveyed.get((self.selection.arch, self.selection.family), set())
        newest = max(looked_at or all_versions, key=newest_order, default="")
        self.offer_versions("version", all_versions, newest)
        of_selection = [facet for facet in known if facet.selection == self.selection]
        offered: dict[str, list[Any]] = {
            "k": sorted({facet.k for facet in of_selection}),
            "fusion": sorted({facet.fusion for facet in of_selection}, key=lambda of: (of != "none", of)),
            "swap": ["yes" if swap else "no" for swap in sorted({facet.swap_ab for facet in of_selection})],
            "schedule": sorted({facet.schedule for facet in of_selection}),
        }
        for name, label in SWITCHES.items():
            choices = [("", "all"), *((str(value), label(value)) for value in offered[name])]
            self.offer(name, choices, "")
            if len(choices) <= MOST_SEGMENTS:
                self.fields[name].widget = forms.RadioSelect(choices=choices)
        self._choosable = [name for name in SWITCHES if len(offered[name]) > 1]
        self.order_fields(["view"])

    def narrow(self) -> Narrow:
        value = self.values
        return Narrow(
            k=int(value["k"]) if value["k"] else None,
            fusion=value["fusion"] or None,
            swap_ab={"yes": True, "no": False}.get(value["swap"]),
            schedule=value["schedule"] or None,
        )

    def about(self) -> list[BoundField]:
        """What the page is about."""
        return [self[name] for name in (*LABELS, "version")]

    def switches(self) -> list[BoundField]:
        """What narrows it, where there is a choice."""
        return [self[name] for name in self._choosable]


class SurveyForm(forms.Form):
    """Ask for the tile survey of one FlashInfer version on one architecture."""

    version = forms.CharField(
        label="FlashInfer version",
        max_length=40,
        widget=forms.TextInput(attrs={"placeholder": "0.6.3", "size": 14, "autocomplete": "off"}),
    )
    arch = forms.ChoiceField(label="Arch", choices=[(arch, arch.upper()) for arch in ARCHES])

    def clean_version(self) -> str:
        return clean_version(self.cleaned_data["version"])
