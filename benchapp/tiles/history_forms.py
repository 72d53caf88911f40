"""Filters of the pages over versions; each choice narrows the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from benchapp.tiles.forms import LABELS
from benchapp.tiles.queries import FIRST_ARCH, Selection
from benchapp.web.filters import FilterForm


class SelectionForm(FilterForm):
    """What a page over versions is about; `selections` are those that hold tiles, the fullest first."""

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
