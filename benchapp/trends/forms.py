"""The filters of the trends page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from benchapp.catalog.models import Target
from benchapp.trends.queries import COMPONENTS, Offer
from benchapp.trends.utilisation import METRICS
from benchapp.web.filters import FilterForm

VIEWS = (("batch", "batch size"), ("versions", "versions"), ("time", "time"))
MAX_M = 20
METRIC_LABELS = {
    "tflops": "TFLOP/s",
    "peak": "% of dense peak",
    "roofline": "% of roofline",
    "us": "µs",
    "gbs": "GB/s",
}


class TrendsForm(FilterForm):
    """Target narrows kind, kind narrows shape: no combination is empty by itself.

    `offers` are the combinations measured, those with most cases first.
    """

    view = forms.ChoiceField(label="Over", required=False, choices=VIEWS, initial="batch")
    metric = forms.ChoiceField(
        label="Show",
        required=False,
        choices=[(name, METRIC_LABELS[name]) for name in METRICS],
        initial="tflops",
    )
    target = forms.ChoiceField(label="On", required=False)
    kind = forms.ChoiceField(label="Case", required=False)
    shape = forms.ChoiceField(label="N×K", required=False)
    dtype = forms.ChoiceField(label="dtype", required=False)
    backend = forms.ChoiceField(label="Backend", required=False)
    m = forms.CharField(
        label="M",
        required=False,
        max_length=120,
        widget=forms.TextInput(attrs={"placeholder": "all", "size": 6, "autocomplete": "off"}),
    )
    component = forms.ChoiceField(
        label="Version of", required=False, choices=[(name, name) for name in COMPONENTS], initial="torch"
    )

    def __init__(
        self, data: Mapping[str, Any], *, offers: Sequence[Offer], targets: Sequence[Target]
    ) -> None:
        super().__init__(data)
        left = self._narrow("target", offers, {str(target.pk): str(target) for target in targets})
        left = self._narrow("kind", left, {offer.kind: offer.kind.upper() for offer in left})
        cases: Counter[str] = Counter()
        for offer in left:
            cases[offer.shape] += offer.cases
        shapes = {shape: shape.replace("x", "×") or "any" for shape, _ in cases.most_common()}
        left = self._narrow("shape", left, shapes)
        for name in ("dtype", "backend"):
            values = sorted({str(getattr(offer, name)) for offer in left})
            self._offer(name, [("", "all"), *((value, value) for value in values if value)], "")

    def _narrow(self, name: str, offers: Sequence[Offer], labels: Mapping[str, str]) -> list[Offer]:
        chosen = self.data.get(name)
        if chosen not in labels:
            chosen = next(iter(labels), "")
        self._offer(name, list(labels.items()), next(iter(labels), ""))
        key = "target_id" if name == "target" else name
        return [offer for offer in offers if str(getattr(offer, key)) == chosen]

    def _offer(self, name: str, choices: list[tuple[str, str]], first: str) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.initial = first

    @property
    def useful_fields(self) -> list[forms.BoundField]:
        """The fields that offer a choice."""
        return [field for field in self.visible_fields() if _choices(field) != 1]

    def clean_m(self) -> str:
        """Canonical: sorted, without repeats, "1,16,64"."""
        given = str(self.cleaned_data["m"])
        words = given.replace(" ", ",").split(",")
        try:
            extents = sorted({int(word) for word in words if word})
        except ValueError:
            raise forms.ValidationError("Expected batch sizes such as 1,16,64.") from None
        if len(extents) > MAX_M or any(not 1 <= extent < 2**31 for extent in extents):
            raise forms.ValidationError(f"Expected at most {MAX_M} positive numbers.")
        return ",".join(map(str, extents))

    def extents(self) -> set[int]:
        return {int(word) for word in (self.values["m"] or "").split(",") if word}


def _choices(field: forms.BoundField) -> int:
    """How many values a field can take besides "all"; 0 for a text field."""
    if not isinstance(field.field, forms.ChoiceField):
        return 0
    return len([value for value, _ in field.field.widget.choices if value])
