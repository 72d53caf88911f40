from __future__ import annotations

from django import forms

from benchapp.alerts.notifiers.base import Settings
from benchapp.alerts.notifiers.fields import VariableField, text


class SlackSettings(Settings):
    url_variable = VariableField(
        label="Variable with the webhook's URL",
        widget=text(placeholder="TILEWATCH_NOTIFY_SLACK_URL"),
        help_text="Set for the control worker. Whoever knows the URL can post, so the URL itself is never "
        "stored here.",
    )
    updates = forms.BooleanField(
        label="Updates too",
        required=False,
        help_text="Incoming webhooks cannot answer in a thread, so each would be a message of its own. "
        "Without it: one message when an alert opens, one when it is closed.",
    )
