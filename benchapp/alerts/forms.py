"""The filters of the inbox, and what people type in to triage."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.utils import timezone

from benchapp.alerts.life import CLOSED
from benchapp.alerts.models import Alert, Watch
from benchapp.catalog.versions import PATTERN
from benchapp.people.models import User
from benchapp.web.filters import FilterForm

#: Alerts that one bulk action takes.
MOST_AT_ONCE = 200
STATES = [
    ("open", "open"),
    ("new", "new"),
    ("acknowledged", "acknowledged"),
    ("investigating", "investigating"),
    ("snoozed", "snoozed"),
    ("closed", "closed"),
    ("all", "all"),
]
SURE = [
    ("", "any"),
    ("confirmed", "confirmed by A/B"),
    ("certain", "certain by its series"),
    ("uncertain", "not decided yet"),
    ("refuted", "refuted"),
]
ME, NOBODY = "me", "nobody"
REASON = {"required": "A reason is needed: whoever meets this alert later wants to know."}


class AlertFilters(FilterForm):
    """`gpus`, `hosts` and `people` are what alerts are about and whose they are."""

    state = forms.ChoiceField(label="State", required=False, choices=STATES, initial="open")
    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "any"), *Alert.Kind.choices])
    gpu = forms.ChoiceField(label="GPU", required=False)
    host = forms.ChoiceField(label="Host", required=False)
    version = forms.RegexField(
        r"\A[\w.+!-]{1,60}( [\w.+!-]{1,60})?\Z",
        label="Version",
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "flashinfer 0.6.9", "size": 15, "autocomplete": "off"}),
    )
    who = forms.ChoiceField(label="Assignee", required=False)
    way = forms.ChoiceField(
        label="Way", required=False, choices=[("", "both"), ("worse", "worse"), ("better", "better")]
    )
    sure = forms.ChoiceField(label="How sure", required=False, choices=SURE)
    recorded = forms.ChoiceField(
        label="Recorded", required=False, choices=[("", "with"), ("no", "without"), ("yes", "only")]
    )
    q = forms.CharField(
        label="Text",
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"placeholder": "case, words", "size": 12, "autocomplete": "off"}),
    )

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        gpus: Sequence[str],
        hosts: Sequence[str],
        people: Sequence[str],
        signed_in: bool,
    ) -> None:
        super().__init__(data)
        first = [("", "anybody"), *([(ME, "me")] if signed_in else []), (NOBODY, "nobody")]
        self._offer("gpu", [("", "any"), *((name, name) for name in gpus)])
        self._offer("host", [("", "any"), *((name, name) for name in hosts)])
        # a person called "me" is reached by no filter; their alerts still stand in the list
        self._offer("who", first + [(name, name) for name in people if name not in (ME, NOBODY)])

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    @property
    def useful_fields(self) -> list[forms.BoundField]:
        """The fields that offer a choice."""
        return [
            field
            for field in self.visible_fields()
            if not isinstance(field.field, forms.ChoiceField) or len(field.field.widget.choices) > 1
        ]


def active_people() -> forms.ModelChoiceField[User]:
    field = forms.ModelChoiceField(
        User.objects.filter(is_active=True).order_by("username"),
        required=False,
        empty_label="nobody",
        to_field_name="username",
        label="Assignee",
    )
    field.error_messages["invalid_choice"] = "There is nobody active here of that name."
    return field


class BulkForm(forms.Form):
    """What to do with the alerts that were ticked."""

    ACTS = [
        ("acknowledge", "acknowledge"),
        ("investigate", "investigating"),
        *((str(state), f"close as {state.label}") for state in CLOSED),
        ("assign", "assign to"),
        ("reopen", "open again"),
    ]

    act = forms.ChoiceField(choices=ACTS, label="Do")
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Reason",
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "why, where it is closed"}),
    )
    assignee = active_people()
    alert = forms.Field(required=False)

    def clean_alert(self) -> list[int]:
        chosen = self.data.getlist("alert") if hasattr(self.data, "getlist") else []
        if not chosen:
            raise ValidationError("No alert was ticked: nothing was done.")
        if len(chosen) > MOST_AT_ONCE:
            raise ValidationError(f"At most {MOST_AT_ONCE} alerts at once: nothing was done.")
        if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in chosen):
            raise ValidationError("Alerts are chosen by their numbers: nothing was done.")
        return [int(each) for each in chosen]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("act") in {str(state) for state in CLOSED} and not cleaned.get("reason"):
            self.add_error("reason", REASON["required"])
        return cleaned


class ReasonForm(forms.Form):
    """Why it is opened again, or known: may be left empty."""

    reason = forms.CharField(
        required=False, max_length=500, label="Why", widget=forms.TextInput(attrs={"autocomplete": "off"})
    )


class CloseForm(forms.Form):
    state = forms.ChoiceField(
        label="Close as", choices=[(str(state), state.label) for state in CLOSED], initial="fixed"
    )
    reason = forms.CharField(
        max_length=500,
        label="Why",
        error_messages=REASON,
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "fixed in 0.6.10 by #1234"}),
    )

    def chosen(self) -> Alert.State:
        return Alert.State(self.cleaned_data["state"])


class NoteForm(forms.Form):
    text = forms.CharField(
        max_length=4000,
        label="Note",
        error_messages={"required": "An empty note says nothing."},
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class AssignForm(forms.Form):
    assignee = active_people()


class LinkForm(forms.Form):
    url = forms.CharField(
        required=False,
        max_length=300,
        label="Upstream link",
        validators=[URLValidator(schemes=["http", "https"], message="Expected an http or https address.")],
        widget=forms.URLInput(attrs={"placeholder": "https://github.com/…/issues/…", "autocomplete": "off"}),
    )


class SnoozeForm(forms.Form):
    """Until a time, or until a version of a component was measured: one of the two."""

    until = forms.DateTimeField(
        required=False,
        label="Until (UTC)",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
        error_messages={"invalid": "Expected a day and time, such as 2026-12-24 09:00."},
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    component = forms.RegexField(
        r"\A[\w.+-]{1,40}\Z",
        required=False,
        label="or until, of",
        error_messages={"invalid": "Expected the name of a component, such as flashinfer."},
        widget=forms.TextInput(attrs={"placeholder": "flashinfer", "size": 12, "autocomplete": "off"}),
    )
    version = forms.RegexField(
        rf"\A{PATTERN}\Z",
        required=False,
        label="version",
        error_messages={"invalid": "Expected a version, such as 0.6.10."},
        widget=forms.TextInput(attrs={"placeholder": "0.6.10", "size": 10, "autocomplete": "off"}),
    )

    def clean_until(self) -> dt.datetime | None:
        until: dt.datetime | None = self.cleaned_data["until"]
        if until is not None and until <= timezone.now():
            raise ValidationError("This time has passed.")
        return until

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        until, component, version = (cleaned[name] for name in ("until", "component", "version"))
        if version and not component:
            self.add_error("component", "A version is of a component: name it, such as flashinfer.")
        elif (until is None) == (not version):
            self.add_error("until", "Choose a time, or a component's version: one of the two.")
        # the page proposes a component; with a time it says nothing
        return cleaned if version else cleaned | {"component": ""}


class WatchForm(forms.Form):
    """What a person sets of the detection in one series; empty is as usual. Effect and spread in percent."""

    series = forms.IntegerField(widget=forms.HiddenInput, min_value=1, max_value=2**63 - 1)
    least_effect = forms.FloatField(
        required=False, label="Least effect, %", min_value=0.1, max_value=1000, widget=forms.NumberInput
    )
    set_spread = forms.FloatField(
        required=False, label="Run-to-run spread, %", min_value=0.01, max_value=1000, widget=forms.NumberInput
    )
    minimum_history = forms.IntegerField(
        required=False, label="Minimum history, points", min_value=2, max_value=400
    )
    muted = forms.BooleanField(required=False, label="Muted: open no alerts")

    @classmethod
    def of(cls, series_id: int, watch: Watch | None) -> WatchForm:
        shown: dict[str, Any] = {"series": series_id}
        if watch is not None:
            shown |= {"minimum_history": watch.minimum_history, "muted": watch.muted}
            for name in ("least_effect", "set_spread"):
                value = getattr(watch, name)
                shown[name] = None if value is None else round(value * 100, 6)
        return cls(initial=shown)

    def fields_of_watch(self) -> dict[str, Any]:
        """For `triage.set_watch`: fractions in place of percentages."""
        found = {name: self.cleaned_data[name] for name in ("minimum_history", "muted")}
        for name in ("least_effect", "set_spread"):
            value = self.cleaned_data[name]
            found[name] = None if value is None else value / 100
        return found


class BisectForm(forms.Form):
    """Versions to search in; empty for all known releases between both sides."""

    versions = forms.CharField(
        required=False,
        max_length=2000,
        label="Versions (empty: every release between)",
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "0.6.3 0.6.4 0.6.9"}),
    )

    def clean_versions(self) -> list[str]:
        named = self.cleaned_data["versions"].replace(",", " ").split()
        if not all(re.fullmatch(PATTERN, each) for each in named):
            raise ValidationError("Expected versions such as 0.6.3 0.6.4.")
        return list(dict.fromkeys(named))
