"""One form holds all filters of a page, and the page's URL holds the form."""

from __future__ import annotations

from typing import Any, Self
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict


class FilterForm(forms.Form):
    """A GET form whose state is the query string.

    Subclasses declare fields with `required=False` and, where a page opens on something, `initial`.
    `read` never fails: a value that cannot be used is dropped for the field's initial value and named
    in `faults`. Empty values mean the initial value; parameters that no field knows are ignored.
    """

    #: One sentence for each value that could not be used.
    faults: list[str]
    #: Every field's value, after falling back.
    values: dict[str, Any]

    @classmethod
    def read(cls, query: QueryDict, **options: Any) -> Self:
        """The form of a request's `GET`; `options` go to `__init__`, e.g. choices known to the view."""
        form = cls(query, **options)
        form.full_clean()
        form.faults = [
            f"{form.fields[name].label or name}: “{_shown(query.get(name, ''))}” cannot be used; "
            "showing the default."
            for name in form.errors
            if name in form.fields
        ]
        form.values = {name: form._value(name) for name in form.fields}
        settled = QueryDict(mutable=True)
        for name, value in form._parameters().items():
            settled.setlist(name, value)
        for name, field in form.fields.items():
            initial = form.get_initial_for_field(field, name)
            if name not in settled and initial is not None:
                settled.setlist(name, _strings(initial))
            if isinstance(initial, str | int):
                field.widget.attrs["data-initial"] = str(initial)  # frame.js keeps it out of the address
        form.data = settled
        return form

    def _value(self, name: str) -> Any:
        value = self.cleaned_data.get(name)
        if value in (None, "", [], ()) or (value is False and name not in self.data):
            return self.get_initial_for_field(self.fields[name], name)
        return value

    def _parameters(self) -> dict[str, list[str]]:
        """Parameters of every value that is not the field's initial one, by field in order of declaration."""
        parameters = {}
        for name, field in self.fields.items():
            value = self.values[name]
            if value in (None, "", [], (), False) or value == self.get_initial_for_field(field, name):
                continue
            parameters[name] = _strings(value)
        return parameters

    def querystring(self, **changes: Any) -> str:
        """The canonical query string, with its `?`: same state, same string; "" when all is initial.

        `changes` replace values, e.g. `querystring(page=2)`; None drops one. Names that are no field are
        written last.
        """
        parameters = self._parameters()
        for name, value in changes.items():
            parameters.pop(name, None)
            if value is not None:
                parameters[name] = (
                    [str(v) for v in value] if isinstance(value, list | tuple) else [str(value)]
                )
        ordered = {name: parameters.pop(name) for name in self.fields if name in parameters} | parameters
        return f"?{urlencode(ordered, doseq=True)}" if ordered else ""


def _strings(value: Any) -> list[str]:
    if value is True:
        return ["on"]  # as a browser sends a checkbox
    return [str(v) for v in value] if isinstance(value, list | tuple) else [str(value)]


def _shown(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:40]}…"
