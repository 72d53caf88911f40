"""Filters of the runs page."""

from __future__ import annotations

from django import forms

from benchapp.runs.models import Run, State
from benchapp.web.filters import FilterForm


class RunFilters(FilterForm):
    state = forms.ChoiceField(required=False, label="State", choices=[("", "any"), *State.choices])
    kind = forms.ChoiceField(required=False, label="Kind", choices=[("", "any"), *Run.Kind.choices])
