"""Detection over stored series: who is looked at, how often, by whom, and what comes of it."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from benchapp.alerts import closing, points, stepping, triage, watching
from benchapp.alerts.detect import detect
from benchapp.alerts.models import Alert, Change, Event, Watch
from benchapp.alerts.points import MOST, of_series
from benchapp.catalog.models import Recipe, Series
from benchapp.celery import app
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs.actions import mark_invalid
from benchapp.runs.models import Document, Job, Run, State
from tests.alerts.nights import FIRST, gpu, night, nights

pytestmark = pytest.mark.django_db


def due() -> int:
    return Watch.objects.filter(due_at__isnull=False).count()


def sizes(alert: Alert) -> list[int]:
    return sorted(change.series.case.params["m"] for change in alert.changes.all())


def test_a_series_is_looked_at_from_its_second_observation_on():
    night(0, {16: 1e-3, 32: 1e-3})
    assert Watch.objects.count() == 0, "one value holds no step, and tables of other tools have many"
    night(1, {16: 1e-3})
    assert due() == 1
    assert watching.look_at_due() == 1
    watch = Watch.objects.get()
    assert (watch.due_at, watch.points, watch.failure, len(watch.stacks)) == (None, 2, "", 1)
    assert watch.lag_s is not None
    assert watching.look_at_due() == 0


def test_ingest_asks_for_a_look_after_commit(monkeypatch, django_capture_on_commit_callbacks):
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda task, **how: sent.append(task))
    for day, asked in ((0, 0), (1, 1)):
        with django_capture_on_commit_callbacks(execute=True):
            night(day, {16: 1e-3, 32: 1e-3})
        assert sent.count("alerts.look") == asked


def test_what_may_not_rank_wakes_nobody():
    night(0, {16: 1e-3})
    night(1, {16: 1e-3}, flags=("borrowed",))
    assert due() == 0


def test_an_upgrade_that_slows_two_of_three_kernels_is_one_alert():
    nights(range(14), {16: 1e-3, 32: 2e-3, 64: 3e-3}, flashinfer="0.6.3", cutlass="4.2.1", reference=5e-3)
    nights(range(14, 22), {16: 1.2e-3, 32: 2.4e-3, 64: 3e-3}, reference=5e-3)
    watching.look_at_due()
    (alert,) = Alert.objects.all()
    assert (alert.kind, alert.worse, alert.certain, alert.recorded) == ("stack", True, True, False)
    assert sizes(alert) == [16, 32]
    assert alert.title.startswith(
        "2 of 4 GPU times slower with flashinfer 0.6.3 → 0.6.9, cutlass 4.2.1 → 4.4.2 on H200: worst gemm "
    )
    assert "flashinfer 0.6.3 → 0.6.9, cutlass 4.2.1 → 4.4.2" in alert.sentence
    assert "None of 1 reference cases moved" in alert.sentence
    assert [each["component"] for each in alert.suspects] == ["flashinfer", "cutlass"]
    assert 1.15 < alert.ratio < 1.25
    assert alert.stack_before.components["flashinfer"] == "0.6.3"


def test_new_evidence_updates_the_open_alert_and_a_closed_one_stays_closed():
    nights(range(14), {16: 1e-3, 32: 1e-3}, flashinfer="0.6.3")
    nights(range(14, 20), {16: 1.2e-3, 32: 1e-3})
    watching.look_at_due()
    (alert,) = Alert.objects.all()
    nights(range(14), {16: 1e-3}, flashinfer="0.6.3", target=gpu("b", "other"))
    nights(range(14, 20), {16: 1.2e-3}, target=gpu("b", "other"))
    watching.look_at_all()
    alert.refresh_from_db()
    assert Alert.objects.count() == 1
    assert alert.changes.count() == 2
    assert alert.target is None, "it is about two GPUs now"
    assert [entry.action for entry in alert.entries.all()] == ["opened", "joined"]
    Alert.objects.update(state=Alert.State.WONT_FIX, closed_at=timezone.now())
    nights([20, 21], {16: 1.2e-3, 32: 1e-3})
    watching.look_at_all()
    assert Alert.objects.count() == 1


def test_more_of_what_a_person_closed_is_no_news_unless_it_is_worse():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.5e-3})
    watching.look_at_all()
    Alert.objects.update(state=Alert.State.WONT_FIX, closed_at=timezone.now())
    nights(range(12), {32: 1e-3, 64: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {32: 1.1e-3})
    watching.look_at_all()
    closed = Alert.objects.get()
    assert (sizes(closed), closed.entries.last().action) == ([16, 32], "late")
    nights(range(12, 18), {64: 9e-3})
    watching.look_at_all()
    opened = Alert.objects.get(closed_at=None)
    assert sizes(opened) == [64]


def test_thirty_series_of_a_gpu_that_slowed_one_night_are_one_alert_of_the_machine():
    levels = dict.fromkeys(range(16, 16 + 30), 0.001)
    nights(range(12), levels)
    nights(range(12, 15), {m: 1.1 * seconds for m, seconds in levels.items()})
    watching.look_at_all()
    nights(range(15, 18), {m: 1.1 * seconds for m, seconds in levels.items()})
    watching.look_at_all()
    (alert,) = Alert.objects.all()
    assert (alert.kind, alert.worse, alert.changes.count()) == ("machine", True, 30)
    assert alert.host.name == "box"
    assert alert.title.startswith("30 of 30 GPU times slower on box (H200) without a version change")


def test_both_gpus_of_a_host_are_one_alert_and_another_host_another():
    for name, host in (("a", "box"), ("b", "box"), ("c", "far")):
        nights(range(12), {16: 1e-3}, target=gpu(name, host))
        nights(range(12, 18), {16: 1.2e-3}, target=gpu(name, host))
        watching.look_at_all()
    assert Counter(alert.host.name for alert in Alert.objects.all()) == {"box": 1, "far": 1}
    assert Alert.objects.get(host__name="box").target is None


def test_a_backfill_of_old_versions_does_not_read_as_steps_to_and_fro():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.18")
    nights(range(12, 16), {16: 1.5e-3}, flashinfer="0.6.3")
    nights(range(16, 24), {16: 1e-3}, flashinfer="0.6.18")
    watching.look_at_all()
    (change,) = Change.objects.all()
    assert not change.worse, "the newer version is the faster one, and that is all"
    assert change.stack_before.components["flashinfer"] == "0.6.3"


def test_a_new_baseline_forgets_what_was_before():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3})
    watching.look_at_all()
    watch = Watch.objects.get()
    watch.known_from = FIRST + dt.timedelta(days=12)
    watch.save()
    assert watching.look_at_all([watch.pk])
    assert Watch.objects.get().points == 6
    assert Change.objects.get().gone_at is not None
    alert = Alert.objects.get()
    assert (alert.state, alert.entries.last().sentence) == ("invalid", "No longer found with more data.")


def test_an_alert_that_a_person_works_on_does_not_close_itself():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3})
    watching.look_at_all()
    Alert.objects.update(state=Alert.State.INVESTIGATING)
    Watch.objects.update(known_from=FIRST + dt.timedelta(days=12))
    for _ in range(2):
        watching.look_at_all([Watch.objects.get().pk])
    alert = Alert.objects.get()
    assert alert.closed_at is None
    assert [entry.action for entry in alert.entries.all()] == ["opened", "gone"]


def test_a_reference_case_that_moved_less_is_told_beside_what_the_upgrade_moved():
    nights(range(14), {16: 1e-3, 32: 1e-3}, flashinfer="0.6.3", reference=5e-3)
    nights(range(14, 22), {16: 1.5e-3, 32: 1e-3}, reference=5.3e-3)
    watching.look_at_all()
    assert sorted(Alert.objects.values_list("kind", flat=True)) == ["machine", "stack"]
    assert "1 of 1 reference cases moved as well." in Alert.objects.get(kind="stack").sentence


@pytest.mark.parametrize("by", ["itself", "a person", "an A/B"])
def test_what_is_back_is_told_again_only_where_its_alert_closed_for_it_was_gone(by):
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3})
    watching.look_at_all()
    alert = Alert.objects.get()
    change = alert.changes.get()
    if by == "a person":
        triage.close(alert.pk, None, Alert.State.INVALID, "a fan was broken")
    else:
        Alert.objects.update(verdict="SAME" if by == "an A/B" else "")
        closing.resolve(alert.key, "No longer found.", Alert.State.INVALID)
    Change.objects.update(gone_at=timezone.now())
    watching.look_at_all([change.series_id])
    change.refresh_from_db()
    assert change.gone_at is None
    assert Alert.objects.count() == (2 if by == "itself" else 1)


def test_a_step_whose_old_level_goes_out_of_sight_stays_as_it_was_found(monkeypatch):
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 24), {16: 1.2e-3})
    watching.look_at_all()
    monkeypatch.setattr(points, "MOST", 24)
    nights(range(24, 35), {16: 1.2e-3})
    watching.look_at_all()
    change = Change.objects.get()
    assert (change.gone_at, change.certain, change.n_before) == (None, True, 12)
    assert Alert.objects.get().closed_at is None


def test_a_muted_series_never_alerts():
    night(0, {16: 1e-3})
    night(1, {16: 1e-3})
    Watch.objects.update(muted=True)
    nights(range(2, 12), {16: 1e-3})
    nights(range(12, 18), {16: 1.5e-3})
    watching.look_at_all()
    assert Change.objects.count() == 1
    assert Alert.objects.count() == 0


def test_what_is_doubtful_is_left_uncertain():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3}, flags=("contended",))
    watching.look_at_all()
    alert = Alert.objects.get()
    assert not alert.certain
    assert "Unconfirmed: at most 6 runs on a side." in alert.sentence


def test_a_run_marked_invalid_leaves_detection_and_comes_back():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    job = Job.objects.create(title="a night", source=Job.Source.COMMAND)
    recipe = Recipe.objects.create(digest="r", versions={"flashinfer": "0.6.9"})
    run = Run.objects.create(job=job, kind="gemm", queue="gpu", recipe=recipe, state=State.DELIVERED)
    night(12, {16: 1.4e-3}, run=run, origin=Document.Origin.WORKER)
    watching.look_at_all()
    assert Alert.objects.get().certain is False
    user = User.objects.create_user("olga", role=Role.OPERATOR)
    assert mark_invalid(run, user, "the door was open")
    assert due() == 1
    watching.look_at_all()
    assert Alert.objects.get().state == "invalid"
    assert mark_invalid(run, user, "")
    watching.look_at_all()
    assert sorted(Alert.objects.values_list("state", flat=True)) == ["invalid", "new"]
    assert Change.objects.count() == 1


def test_twenty_documents_in_a_minute_cost_a_series_few_looks(monkeypatch):
    looks: list[int] = []

    def counted(series_id, known_from):
        looks.append(series_id)
        return of_series(series_id, known_from)

    monkeypatch.setattr(watching, "of_series", counted)
    for day in range(20):
        night(day, {16: 1e-3})
        watching.look_at_due()
    assert len(looks) == 1, "and the sweep takes up what came after it"
    assert due() == 1


def test_a_crash_in_one_series_leaves_the_others_and_is_told_once(monkeypatch):
    nights(range(12), {16: 1e-3, 32: 5e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3, 32: 6e-3})

    def crashing(values, *rest, **named):
        if min(values) > 4e-3:
            raise ZeroDivisionError("password=hunter2")
        return detect(values, *rest, **named)

    monkeypatch.setattr(stepping, "detect", crashing)
    watching.look_at_all()
    assert sizes(Alert.objects.get()) == [16]
    failed = Watch.objects.exclude(failure="").get()
    assert failed.series.case.params["m"] == 32
    assert "ZeroDivisionError" in failed.failure and "hunter2" not in failed.failure
    watching.look_at_all([failed.pk])
    event = Event.objects.get(kind="detection_failed")
    assert "hunter2" not in event.sentence
    monkeypatch.undo()
    assert watching.look_at_due() == 0
    Watch.objects.filter(pk=failed.pk).update(looked_at=timezone.now() - watching.RETRY)
    assert watching.look_at_due() == 1
    assert sizes(Alert.objects.get()) == [16, 32]
    failed.refresh_from_db()
    assert failed.failure == ""


def test_a_hundred_thousand_points_of_one_series_are_read_no_further_than_needed():
    first = night(0, {16: 1e-3})
    series = Series.objects.get()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_measurement (measured_at, document_id, series_id, stack_id, outcome, flags, n,
                median, timer, l2_policy, inputs, kernel, reference, throttle_reasons, error)
            SELECT '2026-09-02'::timestamptz + i * interval '10 seconds', %s, %s, %s, 'ok', '{}', 1,
                CASE WHEN i > 99900 THEN 1.3e-3 ELSE 1e-3 END * (1 + (i %% 7) * 0.001),
                '', '', '', '', '', '{}', ''
            FROM generate_series(1, 100000) AS i
            """,
            [first.pk, series.pk, first.stack_id],
        )
    watching.mark([series.pk])
    assert watching.look_at_all([series.pk])
    watch = Watch.objects.get()
    assert (watch.points, watch.failure) == (MOST, "")
    assert Change.objects.get().n_after == 100


def test_candidates_are_no_step_between_releases():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 15), {16: 2e-3}, flashinfer="0.6.3+candidate.1a2b")
    nights(range(15, 21), {16: 1e-3}, flashinfer="0.6.9")
    watching.look_at_all()
    assert Watch.objects.get().points == 18
    assert not Change.objects.exists()


def test_a_detector_that_died_after_its_looks_leaves_no_alert_of_nothing():
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3})
    watching.look_at_all()
    Change.objects.update(gone_at=timezone.now())
    watching.look_at_due()
    assert Alert.objects.get().state == "invalid"


def test_the_command_looks_at_everything_and_can_begin_anew(capsys):
    nights(range(12), {16: 1e-3}, flashinfer="0.6.3")
    nights(range(12, 18), {16: 1.2e-3})
    call_command("detect", "--all")
    said = capsys.readouterr().out
    assert "Looked at 1 series" in said and "1 changes, 1 of them certain, and 1 open alerts" in said
    assert "| stack | ×1.2" in said
    kept = Alert.objects.get()
    call_command("detect", "--all", "--reset")
    assert "Forgotten: 1 changes, 1 alerts." in capsys.readouterr().out
    assert Alert.objects.get().pk != kept.pk
    Alert.objects.update(state=Alert.State.ACKNOWLEDGED)
    call_command("detect", "--series", str(Series.objects.get().pk), "--reset")
    assert "Forgotten: 0 changes, 0 alerts." in capsys.readouterr().out
    assert AuditEntry.objects.filter(action="detect").count() == 3


def test_health_tells_how_far_detection_is_behind(client):
    night(0, {16: 1e-3})
    night(1, {16: 1e-3})
    told = client.get("/healthz").json()
    assert told["detection_due"] == Watch.objects.get().due_at.isoformat()
    watching.look_at_due()
    told = client.get("/healthz").json()
    assert told["detection_due"] is None and told["detection_lag_s"] >= 0


@pytest.mark.django_db(transaction=True)
def test_two_detectors_at_once_open_one_alert_and_never_look_at_one_series_twice():
    levels = dict.fromkeys(range(16, 24), 0.001)
    nights(range(12), levels, flashinfer="0.6.3")
    nights(range(12, 16), {m: 1.2 * seconds for m, seconds in levels.items()})
    counts: list[int] = []
    start = threading.Barrier(2)

    def detector() -> None:
        start.wait()
        counts.append(watching.look_at_due())
        connections.close_all()

    both = [threading.Thread(target=detector) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sum(counts) == len(levels)
    assert Alert.objects.get().changes.count() == len(levels)
    with transaction.atomic():
        watch = Watch.objects.select_for_update().order_by("pk").first()
        refused: list[int] = []

        def look() -> None:
            refused.append(watching.look_at_all([watch.pk]))
            connections.close_all()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert refused == [False], "somebody is at it"


@pytest.mark.django_db(transaction=True)
def test_a_series_that_takes_too_long_is_given_up_and_said_so(monkeypatch):
    nights(range(2), {16: 1e-3})
    monkeypatch.setattr(watching, "STATEMENT_MS", 100)
    locked, looked = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE runs_sample IN ACCESS EXCLUSIVE MODE")
            locked.set()
            looked.wait(30)
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(30)
    assert watching.look_at_due() == 1
    looked.set()
    thread.join()
    watch = Watch.objects.get()
    assert "OperationalError" in watch.failure
    assert watch.due_at is None, "it waits for its next measurement, and holds up nobody"
