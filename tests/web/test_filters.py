from django import forms
from django.http import QueryDict

from benchapp.web.filters import FilterForm


class Example(FilterForm):
    state = forms.ChoiceField(
        required=False, label="State", choices=[("", "any"), ("done", "done"), ("failed", "failed")]
    )
    arch = forms.ChoiceField(
        required=False, label="Arch", choices=[("sm120", "SM120"), ("sm90", "SM90")], initial="sm120"
    )
    m = forms.TypedMultipleChoiceField(
        required=False, label="M", coerce=int, choices=[(1, "1"), (16, "16")], initial=[1]
    )
    changes = forms.BooleanField(required=False, label="Only changes")


def read(query: str) -> Example:
    return Example.read(QueryDict(query))


def test_nothing_given_is_the_initial_state_and_an_empty_query():
    form = read("")
    assert form.values["arch"] == "sm120"
    assert form.values["m"] == [1]
    assert not form.values["state"] and not form.values["changes"]
    assert form.querystring() == ""
    assert form.faults == []


def test_the_same_state_always_writes_the_same_query():
    one = read("m=16&m=1&changes=on&state=done&arch=sm120&stranger=1")
    two = read("arch=&state=done&changes=1&m=16&m=1")
    assert one.querystring() == two.querystring() == "?state=done&m=16&m=1&changes=on"
    assert read(one.querystring()[1:]).values == one.values


def test_a_value_that_cannot_be_used_says_so_and_falls_back():
    form = read("state=exploded&arch=sm90")
    assert form.values["arch"] == "sm90"
    assert not form.values["state"]
    assert form.faults == ["State: “exploded” cannot be used; showing the default."]
    assert form.querystring() == "?arch=sm90"
    assert 'value="sm90" selected' in str(form["arch"])


def test_a_fallback_shows_in_the_form():
    form = read("arch=sm999")
    assert form.values["arch"] == "sm120"
    assert 'value="sm120" selected' in str(form["arch"])


def test_huge_and_hostile_values_stay_short_and_escaped():
    form = read("state=" + "%3Cscript%3E" * 1000)
    assert len(form.faults[0]) < 120


def test_changes_replace_drop_and_add():
    form = read("state=done&arch=sm90")
    assert form.querystring(page=2) == "?state=done&arch=sm90&page=2"
    assert form.querystring(state=None) == "?arch=sm90"
    assert form.querystring(state="failed") == "?state=failed&arch=sm90"
