from __future__ import annotations

from django import forms
from django.core.exceptions import ValidationError

from benchapp.alerts.notifiers import http
from benchapp.alerts.notifiers.base import Failure, Settings
from benchapp.alerts.notifiers.fields import VariableField, text


class WebhookSettings(Settings):
    url = forms.CharField(
        label="URL",
        max_length=http.MAX_URL,
        widget=text(placeholder="https://hooks.example.org/tilewatch", inputmode="url"),
        help_text="Shown to operators, so it should hold no secret. Private addresses, and http://, only "
        "where TILEWATCH_PRIVATE_WEBHOOKS lists them.",
    )
    secret_variable = VariableField(
        label="Variable with the secret",
        widget=text(placeholder="TILEWATCH_NOTIFY_HOOK_SECRET"),
        help_text="Set for the control worker, and known to the receiver, who checks the signature with it.",
    )

    def clean_url(self) -> str:
        try:
            return http.check_url(self.cleaned_data["url"])
        except Failure as failure:
            raise ValidationError(failure.sentence) from None
