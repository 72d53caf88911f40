"""The filters of the trends page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from benchapp.catalog.models import Target
from benchapp.catalog.places import names
from benchapp.trends import queries
from benchapp.trends.charts import MAX_LINES
from benchapp.trends.fields import SizesField, plain_shape, sizes_in
from benchapp.trends.points import kind_name, shape_name, size_name
from benchapp.trends.utilisation import METRICS, UNRATED
from benchapp.web.filters import FilterForm

VIEWS = (
    ("batch", "batch size"),
    ("versions", "versions"),
    ("time", "time"),
    ("roofline", "roofline plot"),
    ("coverage", "coverage"),
    ("modules", "JIT modules"),
)
MAX_M = 20
#: More shapes than these are typed, with a list that proposes.
SHAPES_SELECTED = 40
#: A stack component and its version, as stacks call them.
WORD = r"[\w.+!-]{1,60}"
#: "GLM-5 TP 8", "torch 2.11.0"
WORDS = r"[\w.+! -]{1,80}"


class TrendsForm(FilterForm):
    """Target narrows kind, kind narrows shape: no combination is empty by itself.

    `kinds` are the (target, kind) that were timed, those with most cases first.
    """

    view = forms.ChoiceField(label="Over", required=False, choices=VIEWS, initial="batch")
    metric = forms.ChoiceField(label="Show", required=False)
    target = forms.ChoiceField(label="On", required=False)
    kind = forms.ChoiceField(label="Case", required=False)
    shape = forms.CharField(label="Shape", required=False, max_length=120)
    dtype = forms.ChoiceField(label="dtype", required=False)
    backend = forms.ChoiceField(label="Backend", required=False)
    m = SizesField(
        most=MAX_M,
        label="M",
        required=False,
        max_length=120,
        widget=forms.TextInput(attrs={"placeholder": "all", "size": 6, "autocomplete": "off"}),
    )
    component = forms.RegexField(WORD, label="Version of", required=False, initial="")
    version = forms.RegexField(WORDS, label="Version", required=False, initial="")
    model = forms.RegexField(WORDS, label="Decode step of", required=False, initial="")

    def __init__(
        self, data: Mapping[str, Any], *, kinds: Sequence[tuple[int, str]], targets: Sequence[Target]
    ) -> None:
        super().__init__(data)
        named = names(targets)
        target = self._narrow("target", {str(target.pk): named[target.pk] for target in targets})
        self.target_name = named.get(int(target or 0), "")
        of_target = [kind for pk, kind in kinds if str(pk) == target]
        self.kind_chosen = self._narrow("kind", {kind: kind_name(kind) for kind in of_target})
        self.target_chosen = int(target or 0)
        self.shapes = queries.offered_shapes(self.target_chosen, self.kind_chosen)
        self._offer_shapes()
        offers = queries.offers_of(self.target_chosen, self.kind_chosen, self.shape_chosen)
        dtypes = sorted({dtype for dtype, _ in offers if dtype})
        many = len(offers) > MAX_LINES // 2 and len(dtypes) > 1
        self._offer("dtype", [("all" if many else "", "all"), *((name, name) for name in dtypes)])
        self.fields["dtype"].initial = offers[0][0] if many else ""
        backends = sorted({backend for _, backend in offers if backend})
        self._offer("backend", [("", "all"), *((name, name) for name in backends)])
        unrated = self.kind_chosen in UNRATED
        shown = {name: each for name, each in METRICS.items() if not (unrated and each.needs_rate)}
        self._offer("metric", [(name, each.label) for name, each in shown.items()])
        if unrated:
            self.fields["metric"].initial = (
                "us" if self.kind_chosen in ("empty_kernel", "sampling") else "gbs"
            )
        self.fields["m"].label = size_name(self.kind_chosen)
        if self.data.get("view") == "roofline" and self.data.get("metric") != "sparse":
            self.fields["metric"].initial = "tflops"

    def _narrow(self, name: str, labels: Mapping[str, str]) -> str:
        """Offer these; which of them is chosen."""
        self._offer(name, list(labels.items()))
        chosen = self.data.get(name)
        return str(chosen) if chosen in labels else next(iter(labels), "")

    def _offer(self, name: str, choices: Sequence[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.initial = choices[0][0] if choices else ""

    def _offer_shapes(self) -> None:
        """A choice of few shapes; of many a text that proposes the most measured."""
        field = self.fields["shape"]
        field.initial = self.shapes[0] if self.shapes else ""
        if len(self.shapes) <= SHAPES_SELECTED:
            field.widget = forms.Select(
                choices=[(shape, shape_name(shape) or "any") for shape in self.shapes]
            )
        else:
            field.widget = forms.TextInput(attrs={"list": "shapes", "size": 18, "autocomplete": "off"})
        asked = plain_shape(str(self.data.get("shape") or ""))
        known = asked in self.shapes or (
            asked.isprintable()  # Postgres takes no NUL
            and asked != ""
            and queries.is_offered(self.target_chosen, self.kind_chosen, asked)
        )
        self.shape_chosen = asked if asked and known else field.initial

    @property
    def shape_list(self) -> list[str]:
        """What the text field of many shapes proposes; empty where all are choices."""
        return self.shapes if len(self.shapes) > SHAPES_SELECTED else []

    @property
    def useful_fields(self) -> list[forms.BoundField]:
        """The fields that offer a choice in this view."""
        every = set(self.fields)
        hidden = {
            "versions": {"version"},
            "time": {"version"},
            "roofline": {"metric", "model"},
            "coverage": every - {"view", "target", "component"},
            "modules": every - {"view"},
        }.get(self.values["view"], set())
        if self.values["metric"] != "recoverable":
            hidden = hidden | {"model"}
        if self.kind_chosen == "empty_kernel":  # what it varies is no number
            hidden = hidden | {"m"}
        useful = [field for field in self.visible_fields() if field.name not in hidden]
        return [
            field
            for field in useful
            if _choices(field) > 1 or isinstance(field.field.widget, forms.TextInput)
        ]

    def offer_components(self, components: Sequence[tuple[str, int]], component: str) -> None:
        """The stack components that the points have, those that vary most first."""
        varying = [name for name, versions in components if versions > 1]
        if component not in varying:
            varying.append(component)
        self.fields["component"].widget = forms.Select(choices=[(name, name) for name in varying])
        self.fields["component"].widget.attrs["data-initial"] = components[0][0] if components else ""
        self._show("component", component)

    def offer_versions(self, versions: Sequence[str]) -> None:
        """The versions that the points have, newest first."""
        choices = [("", "newest"), *((version, version) for version in versions)]
        self.fields["version"].widget = forms.Select(choices=choices, attrs={"data-initial": ""})
        self._show("version", self.values["version"])

    def offer_models(self, models: Sequence[str], model: str) -> None:
        """The models whose decode step computes the shape; the first where none was chosen."""
        choices = [(name, name) for name in models]
        first = models[0] if models else ""
        self.fields["model"].widget = forms.Select(choices=choices, attrs={"data-initial": first})
        self._show("model", model)

    def _show(self, name: str, value: str) -> None:
        assert isinstance(self.data, QueryDict)
        settled = self.data.copy()
        settled[name] = value
        self.data = settled

    def clean_shape(self) -> str:
        asked = plain_shape(str(self.cleaned_data["shape"]))
        if asked and asked != self.shape_chosen:
            raise forms.ValidationError("Nothing of this shape was timed here.")
        return asked

    def extents(self) -> set[int]:
        return set(sizes_in(self.values["m"]))


def _choices(field: forms.BoundField) -> int:
    """How many values a field can take besides "all"; 0 for a text field."""
    return len([value for value, _ in getattr(field.field.widget, "choices", ()) if value])
