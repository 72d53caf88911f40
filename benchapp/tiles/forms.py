"""The filters of the matrix, and the request for a survey."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms

from benchapp.catalog import versions
from benchapp.catalog.versions import version_order
from benchapp.runs.requests import clean_version
from benchapp.tiles import families
from benchapp.tiles.queries import FIRST_ARCH, Selection
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


class MatrixForm(FilterForm):
    """Each choice narrows the next, so that no combination is empty.

    `selections` are those that hold tiles, the fullest first; `versions` the known releases in release
    order and `surveyed` those among them that were surveyed, by architecture.
    """

    arch = forms.ChoiceField(label="Arch", required=False)
    family = forms.ChoiceField(label="Family", required=False)
    inputs = forms.ChoiceField(label="Inputs", required=False)
    output = forms.ChoiceField(label="Output", required=False)
    version = forms.ChoiceField(label="Version", required=False)
    changes = forms.BooleanField(label="Only changes", required=False)
    cell = forms.RegexField(
        rf"^(none|[0-9]{{1,12}}@{versions.PATTERN})\Z", required=False, widget=forms.HiddenInput
    )

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        selections: Sequence[Selection],
        versions: Sequence[str],
        surveyed: Mapping[str, set[str]],
    ) -> None:
        super().__init__(data)
        left = list(selections)
        known: set[str] = set()
        for name, label in LABELS.items():
            values = list(dict.fromkeys(getattr(selection, name) for selection in left))
            first = FIRST_ARCH if name == "arch" and FIRST_ARCH in values else next(iter(values), "")
            chosen = data.get(name) if data.get(name) in values else first
            self._offer(name, [(value, label(value)) for value in sorted(values)], first)
            left = [selection for selection in left if getattr(selection, name) == chosen]
            if name == "arch":
                known = surveyed.get(str(chosen), set())
        newest = max(known or versions, key=version_order, default="")
        self._offer("version", [(version, version) for version in reversed(versions)], newest)

    def _offer(self, name: str, choices: list[tuple[str, str]], first: str) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.initial = first

    def selection(self) -> Selection:
        return Selection(*(self.values[name] or "" for name in LABELS))


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
