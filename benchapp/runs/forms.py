"""Filters of the runs page; why a run counts no more."""

from __future__ import annotations

from django import forms

from benchapp.runs.models import Run, State
from benchapp.web.filters import FilterForm


class RunFilters(FilterForm):
    state = forms.ChoiceField(required=False, label="State", choices=[("", "any"), *State.choices])
    job = forms.IntegerField(
        required=False,
        label="Job",
        min_value=1,
        max_value=2**63 - 1,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "size": 7, "placeholder": "any"}),
    )
    kind = forms.ChoiceField(required=False, label="Kind", choices=[("", "any"), *Run.Kind.choices])


class InvalidForm(forms.Form):
    """Take a run out of ranking. What happened is for whoever meets it later."""

    reason = forms.CharField(
        max_length=500,
        strip=True,
        label="Why",
        error_messages={"required": "A reason is needed: what was wrong with this run?"},
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "the fan had failed"}),
    )
