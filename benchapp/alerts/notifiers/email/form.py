from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from benchapp.alerts.notifiers.addresses import check_literal
from benchapp.alerts.notifiers.base import Failure, Settings
from benchapp.alerts.notifiers.fields import VariableField, text

MAX_RECIPIENTS = 20
STARTTLS, TLS, PLAIN = "starttls", "tls", "none"
SECURITIES = [(STARTTLS, "STARTTLS"), (TLS, "TLS from the start"), (PLAIN, "none, to a listed relay")]


def _address(value: str) -> str:
    try:
        validate_email(value)
        if not value.isascii() or len(value) > 254:
            raise ValidationError("")
    except ValidationError:
        raise ValidationError(
            f"{value[:60]!r}: expected an address such as gpu-alerts@example.org."
        ) from None
    return value


class EmailSettings(Settings):
    host = forms.CharField(
        label="SMTP server",
        max_length=253,
        widget=text(placeholder="smtp.example.org"),
        help_text="A relay on a private address must be listed in TILEWATCH_PRIVATE_WEBHOOKS.",
    )
    port = forms.IntegerField(min_value=1, max_value=65_535, initial=587)
    security = forms.ChoiceField(label="Encryption", choices=SECURITIES, initial=STARTTLS)
    sender = forms.CharField(
        label="From", max_length=254, widget=text(placeholder="tilewatch@example.org", inputmode="email")
    )
    recipients = forms.CharField(
        label="To",
        max_length=6000,
        widget=forms.Textarea({"rows": "2", "spellcheck": "false", "placeholder": "gpu-alerts@example.org"}),
        help_text=f"Up to {MAX_RECIPIENTS} addresses, with commas or line breaks between them.",
    )
    user = forms.CharField(label="User name", max_length=254, required=False, widget=text())
    password_variable = VariableField(
        label="Variable with the password",
        required=False,
        widget=text(placeholder="TILEWATCH_NOTIFY_SMTP_PASSWORD"),
        help_text="Set for the control worker; never the password itself.",
    )

    def clean_sender(self) -> str:
        return _address(self.cleaned_data["sender"])

    def clean_recipients(self) -> list[str]:
        words = [word for word in re.split(r"[,;\s]+", self.cleaned_data["recipients"]) if word]
        addresses = list(dict.fromkeys(map(_address, words)))
        if not 1 <= len(addresses) <= MAX_RECIPIENTS:
            raise ValidationError(f"{len(addresses)} addresses: expected 1 to {MAX_RECIPIENTS}.")
        return addresses

    def clean(self) -> dict[str, Any]:
        said = self.cleaned_data
        if said.get("host") and said.get("port"):
            try:
                check_literal(said["host"], said["port"])
            except Failure as failure:
                self.add_error("host", failure.sentence)
        if bool(said.get("user")) != bool(said.get("password_variable")) and "password_variable" in said:
            self.add_error("user", "Expected a user name and a password's variable, or neither.")
        if said.get("user") and said.get("security") == PLAIN:
            self.add_error("security", "A password is sent over TLS only.")
        return said
