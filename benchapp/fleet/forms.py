"""Forms of the fleet."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from benchapp.fleet.models import Gpu, Installation
from benchapp.fleet.words import gpu_name, short

#: A longer one is a drain.
LONGEST = dt.timedelta(days=366)


def _times() -> forms.DateTimeInput:
    return forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class MaintenanceForm(forms.Form):
    """What takes no new runs, from when to when. Without an end it is a drain."""

    what = forms.ChoiceField(label="GPU or host")
    reason = forms.CharField(max_length=300, help_text="Shown to whoever waits for it.")
    starts_at = forms.DateTimeField(
        label="From (UTC)", required=False, widget=_times(), help_text="Empty: from now on."
    )
    ends_at = forms.DateTimeField(
        label="To (UTC)", required=False, widget=_times(), help_text="Empty: until somebody ends it."
    )

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)
        hosts = list(Installation.objects.order_by("host").values_list("host", flat=True).distinct())
        gpus: dict[str, list[tuple[str, str]]] = {
            host: [(f"host:{host}", f"all of {host}")] for host in hosts
        }
        for gpu in Gpu.objects.select_related("installation").order_by("installation__host", "index"):
            host = gpu.installation.host
            label = f"{gpu_name(gpu.index, host)}, {gpu.model}, {short(gpu.uuid)}"
            if (f"gpu:{gpu.uuid}", label) not in gpus[host]:
                gpus[host].append((f"gpu:{gpu.uuid}", label))
        what = self.fields["what"]
        assert isinstance(what, forms.ChoiceField)
        what.choices = [("", "Choose one"), *((host, choices) for host, choices in gpus.items())]
        what.error_messages["invalid_choice"] = "No GPU or host of this name is known here."

    def clean(self) -> dict[str, Any]:
        starts, ends = self.cleaned_data.get("starts_at"), self.cleaned_data.get("ends_at")
        if ends is None:
            return self.cleaned_data
        now = timezone.now()
        if ends <= now:
            self.add_error("ends_at", ValidationError("This is past; expected a time to come."))
        elif starts is not None and ends <= starts:
            self.add_error("ends_at", ValidationError("It would end before it begins."))
        elif ends - (starts or now) > LONGEST:
            self.add_error("ends_at", ValidationError("Longer than a year; leave it empty to drain it."))
        return self.cleaned_data

    @property
    def place(self) -> dict[str, str]:
        """{"gpu": uuid} or {"host": name}, of a valid form."""
        kind, _, name = self.cleaned_data["what"].partition(":")
        return {kind: name}
