"""A filter form whose choices are what was measured, each narrowing the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from django import forms

from benchapp.web.filters import FilterForm

Offered = TypeVar("Offered")


class NarrowingForm(FilterForm):
    def _narrow(
        self, name: str, offered: Sequence[Offered], choice: Callable[[Offered], tuple[str, str]]
    ) -> list[Offered]:
        """Offer the (value, label) of each in a field, the first initially. Those of the value chosen."""
        labels = dict(map(choice, offered))
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list(labels.items())
        field.initial = next(iter(labels), "")
        asked = self.data.get(name)
        chosen = asked if asked in labels else field.initial
        return [each for each in offered if choice(each)[0] == chosen]

    @property
    def useful_fields(self) -> list[forms.BoundField]:
        """The fields that offer a choice."""
        return [field for field in self.visible_fields() if len(getattr(field.field, "choices", ())) > 1]
