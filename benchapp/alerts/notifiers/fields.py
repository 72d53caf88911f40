"""Fields that forms of several notifiers have."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from benchapp.alerts.notifiers.base import SECRET_VARIABLE


def text(**attrs: str) -> forms.TextInput:
    return forms.TextInput({"autocomplete": "off", "spellcheck": "false", **attrs})


class VariableField(forms.CharField):
    """The name of a variable with a secret; what is typed in is never said again, it may be the secret."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=80, **options)

    def clean(self, value: Any) -> str:
        name = str(super().clean(value))
        if name and SECRET_VARIABLE.fullmatch(name) is None:
            raise ValidationError(
                "Expected the name of a variable: TILEWATCH_NOTIFY_, then capitals, digits and _."
            )
        return name
