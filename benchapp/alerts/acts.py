"""What a person can do with one alert on its page: a form for each act, and what to do with what it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from benchapp.alerts import bisecting, confirm, triage
from benchapp.alerts.forms import (
    AssignForm,
    BisectForm,
    CloseForm,
    LinkForm,
    NoteForm,
    ReasonForm,
    SnoozeForm,
    WatchForm,
)
from benchapp.alerts.models import Alert, Bisect
from benchapp.people.models import User


@dataclasses.dataclass(frozen=True, slots=True)
class Act:
    """`do` takes the alert's number, who does it and what the form holds, and returns a sentence of what was
    done. It raises triage's exceptions, and ValueError with a sentence where it cannot be done."""

    form: type[forms.Form]
    do: Callable[[int, User, Any], str]


def _acknowledge(alert_id: int, user: User, form: forms.Form) -> str:
    triage.acknowledge(alert_id, user)
    return f"Alert {alert_id} is acknowledged."


def _investigate(alert_id: int, user: User, form: forms.Form) -> str:
    triage.investigate(alert_id, user)
    return f"Alert {alert_id} is being investigated."


def _close(alert_id: int, user: User, form: CloseForm) -> str:
    state = form.chosen()
    triage.close(alert_id, user, state, form.cleaned_data["reason"])
    return f"Alert {alert_id} is closed as {state.label}."


def _reopen(alert_id: int, user: User, form: ReasonForm) -> str:
    triage.reopen(alert_id, user, form.cleaned_data["reason"])
    return f"Alert {alert_id} is open again."


def _assign(alert_id: int, user: User, form: AssignForm) -> str:
    assignee: User | None = form.cleaned_data["assignee"]
    triage.assign(alert_id, user, assignee)
    return f"Alert {alert_id} is {assignee.get_username() if assignee else 'nobody'}'s."


def _note(alert_id: int, user: User, form: NoteForm) -> str:
    triage.note(alert_id, user, form.cleaned_data["text"])
    return "Noted."


def _link(alert_id: int, user: User, form: LinkForm) -> str:
    url = form.cleaned_data["url"]
    triage.link(alert_id, user, url)
    return "The upstream link is kept." if url else "It has no upstream link."


def _snooze(alert_id: int, user: User, form: SnoozeForm) -> str:
    alert = triage.snooze(alert_id, user, **form.cleaned_data)
    if alert.snoozed_version:
        return (
            f"Alert {alert_id} sleeps until {alert.snoozed_component} {alert.snoozed_version} was measured."
        )
    return f"Alert {alert_id} sleeps until {alert.snoozed_until:%Y-%m-%d %H:%M} UTC."


def _wake(alert_id: int, user: User, form: forms.Form) -> str:
    triage.snooze(alert_id, user)
    return f"Alert {alert_id} is awake."


def _known(alert_id: int, user: User, form: ReasonForm) -> str:
    triage.known_from_here(alert_id, user, form.cleaned_data["reason"])
    return "Its series have a new baseline: the new level is known from here on."


def _watch(alert_id: int, user: User, form: WatchForm) -> str:
    series_id = form.cleaned_data["series"]
    alert = Alert.objects.filter(pk=alert_id, changes__series=series_id).first()
    if alert is None:
        raise ValueError(f"Series {series_id} has no change in alert {alert_id}.")
    triage.set_watch(series_id, user, form.fields_of_watch(), alert_id)
    return "Detection in this series is set, and looks at it again."


def _confirm(alert_id: int, user: User, form: forms.Form) -> str:
    run = confirm.ask_confirm(Alert.objects.get(pk=alert_id), user)
    if run is None:
        why = Alert.objects.values_list("confirm_sentence", flat=True).get(pk=alert_id)
        raise ValueError(f"Nothing can be measured to confirm it. {why}".strip())
    return f"Run {run.pk} measures what decides; its verdict appears here."


def _bisect(alert_id: int, user: User, form: BisectForm) -> str:
    chosen = form.cleaned_data["versions"] or None
    try:
        bisect = bisecting.ask_bisect(Alert.objects.get(pk=alert_id), user, chosen)
    except ValidationError as error:
        raise ValueError(" ".join(error.messages)) from None
    return f"Searching in {len(bisect.versions)} versions of {bisect.component}; its steps appear here."


def _cancel_bisect(alert_id: int, user: User, form: forms.Form) -> str:
    bisect = Bisect.objects.filter(alert=alert_id, state=Bisect.State.RUNNING).first()
    if bisect is None:
        raise ValueError("No bisect was under way any more: nothing was changed.")
    bisecting.cancel_bisect(bisect, user)
    return "The bisect is cancelled."


ACTS: dict[str, Act] = {
    "acknowledge": Act(forms.Form, _acknowledge),
    "investigate": Act(forms.Form, _investigate),
    "close": Act(CloseForm, _close),
    "reopen": Act(ReasonForm, _reopen),
    "assign": Act(AssignForm, _assign),
    "note": Act(NoteForm, _note),
    "link": Act(LinkForm, _link),
    "snooze": Act(SnoozeForm, _snooze),
    "wake": Act(forms.Form, _wake),
    "known": Act(ReasonForm, _known),
    "watch": Act(WatchForm, _watch),
    "confirm": Act(forms.Form, _confirm),
    "bisect": Act(BisectForm, _bisect),
    "cancel-bisect": Act(forms.Form, _cancel_bisect),
}
