"""The page of one alert: what it shows, and every form on it."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json

import pytest
from django.utils import timezone

from benchapp.alerts.models import Alert, Bisect, BisectStep, Watch
from tests.alerts.pages import made
from tests.querycount import at_most
from tests.runs_pages.work import gemm_done

pytestmark = pytest.mark.django_db
Kind = Alert.Kind


def text(response, status=200):
    assert response.status_code == status
    return " ".join(response.content.decode().replace("\u00a0", " ").split())


def of(alert):
    return f"/alerts/{alert.pk}/"


@pytest.fixture
def alert(db):
    change = made.moved(16)
    alert = made.alert(change, title="slower", sentence="One GPU time is slower.", evidence={"moved": 1})
    made.compared(alert, change)
    made.compared(alert, change, "SAME", metric="host_time", ratio=1.0, low=0.99, high=1.01, in_cycles=True)
    bisect = Bisect.objects.create(
        alert=alert, series=change.series, component="torch", versions=["2.10.0", "2.10.1", "2.11.0"],
        state="found", first_bad="2.10.1", sentence="torch 2.10.1 is the first with it.",
    )  # fmt: skip
    BisectStep.objects.create(
        bisect=bisect, number=1, old_version="2.10.0", new_version="2.10.1", verdict="SLOW",
        comparison=made.compared(None, change),
    )  # fmt: skip
    return alert


def test_it_shows_what_moved_and_what_decided(client, alert):
    page = client.get(of(alert))
    said = text(page)
    for words in (
        "One GPU time is slower.", "10.0 µs", "12.0 µs", "1.200×", "1.188× to 1.212×", "6 + 6",
        "2.10.0 → 2.11.0", "in cycles: the clock moved", "torch 2.10.1 is the first with it.",
        "1.180× (1.160 to 1.200)", "python -m workers.bench gemm", 'id="drawn-data"',
    ):  # fmt: skip
        assert words in said, words
    spec = page.context["drawn"].chart
    assert [each["label"] for each in spec["series"]] == [
        "measured", "level before: 10.0\u00a0µs", "level after: 12.0\u00a0µs",
    ]  # fmt: skip
    assert len(spec["series"][0]["points"]) == 12 and spec["lines"][0]["value"] == 5.5
    assert "Confirm now" not in said  # nobody is signed in


def test_evidence_of_any_make_is_shown_with_units_and_cut(client, db):
    evidence = {
        "lost": [{"case": f"<i>{n}", "last_s": 1e-5} for n in range(60)], "since": None, "size_bytes": 2048,
        "names": ["a", "b"], "nested": {"share": 0.5, "ratio": 1e9}, "long": "x" * 1000,
    }  # fmt: skip
    page = text(client.get(of(made.alert(kind=Kind.COVERAGE, evidence=evidence))))
    for words in ("&lt;i&gt;0", "10.0 µs", "And 10 more.", "2.00 KiB", "50 %", "1.0e+09×", "x" * 300 + "…"):
        assert words in page, words
    assert "<i>0" not in page


def test_queries_do_not_grow_with_changes(operator, alert):
    series = alert.changes.get().series
    with at_most(36):
        operator.get(of(alert))
    for n in range(60):
        change = made.change(series, at=made.AT - dt.timedelta(days=n + 1), ratio=1.1 + n / 1000)
        alert.changes.add(change)
    with at_most(36):
        page = operator.get(of(alert))
    assert len(page.context["moved"]) == 50
    assert "The strongest 50 of 61." in text(page)


def test_changes_go_away_as_csv_and_json(client, alert):
    rows = list(csv.DictReader(io.StringIO(client.get(of(alert) + "changes.csv").content.decode())))
    told = json.loads(client.get(of(alert) + "changes.json").content)
    assert rows[0]["case"] == told["changes"][0]["case"] == "gemm bf16 16 × 4096 × 7168"
    assert float(rows[0]["ratio"]) == told["changes"][0]["ratio"] == pytest.approx(1.2)
    assert client.get(of(alert) + "changes.xml").status_code == 404


@pytest.mark.parametrize(
    ("name", "fields", "state"),
    [
        ("acknowledge", {}, "acknowledged"),
        ("investigate", {}, "investigating"),
        ("close", {"state": "machine", "reason": "the fan"}, "machine"),
        ("known", {"reason": ""}, "wont_fix"),
    ],
)
def test_acts_that_move_it(operator, alert, name, fields, state):
    assert operator.post(f"{of(alert)}{name}", fields).status_code == 302
    assert Alert.objects.get(pk=alert.pk).state == state


def test_acts_that_set_something(operator, alert, ann):
    post = lambda name, **fields: operator.post(f"{of(alert)}{name}", fields)  # noqa: E731
    post("assign", assignee="ann")
    post("link", url="https://example.org/issues/1")
    post("note", text="looks like the scheduler")
    post("snooze", component="torch", version="2.12.0")
    stored = Alert.objects.get(pk=alert.pk)
    assert stored.assignee == ann and stored.upstream_url == "https://example.org/issues/1"
    assert (stored.snoozed_component, stored.snoozed_version) == ("torch", "2.12.0")
    page = text(operator.get(of(alert)))
    assert "looks like the scheduler" in page and "snoozed until torch 2.12.0" in page
    post("snooze", until="2099-01-02T03:04", component="torch")
    assert Alert.objects.get(pk=alert.pk).snoozed_until.isoformat() == "2099-01-02T03:04:00+00:00"
    post("wake")
    assert Alert.objects.get(pk=alert.pk).snoozed_until is None


UNREADABLE = [
    ("close", {"state": "fixed", "reason": " "}, "A reason is needed"),
    ("close", {"state": "new", "reason": "x"}, "not one of the available choices"),
    ("note", {"text": ""}, "An empty note says nothing."),
    ("assign", {"assignee": "gone"}, "nobody active here of that name"),
    ("link", {"url": "javascript:alert(1)"}, "Expected an http or https address."),
    ("link", {"url": "ftp://example.org/"}, "Expected an http or https address."),
    ("snooze", {}, "one of the two"),
    ("snooze", {"until": "2001-01-01"}, "This time has passed."),
    ("snooze", {"until": "soon"}, "Expected a day and time"),
    ("snooze", {"component": "torch"}, "one of the two"),
    ("snooze", {"version": "2.12"}, "A version is of a component"),
    ("snooze", {"component": "torch", "version": "2.12", "until": "2099-01-01"}, "one of the two"),
    ("watch", {"series": "1", "least_effect": "-3"}, "greater than or equal to 0.1"),
    ("watch", {"series": "1", "minimum_history": "many"}, "Enter a whole number"),
    ("bisect", {"versions": "0.6.3 ;rm"}, "Expected versions such as"),
]


def test_a_form_that_cannot_be_read_names_its_field_and_keeps_what_was_typed(operator, alert):
    made.person("gone", is_active=False)
    for name, fields, said in UNREADABLE:
        page = operator.post(f"{of(alert)}{name}", fields)
        assert said in text(page, 422), said
        for value in fields.values():
            assert len(value) < 5 or value in page.content.decode()
    assert Alert.objects.get(pk=alert.pk).state == "new"


def test_what_was_typed_outlives_somebody_faster(operator, alert):
    Alert.objects.filter(pk=alert.pk).update(state="invalid", closed_at=timezone.now())
    said = text(operator.post(f"{of(alert)}close", {"state": "fixed", "reason": "a long story"}), 409)
    assert "is invalid: nothing was changed." in said and 'value="a long story"' in said


def test_what_cannot_be_confirmed_or_bisected_says_why(operator, alert):
    said = text(operator.post(f"{of(alert)}confirm"), 409)
    stored = Alert.objects.get(pk=alert.pk)
    assert stored.confirm == "cannot" and "Nothing can be measured to confirm it." in said
    assert stored.confirm_sentence in said and stored.entries.last().action == "confirm"
    assert stored.confirm_sentence in text(operator.post(f"{of(alert)}bisect"), 409)
    assert "No bisect was under way" in text(operator.post(f"{of(alert)}cancel-bisect"), 409)


def test_what_a_person_sets_of_a_series_is_in_percent_on_the_page(operator, alert):
    series = alert.changes.get().series_id
    fields = {"series": series, "least_effect": "5", "set_spread": "", "minimum_history": "12", "muted": "on"}
    operator.post(f"{of(alert)}watch", fields)
    watch = Watch.objects.get(series=series)
    assert (watch.least_effect, watch.set_spread, watch.minimum_history, watch.muted) == (
        0.05,
        None,
        12,
        True,
    )
    assert 'value="5.0"' in text(operator.get(of(alert)))
    said = text(operator.post(f"{of(alert)}watch", {"series": series + 999}), 409)
    assert "has no change in alert" in said


def test_there_is_no_alert_and_no_act_of_that_name(operator, alert):
    assert operator.get("/alerts/999999/").status_code == 404
    assert operator.post(f"{of(alert)}explode").status_code == 404
    assert operator.post("/alerts/999999/acknowledge").status_code == 404
    assert operator.get(f"{of(alert)}acknowledge").status_code == 405


def test_a_run_and_a_case_lead_to_their_alerts(client, alert):
    target = alert.changes.get().series.target_id
    about = f"/alerts/of-case?target={target}&kind=gemm&shape=4096x7168"
    assert "slower" in text(client.get(about))
    for nothing in ("target=x&kind=gemm&shape=1x1", f"target={target}&kind=%00&shape=", ""):
        assert text(client.get(f"/alerts/of-case?{nothing}")) == ""
    run, _ = gemm_done()
    assert text(client.get(f"/alerts/of-run/{run.pk}")) == ""
    Alert.objects.filter(pk=alert.pk).update(confirm_run=run)
    assert f'href="{of(alert)}"' in text(client.get(f"/alerts/of-run/{run.pk}"))
    assert f'hx-get="/alerts/of-run/{run.pk}"' in text(client.get(f"/runs/{run.pk}/"))


def test_a_new_baseline_shows_on_the_page(operator, alert):
    operator.post(f"{of(alert)}known", {"reason": ""})
    page = text(operator.get(of(alert)))
    assert "● known from here on" in page and "won&#x27;t fix" in page
