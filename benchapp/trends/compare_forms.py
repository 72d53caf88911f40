"""The two sides and the filters of a comparison. The address holds all of them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import QueryDict

from benchapp.trends import compare_sides as sides
from benchapp.trends.compare_pairs import Narrow
from benchapp.trends.compare_queries import ORDERS, VERDICTS
from benchapp.trends.compare_sides import Held
from benchapp.trends.fields import SizesField, plain_shape, sizes_in
from benchapp.trends.points import kind_name
from benchapp.web.filters import FilterForm
from workers.bench.models import TENSOR_PARALLEL, model, models, projections

MAX_SIZES = 50
MAX_PAGE = 10_000
#: Both spelt out in every address, so that a link means the same when newer versions have come.
PINNED = ("on_a", "a", "on_b", "b")
#: What a measurement may claim: see `benchapp.ingest.schema`.
DAYS = (MinValueValidator(dt.date(2015, 1, 1)), MaxValueValidator(dt.date(2099, 12, 31)))
ONLY = re.compile(r"(run|document) ?#?(\d{1,15})", re.IGNORECASE)
BEST, SAME = "best", "backend"


class CompareForm(FilterForm):
    """Side A is before, side B after. `held` is what was measured, newest first."""

    on_a = forms.ChoiceField(label="On", required=False)
    a = forms.ChoiceField(label="Before", required=False)
    on_b = forms.ChoiceField(label="On", required=False)
    b = forms.ChoiceField(label="After", required=False)
    pair = forms.ChoiceField(
        label="Pair by",
        required=False,
        choices=[(BEST, "best of all backends"), (SAME, "same backend")],
        initial=BEST,
    )
    kind = forms.CharField(label="Case", required=False, max_length=20, widget=forms.Select)
    dtype = forms.CharField(label="Format", required=False, max_length=40, widget=forms.Select)
    shape = forms.CharField(
        label="N×K or shape",
        required=False,
        max_length=120,
        widget=forms.TextInput(
            attrs={"placeholder": "all", "size": 12, "list": "shapes", "autocomplete": "off"}
        ),
    )
    model = forms.ChoiceField(
        label="Shapes of",
        required=False,
        choices=[("", "any model"), *((each.name, each.name) for each in models())],
    )
    m = SizesField(
        most=MAX_SIZES,
        label="M",
        required=False,
        max_length=300,
        widget=forms.TextInput(attrs={"placeholder": "all", "size": 8, "autocomplete": "off"}),
    )
    backend = forms.CharField(label="Backend", required=False, max_length=40, widget=forms.Select)
    only_a = forms.CharField(label="Before: one run or document", required=False, max_length=40)
    since_a = forms.DateField(label="measured from", required=False, validators=DAYS)
    until_a = forms.DateField(label="to", required=False, validators=DAYS)
    only_b = forms.CharField(label="After: one run or document", required=False, max_length=40)
    since_b = forms.DateField(label="measured from", required=False, validators=DAYS)
    until_b = forms.DateField(label="to", required=False, validators=DAYS)
    sort = forms.ChoiceField(
        label="Sort by",
        required=False,
        choices=[("effect", "effect (ratio)"), ("time", "time lost (µs)")],
        initial="effect",
    )
    show = forms.ChoiceField(
        required=False, choices=[("", "the first that holds any"), *((name, name) for name in VERDICTS)]
    )
    page = forms.IntegerField(required=False, min_value=1, max_value=MAX_PAGE, initial=1)

    def __init__(self, data: Mapping[str, Any], *, held: Sequence[Held]) -> None:
        super().__init__(data)
        self._labels: dict[str, dict[str, str]] = {}
        places = sides.places(held)
        here = self._place("on_a", held, places, next(iter(places), ""))
        there = self._place("on_b", held, places, self.fields["on_a"].initial)
        before, after = sides.suggested(sides.without_borrowed(here))
        if before == after:
            before, after = sides.suggested(here)
        if there != here:
            before, after = _across(here, there)
        self._offer("a", sides.choices(here, there), before)
        self._offer("b", sides.choices(there, here), after)
        for name in ("since_a", "until_a", "since_b", "until_b"):
            self.fields[name].widget = forms.DateInput(attrs={"type": "date"})
        for name in ("only_a", "only_b"):
            self.fields[name].widget.attrs |= {"placeholder": "run 12", "size": 10, "autocomplete": "off"}

    def _place(
        self, name: str, held: Sequence[Held], places: Mapping[str, str], fallback: object
    ) -> list[Held]:
        """Offer the places; returns what is held at the chosen one, now the field's initial value."""
        chosen = self.data.get(name)
        first = str(chosen if chosen in places else fallback)
        self._offer(name, list(places.items()), first)
        return sides.at(first, held)

    def _offer(self, name: str, choices: Sequence[tuple[str, Any]], first: str) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.initial = first
        flat = [each for value in choices for each in (value[1] if isinstance(value[1], list) else [value])]
        self._labels[name] = dict(flat)

    @classmethod
    def read(cls, query: QueryDict, **options: Any) -> Self:
        form = super().read(query, **options)
        for name in PINNED:  # frame.js is to leave them in the address
            form.fields[name].widget.attrs.pop("data-initial", None)
        return form

    def _parameters(self) -> dict[str, list[str]]:
        said = super()._parameters()
        pinned = {name: [str(self.values[name])] for name in PINNED if self.values[name]}
        return {name: each for name in self.fields if (each := (pinned | said).get(name))}

    def label(self, name: str) -> str:
        """What a place or a side is called in its list."""
        return self._labels[name].get(self.values[name], str(self.values[name]))

    def offer(self, offers: Mapping[str, Sequence[str]]) -> None:
        """Fill the filters whose choices are known only once the pairs are."""
        for name in ("kind", "dtype", "backend"):
            widget = self.fields[name].widget
            assert isinstance(widget, forms.Select)
            known = list(dict.fromkeys([*offers[name], *([self.values[name]] if self.values[name] else [])]))
            called = kind_name if name == "kind" else str
            widget.choices = [("", "all"), *((each, called(each)) for each in known)]

    def clean_shape(self) -> str:
        return plain_shape(str(self.cleaned_data["shape"]))

    def clean_only_a(self) -> str:
        return _only(self.cleaned_data["only_a"])

    def clean_only_b(self) -> str:
        return _only(self.cleaned_data["only_b"])

    def only(self, side: str) -> tuple[str, int] | None:
        """The run or document that a side, "a" or "b", is narrowed to."""
        kind, _, number = (self.values[f"only_{side}"] or "").partition(" ")
        return (kind, int(number)) if number else None

    def narrow(self) -> Narrow:
        sizes = tuple(sizes_in(self.values["m"]))
        kind, dtype, shape, backend = (
            self.values[name] or "" for name in ("kind", "dtype", "shape", "backend")
        )
        return Narrow(kind, dtype, shape, shapes_of(self.values["model"] or ""), sizes, backend)

    @property
    def filter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("pair", "kind", "dtype", "shape", "model", "m", "backend", "sort")]

    @property
    def narrowing_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("only_a", "since_a", "until_a", "only_b", "since_b", "until_b")]

    @property
    def is_narrowed(self) -> bool:
        return any(self.values[field.name] for field in self.narrowing_fields)

    def order(self) -> str:
        return self.values["sort"] if self.values["sort"] in ORDERS else "effect"


def shapes_of(name: str) -> tuple[str, ...]:
    """N×K of a model's products, of one GPU and of each of the eight of a host, as the catalog has shapes."""
    if not name:
        return ()
    products = (each for tp in TENSOR_PARALLEL for each in projections(model(name), tp))
    return tuple(dict.fromkeys(f"{each.n}x{each.k}" for each in products))


def _across(here: Sequence[Held], there: Sequence[Held]) -> tuple[str, str]:
    """The pair to open on between two places: the newest version that both have, else the newest of each."""
    own, other = sides.versions(here), sides.versions(there)
    for name in own:
        for version in own[name]:
            if version in other.get(name, ()):
                return f"{name} {version}", f"{name} {version}"
    return sides.suggested(here)[1], sides.suggested(there)[1]


def _only(text: str) -> str:
    found = ONLY.fullmatch(str(text).strip())
    if text and not found:
        raise forms.ValidationError("Expected a run or a document, such as run 12.")
    return f"{found[1].lower()} {int(found[2])}" if found else ""
