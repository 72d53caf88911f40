"""The forms of a schedule and of a backfill."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from benchapp.fleet import asks, backfill
from benchapp.fleet.asks import Ask
from benchapp.fleet.models import Schedule
from benchapp.fleet.schedule_times import BadTimes, times_of
from benchapp.runs.requests import clean_version

UNITS = {"60": "minutes", "3600": "hours", "86400": "days", "604800": "weeks"}
#: Longest link of the trigger page that is read.
LONGEST_LINK = 8000


def link_of(ask: Ask) -> str:
    """The trigger page filled with it."""
    return f"{reverse('fleet:trigger')}?{ask.query()}"


class AskField(forms.CharField):
    """What is asked for, as a link of the trigger page; cleaned into an Ask."""

    def __init__(self, **options: Any) -> None:
        attrs = {"spellcheck": "false", "autocomplete": "off", "rows": "3"}
        super().__init__(max_length=LONGEST_LINK, widget=forms.Textarea(attrs), **options)

    def clean(self, value: Any) -> Ask:
        text = str(super().clean(value))
        query = urlsplit(text).query if "?" in text else text
        try:
            return asks.clean(asks.from_query(QueryDict(query)))
        except ValidationError as error:
            raise ValidationError(error.messages) from None


class ScheduleForm(forms.Form):
    """What to ask for, when, and what becomes of times that pass unused. `schedule` is the one edited."""

    name = forms.CharField(max_length=100, help_text="As events and pages call it: nightly GEMM.")
    ask = AskField(
        label="What it asks for",
        help_text="A link of the trigger page: fill that page, and copy its address here. "
        "“newest” is whatever release is newest each time.",
    )
    cron = forms.CharField(
        label="Times, as a cron expression",
        required=False,
        max_length=100,
        help_text="Minute, hour, day of month, month, day of week: 0 3 * * * is every night at three.",
        widget=forms.TextInput({"placeholder": "0 3 * * *", "autocomplete": "off", "spellcheck": "false"}),
    )
    every = forms.IntegerField(label="Or an interval: every", required=False, min_value=1, max_value=600_000)
    unit = forms.ChoiceField(label="Unit of the interval", choices=list(UNITS.items()), initial="3600")
    timezone = forms.CharField(
        label="Time zone",
        max_length=60,
        initial="UTC",
        help_text="Of the cron expression: UTC, Europe/Berlin.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    missed = forms.ChoiceField(
        label="A time missed while Tilewatch was down",
        choices=Schedule.Missed.choices,
        initial=Schedule.Missed.RUN,
    )
    skip_if_running = forms.BooleanField(
        label="Skip a time while the one before still runs", required=False, initial=True
    )

    def __init__(
        self, data: Any = None, *, schedule: Schedule | None = None, initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        self.schedule = schedule

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleForm:
        """The form that a schedule would have come from."""
        seconds = schedule.interval_s
        unit = max((size for size in map(int, UNITS) if seconds and seconds % size == 0), default=3600)
        try:
            link = link_of(Ask.from_json(schedule.ask))
        except ValidationError:
            link = ""
        return cls(
            schedule=schedule,
            initial={
                "name": schedule.name,
                "ask": link,
                "cron": schedule.cron,
                "every": seconds and seconds // unit,
                "unit": str(unit),
                "timezone": schedule.timezone,
                "missed": schedule.missed,
                "skip_if_running": schedule.skip_if_running,
            },
        )

    def asks_for(self) -> str:
        """What the link asks for, in words; "" while it cannot be read."""
        try:
            return str(AskField().clean(self["ask"].value() or ""))
        except ValidationError:
            return ""

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        others = Schedule.objects.exclude(pk=self.schedule.pk) if self.schedule else Schedule.objects.all()
        if others.filter(name=name).exists():
            raise ValidationError(f"There is a schedule called {name} already.")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if self.errors.keys() & {"cron", "every", "unit", "timezone"}:
            return cleaned
        every = cleaned["every"]
        cleaned["interval_s"] = None if every is None else every * int(cleaned["unit"])
        cleaned["cron"] = " ".join(cleaned["cron"].split())
        try:
            times_of(cleaned["cron"], cleaned["interval_s"], cleaned["timezone"], timezone.now())
        except BadTimes as error:
            sentence = error.sentence[:1].upper() + error.sentence[1:]
            self.add_error({"interval_s": "every"}.get(error.field, error.field), sentence)
        return cleaned

    def fields_of_schedule(self) -> dict[str, Any]:
        """What `schedules.add` and `edit` take, of a valid form."""
        names = ("name", "cron", "interval_s", "timezone", "missed", "skip_if_running")
        ask: Ask = self.cleaned_data["ask"]
        return {name: self.cleaned_data[name] for name in names} | {"ask": ask.as_json()}


class BackfillForm(forms.Form):
    """What an ask has no data of yet."""

    ask = AskField(
        label="Of this work",
        help_text="A link of the trigger page: a survey, or a suite of GEMMs or of models.",
    )
    since = forms.CharField(
        label="For every release since",
        required=False,
        max_length=40,
        help_text="A version, such as 0.6.0. Empty: the versions that the link names.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )

    def clean_since(self) -> str:
        text = str(self.cleaned_data["since"])
        return clean_version(text) if text else ""

    def wanted(self) -> Ask:
        """The ask of a valid form. Raises ValidationError."""
        ask: Ask = self.cleaned_data["ask"]
        since = self.cleaned_data["since"]
        return backfill.since(ask, since) if since else ask


class GapsForm(forms.Form):
    """The due times of a schedule in a window, that have no data."""

    schedule = forms.ModelChoiceField(Schedule.objects.all(), label="Of this schedule")
    start = forms.DateField(label="From (UTC)", widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))
    end = forms.DateField(label="To, with that day", widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))

    def window(self) -> tuple[dt.datetime, dt.datetime]:
        """Of a valid form: from the first day's beginning to the last day's end."""
        first, last = (
            dt.datetime.combine(self.cleaned_data[name], dt.time(), dt.UTC) for name in ("start", "end")
        )
        return first, last + dt.timedelta(days=1, microseconds=-1)
