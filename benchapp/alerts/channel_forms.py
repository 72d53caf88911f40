"""What people type in of channels and routes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q

from benchapp.alerts.models import Alert, Channel, Route
from benchapp.alerts.notifiers.base import Settings
from benchapp.alerts.notifiers.fields import text
from benchapp.alerts.notifiers.registry import notifier
from benchapp.alerts.routing import models_known
from benchapp.catalog.models import Target
from benchapp.people.models import User


class NameForm(forms.Form):
    name = forms.CharField(
        max_length=60, widget=text(placeholder="GPU team"), help_text="What people here call it."
    )

    def clean_name(self) -> str:
        name = " ".join(self.cleaned_data["name"].split())
        if not name.isprintable():
            raise ValidationError("Expected one line of text, such as GPU team.")
        return name


def settings_form(kind: str, data: Any = None, channel: Channel | None = None) -> Settings:
    """The form of a kind's settings, filled in with those of `channel`."""
    initial = None
    if channel is not None:
        initial = {
            name: "\n".join(value) if isinstance(value, list) else value
            for name, value in channel.config.items()
        }
    return notifier(kind).settings(data, initial=initial)


class RouteForm(forms.Form):
    """Which alerts a channel gets; what is left empty meets every alert."""

    kinds = forms.MultipleChoiceField(
        label="Kinds", required=False, choices=Alert.Kind.choices, widget=forms.CheckboxSelectMultiple
    )
    gpu_models = forms.MultipleChoiceField(
        label="GPU models", required=False, widget=forms.CheckboxSelectMultiple
    )
    moe_models = forms.MultipleChoiceField(
        label="Mixture-of-experts models", required=False, widget=forms.CheckboxSelectMultiple
    )
    owner = forms.ModelChoiceField(
        User.objects.none(), label="Assigned to", required=False, empty_label="anybody, or nobody"
    )
    least_cost = forms.FloatField(
        label="Cost, at least",
        required=False,
        min_value=0,
        max_value=1e6,
        widget=forms.NumberInput({"step": "any", "placeholder": "0"}),
        help_text="Effect × importance × confidence, by which the inbox is sorted.",
    )
    improvements = forms.BooleanField(label="Improvements too", required=False)

    def __init__(self, data: Any = None, *, route: Route | None = None) -> None:
        initial = None
        if route is not None:
            names = ("kinds", "gpu_models", "moe_models", "owner", "least_cost", "improvements")
            initial = {name: getattr(route, name) for name in names}
        super().__init__(data, initial=initial)
        self.route = route
        self._offer("gpu_models", _gpu_models(), route.gpu_models if route else [])
        self._offer("moe_models", models_known(), route.moe_models if route else [])
        owner = self.fields["owner"]
        assert isinstance(owner, forms.ModelChoiceField)
        mine = Q(pk=route.owner_id) if route and route.owner_id else Q()
        owner.queryset = User.objects.filter(Q(is_active=True) | mine).order_by("username")

    def _offer(self, name: str, known: list[str], chosen: list[str]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(each, each) for each in sorted({*known, *chosen})]

    def clean_least_cost(self) -> float:
        return float(self.cleaned_data["least_cost"] or 0)


def _gpu_models() -> list[str]:
    gpus = Target.objects.filter(kind=Target.Kind.GPU).exclude(model="")
    return list(gpus.values_list("model", flat=True).distinct())
