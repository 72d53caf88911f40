"""What people type in, checked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, UsernameField
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError

from benchapp.people import throttle
from benchapp.people.actions import TOKEN_DAYS
from benchapp.people.models import ROLE_ORDER, Role, User


class LoginForm(AuthenticationForm):
    """Name and password, with tries counted. No message tells whether the name exists."""

    error_messages = {"invalid_login": "This name and password do not belong together.", "inactive": ""}

    def clean(self) -> dict[str, Any]:
        name = self.cleaned_data.get("username")
        if self.request is None or name is None or not self.cleaned_data.get("password"):
            return self.cleaned_data
        address = throttle.address_of(self.request)
        try:
            throttle.count_try(name, address)
        except throttle.LockedOutError as locked:
            raise ValidationError(str(locked), code="locked") from locked
        try:
            cleaned = super().clean()
        except ValidationError:
            throttle.note_failure(name, address)
            raise
        throttle.forget_tries(name, address)
        return cleaned


def name_field() -> UsernameField:
    """What a person is called; whether the name is free is for the action to say."""
    return UsernameField(label="Name", max_length=150, validators=[UnicodeUsernameValidator()])


class PasswordForm(forms.Form):
    """A password for `user`, typed twice."""

    password = forms.CharField(strip=False, widget=forms.PasswordInput({"autocomplete": "new-password"}))
    again = forms.CharField(
        label="Password again", strip=False, widget=forms.PasswordInput({"autocomplete": "new-password"})
    )

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self.user = user
        self.fields["password"].help_text = " ".join(password_validators_help_texts())

    def clean(self) -> dict[str, Any]:
        password, again = self.cleaned_data.get("password"), self.cleaned_data.get("again")
        if password and again and password != again:
            self.add_error("again", "The two passwords are not the same.")
        elif password:
            try:
                validate_password(password, self.user)
            except ValidationError as fault:
                self.add_error("password", fault)
        return self.cleaned_data


class FirstAdminForm(PasswordForm):
    """Name and password of the first admin."""

    username = name_field()
    field_order = ["username", "password", "again"]

    def __init__(self, data: Any = None) -> None:
        super().__init__(User(), data)

    def clean(self) -> dict[str, Any]:
        # The password is compared with the name, which this form's user does not have yet.
        self.user.username = self.cleaned_data.get("username", "")
        return super().clean()


class UserForm(forms.Form):
    """A person to be added."""

    username = name_field()
    role = forms.ChoiceField(choices=Role.choices)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class ActiveForm(forms.Form):
    active = forms.TypedChoiceField(
        choices=[("1", "Active"), ("0", "Deactivated")], coerce=lambda v: v == "1"
    )


class TokenForm(forms.Form):
    """A token to be made, with no role above its owner's."""

    name = forms.CharField(max_length=100, help_text="Where it will be used, such as a host or a script.")
    role = forms.ChoiceField()
    days = forms.IntegerField(label="Days until it expires", min_value=1, max_value=TOKEN_DAYS, initial=90)

    def __init__(self, owner: User, data: Any = None) -> None:
        super().__init__(data)
        roles = ROLE_ORDER[: ROLE_ORDER.index(owner.effective_role) + 1]
        role = self.fields["role"]
        assert isinstance(role, forms.ChoiceField)
        role.choices = [(role.value, role.label) for role in roles]


class AuditFilter(forms.Form):
    """The audit page's filter, which is its URL."""

    actor = forms.CharField(required=False, max_length=150)
    action = forms.CharField(required=False, max_length=64, help_text="The beginning is enough: token.")
    before = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)
