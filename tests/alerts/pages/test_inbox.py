"""The inbox: its order, filters, bulk actions, and what it says where there is nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from benchapp.alerts import narrowing
from benchapp.alerts.models import Alert, Watch
from benchapp.alerts.routing import is_told
from tests.alerts.pages import made
from tests.querycount import at_most

pytestmark = pytest.mark.django_db
Kind = Alert.Kind
PAGE = "/alerts/"


def text(response):
    assert response.status_code == 200
    return " ".join(response.content.decode().replace("\u00a0", " ").split())


def titles(client, query=""):
    return [row.alert.title for row in client.get(PAGE + query).context["rows"]]


@pytest.fixture
def several(ann):
    """One of each sort, by its title."""
    stack = made.alert(made.moved(16), title="stack")
    made.alert(kind=Kind.COVERAGE, title="coverage", importance=0.1, host=made.host("other"))
    made.alert(kind=Kind.MACHINE, title="better", ratio=0.5, worse=False, certain=False)
    made.alert(kind=Kind.DRIFT, title="recorded", recorded=True)
    asleep = made.alert(kind=Kind.BUILD, title="asleep", ratio=2.0)
    Alert.objects.filter(pk=asleep.pk).update(snoozed_until=timezone.now() + dt.timedelta(hours=1))
    closed = made.alert(kind=Kind.SCHEDULE, title="closed")
    Alert.objects.filter(pk=closed.pk).update(state="fixed", closed_at=timezone.now(), verdict="SAME")
    Alert.objects.filter(pk=stack.pk).update(assignee=ann, verdict="SLOW")
    return stack


FOUND = [
    ("", ["recorded", "stack", "coverage", "better"]),
    ("?state=snoozed", ["asleep"]),
    ("?state=closed", ["closed"]),
    ("?state=all&kind=build", ["asleep"]),
    ("?state=investigating", []),
    ("?gpu=NVIDIA+H200", ["stack"]),
    ("?host=box", ["stack"]),
    ("?host=other", ["coverage"]),
    ("?version=torch", ["stack"]),
    ("?version=2.11.0", ["stack"]),
    ("?version=torch+2.10.0", ["stack"]),
    ("?version=torch+9", []),
    ("?who=me", ["stack"]),
    ("?who=ann", ["stack"]),
    ("?who=nobody", ["recorded", "coverage", "better"]),
    ("?way=better", ["better"]),
    ("?sure=confirmed", ["stack"]),
    ("?sure=certain", ["recorded", "coverage"]),
    ("?sure=uncertain", ["better"]),
    ("?sure=refuted&state=all", ["closed"]),
    ("?recorded=no", ["stack", "coverage", "better"]),
    ("?recorded=yes", ["recorded"]),
    ("?q=7168", ["stack"]),
    ("?q=COVER", ["coverage"]),
]


def test_filters(operator, several):
    for query, found in FOUND:
        assert titles(operator, query) == found, query


def test_who_is_told_is_the_same_for_pages_and_notifiers(operator, several):
    for n, alert in enumerate(Alert.objects.all()):
        Alert.objects.filter(pk=alert.pk).update(snoozed_version="2.12" if n == 0 else alert.snoozed_version)
    told = set(Alert.objects.filter(narrowing.told()))
    assert told == {alert for alert in Alert.objects.all() if is_told(alert)} and told


def test_what_cannot_be_asked_for_is_named_and_the_default_shown(operator, several):
    page = operator.get(PAGE + "?kind=nonsense&version=a+b+c&page=99&q=%00")
    assert len(page.context["filters"].faults) == 3
    assert len(page.context["rows"]) == 4


def test_the_first_words_tell_who_is_told_and_the_rest_apart(operator, several):
    page = text(operator.get(PAGE))
    assert "2 alerts want a look." in page
    assert "told to nobody: 1 undecided, 1 recorded elsewhere, 1 snoozed." in page


def test_a_row_shows_both_levels_versions_suspects_and_how_sure(operator, several):
    page = text(operator.get(PAGE + "?q=stack"))
    for said in (
        "10.0 µs → <b>12.0 µs</b>", "GPU time, 6 + 6 runs", "1.200×", "1.188× to 1.212×",
        "torch 2.10.0 → 2.11.0", "torch 90 %", "▲ SLOW", "NVIDIA H200, box", '<svg class="sparkline worse"',
    ):  # fmt: skip
        assert said in page, said


def test_hostile_and_absurd_alerts_are_text(operator, ann):
    change = made.moved()
    absurd = made.change(
        change.series, 1e-300, 1e300, ratio=float("inf"), low=0.0, high=float("nan"),
        at=made.AT + dt.timedelta(hours=1),
    )  # fmt: skip
    made.alert(
        absurd, title="<script>alert(1)</script>", sentence="<img src=x>", suspects=[{"component": "<b>"}, 3]
    )
    page = text(operator.get(PAGE))
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page and "&lt;b&gt;" in page
    assert "1.0e-300 s → <b>1.0e+300 s</b>" in page
    assert operator.get(f"{PAGE}{Alert.objects.get().pk}/").status_code == 200


def test_an_empty_inbox_says_what_detection_looks_at_and_what_failed(client):
    assert "No series is watched yet" in text(client.get(PAGE))
    change = made.moved()
    Watch.objects.update_or_create(
        series=change.series,
        defaults={"failure": "ValueError", "looked_at": timezone.now(), "lag_s": 12.0, "due_at": None},
    )
    page = text(client.get(PAGE))
    assert "No alert is open." in page and "never hidden" in page
    assert "▲ 1 series could not be looked at" in page and "ValueError" in page
    assert "on average 12 s after" in page
    assert "No alert is as these filters ask" in text(client.get(PAGE + "?state=all"))


def test_queries_and_pages_do_not_grow_with_alerts(operator, several):
    with at_most(22):
        operator.get(PAGE)
    fields = [field.name for field in Alert._meta.concrete_fields if field.name not in ("id", "key")]
    one = Alert.objects.get(title="stack")
    Alert.objects.bulk_create(
        Alert(key=f"many {n}", **{name: getattr(one, name) for name in fields}) for n in range(5000)
    )
    with at_most(22):
        page = operator.get(PAGE + "?page=3")
    assert len(page.context["rows"]) == 25
    assert "Page 3 of 201" in text(page)
    assert page.context["following"] == "?page=4"


def bulk(client, *alerts, **fields):
    chosen = {"alert": [each.pk for each in alerts], "next": "?way=worse"}
    return client.post("/alerts/bulk", chosen | fields, follow=True)


def test_bulk_does_what_it_can_and_names_the_rest(operator, ann):
    open_, closed = made.alert(kind=Kind.COVERAGE), made.alert(kind=Kind.DRIFT)
    Alert.objects.filter(pk=closed.pk).update(state="fixed", closed_at=timezone.now())
    page = bulk(operator, open_, closed, act="wont_fix", reason="known")
    assert page.redirect_chain == [("/alerts/?way=worse", 302)]
    said = [str(message) for message in page.context["messages"]]
    assert said[0] == f"1 alert: close as won't fix ({open_.pk})."
    assert f"Alert {closed.pk} is fixed: nothing was changed." in said
    assert Alert.objects.get(pk=open_.pk).state == "wont_fix"


def test_bulk_assigns_and_opens_again(operator, ann):
    both = [made.alert(kind=kind) for kind in (Kind.COVERAGE, Kind.DRIFT)]
    bulk(operator, *both, act="assign", assignee="ann")
    assert set(Alert.objects.values_list("assignee__username", flat=True)) == {"ann"}
    bulk(operator, *both, act="fixed", reason="x")
    bulk(operator, *both, act="reopen")
    assert set(Alert.objects.values_list("state", flat=True)) == {"new"}


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    ({"act": "fixed"}, "A reason is needed"),
    ({"act": "explode"}, "explode is not one of the available choices"),
    ({"act": "assign", "assignee": "stranger"}, "nobody active here of that name"),
    ({"act": "acknowledge", "alert": []}, "No alert was ticked"),
    ({"act": "acknowledge", "alert": ["1; DROP"]}, "by their numbers"),
    ({"act": "acknowledge", "alert": [str(n) for n in range(201)]}, "At most 200"),
]


def test_bulk_refuses_what_it_cannot_read(operator):
    alert = made.alert(kind=Kind.COVERAGE)
    for fields, said in UNREADABLE:
        page = bulk(operator, alert, **fields)
        assert any(said in str(message) for message in page.context["messages"]), said
    assert Alert.objects.get(pk=alert.pk).state == "new"


def test_bulk_leads_back_to_the_inbox_and_nowhere_else(operator):
    made.alert(kind=Kind.COVERAGE)
    page = operator.post("/alerts/bulk", {"act": "x", "next": "//elsewhere.example/"})
    assert page["Location"] == "/alerts/"


def test_viewers_read_and_act_on_nothing(viewer):
    alert = made.alert(kind=Kind.COVERAGE)
    page = text(viewer.get(PAGE))
    assert 'name="alert"' not in page and 'id="bulk"' not in page
    assert viewer.post("/alerts/bulk", {"act": "acknowledge", "alert": alert.pk}).status_code == 403
    assert viewer.post(f"/alerts/{alert.pk}/acknowledge").status_code == 403
    assert Alert.objects.get(pk=alert.pk).state == "new"
