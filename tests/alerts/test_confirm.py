"""Confirm jobs: when they are asked for, of what, where, and what becomes of an alert by their verdict."""

from __future__ import annotations

import json
import threading

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from benchapp.alerts import confirm
from benchapp.alerts.confirm_plan import PRIORITY
from benchapp.alerts.models import Alert, Entry
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.alerts.signals import alert_closed, alert_updated
from benchapp.catalog.models import Recipe
from benchapp.fleet.models import Installation
from benchapp.ingest.actions import ingest
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import actions, work
from benchapp.runs.models import Document, Job, Measurement, Run, State
from benchapp.runs.requests import recipe
from tests.alerts.moved_alerts import SLOWER, answer, moved
from tests.alerts.nights import gpu
from tests.fleet.machines import host

OLD, NEW = (recipe("flashinfer", version, device="cuda") for version in ("0.6.3", "0.6.9"))
MANY = {m: (1e-5, 1e-5 * (1.05 + m / 1e4)) for m in (1, 2, 4, 8, 16, 32, 64)}


@pytest.fixture
def box(db) -> Installation:
    return host("box", "aaaaaaaa", "GPU-a")


def fresh(alert: Alert) -> Alert:
    return Alert.objects.get(pk=alert.pk)


def history(alert: Alert) -> list[str]:
    return list(Entry.objects.filter(alert=alert, action="confirm").values_list("sentence", flat=True))


def ask(alert: Alert, user: User | None = None) -> Run:
    run = confirm.ask_confirm(alert, user)
    assert run is not None, fresh(alert).confirm_sentence
    return run


def fail(run: Run | None, code: str, sentence: str) -> None:
    assert run is not None and work.claim([run.queue], "gpu-a@box/aaaaaaaa") is not None
    run.refresh_from_db()
    assert work.fail(run.pk, run.attempt, code, sentence)
    actions.tell_ended()


def test_an_alert_of_versions_asks_for_both_recipes_on_its_own_gpu(box):
    alert = moved()
    assert confirm.ask_waiting() == 1
    run = fresh(alert).confirm_run
    assert (run.kind, run.queue, run.priority) == (Run.Kind.CONFIRM, "gpu.uuid.GPU-a", PRIORITY)
    assert (run.recipe_beside.versions, run.recipe.versions) == (OLD, NEW)
    assert [case["m"] for case in run.params["cases"]] == [16]
    assert run.params["backends"] == ["flashinfer.mm_bf16.cutlass"]
    assert fresh(alert).confirm == Alert.Confirm.ASKED
    assert history(alert) == [f"Asked for: run {run.pk} on gpu.uuid.GPU-a."]


def test_the_strongest_cases_stand_for_the_others(box):
    alert = moved(MANY)
    assert [case["m"] for case in ask(alert).params["cases"]] == [64, 32, 16, 8, 4]


def test_it_is_asked_for_once_while_it_is_under_way_and_not_again_for_the_same(box):
    alert = moved()
    run = ask(alert)
    assert confirm.ask_confirm(alert) == run
    answer(run, {16: ("AMBG", 1.01)})
    open_or_join(_joined(alert, "More of the same."))
    assert confirm.ask_waiting() == 0
    assert confirm.ask_confirm(alert) is None
    assert Run.objects.filter(kind=Run.Kind.CONFIRM).count() == 1


def _joined(alert: Alert, sentence: str) -> Proposal:
    return Proposal(
        key=alert.key, kind=Alert.Kind(alert.kind), title=alert.title, sentence=sentence, worse=alert.worse,
        certain=False, ratio=alert.ratio, confidence=0.8,
    )  # fmt: skip


def test_new_evidence_of_an_undecided_alert_is_measured_too(box):
    alert = moved({16: (1e-5, 1.05e-5), 32: (1e-5, 1.04e-5)})
    alert.changes.filter(series__case__params__m=32).update(gone_at=F("at"))
    answer(ask(alert), {16: ("AMBG", 1.01)})
    alert.changes.update(gone_at=None)
    open_or_join(_joined(alert, "One more case moved."))
    assert confirm.ask_waiting() == 1
    assert [case["m"] for case in fresh(alert).confirm_run.params["cases"]] == [16, 32]


def test_a_person_may_ask_again_before_all_others(box):
    alert = moved()
    answer(ask(alert), {16: ("AMBG", 1.01)})
    ann = User.objects.create_user("ann", password="correct horse battery", role=Role.OPERATOR)
    run = ask(alert, ann)
    assert (run.priority, run.job.requested_by) == (actions.PRIORITIES["person"], ann)
    assert AuditEntry.objects.filter(action="ask_confirm", user=ann, subject=f"alert {alert.pk}").count() == 1


def test_slow_makes_it_certain_and_nothing_that_joins_takes_that_away(box):
    alert = moved()
    before = alert.cost
    answer(ask(alert), {16: ("SLOW", 1.042)})
    found = fresh(alert)
    assert (found.verdict, found.confirm, found.certain, found.state) == ("SLOW", "done", True, "new")
    assert found.confidence > 0.8
    assert found.cost > before
    assert "SLOW ×1.042 [1.032, 1.052] over 8 pairs of fresh processes, GPU time" in found.confirm_sentence
    assert history(alert)[-1] == found.confirm_sentence
    open_or_join(_joined(alert, "One more case moved."))
    joined = fresh(alert)
    assert (joined.certain, joined.confidence, joined.cost) == (True, found.confidence, found.cost)


def test_what_an_invalid_run_decided_is_open_again(box):
    ann = User.objects.create_user("ann", role=Role.OPERATOR)
    alert = moved()
    run = ask(alert)
    answer(run, {16: ("SLOW", 1.042)})
    run.refresh_from_db()
    assert actions.mark_invalid(run, ann, "somebody else was on the GPU")
    found = fresh(alert)
    assert (found.verdict, found.confirm, found.certain) == ("", "cannot", False)
    assert found.confirm_sentence.endswith("was marked invalid: somebody else was on the GPU")
    assert history(alert)[-1] == found.confirm_sentence


def test_an_a_b_that_delivers_another_document_confirms_nothing(box):
    alert = moved()
    run = ask(alert)
    assert run is not None and work.claim([run.queue], "gpu-a@box/aaaaaaaa") is not None
    run.refresh_from_db()
    other = json.loads(bytes(Document.objects.latest("pk").body)) | {"notes": ["measured, not compared"]}
    ingest(work.deliver(run.pk, run.attempt, json.dumps(other).encode()))
    found = fresh(alert)
    assert (found.confirm, found.verdict) == ("cannot", "")
    assert history(alert)[-1] == f"Run {run.pk}, which was to confirm it, compared nothing."


def test_same_closes_what_nobody_has_taken(box):
    alert = moved()
    told = []
    alert_closed.connect(listener := lambda **kwargs: told.append(kwargs["alert"].pk))
    try:
        answer(ask(alert), {16: ("SAME", 1.001)})
    finally:
        alert_closed.disconnect(listener)
    found = fresh(alert)
    assert (found.verdict, found.state) == ("SAME", "invalid")
    assert found.closed_at is not None
    assert told == [alert.pk]
    assert Entry.objects.filter(alert=alert, action="closed").get().sentence.startswith("Not confirmed. gemm")


@pytest.mark.parametrize("taken", [{"state": Alert.State.ACKNOWLEDGED}, {"assignee": True}])
def test_same_only_speaks_where_a_person_has_taken_it(box, taken):
    alert = moved()
    if "assignee" in taken:
        taken = {"assignee": User.objects.create_user("ann", role=Role.OPERATOR)}
    Alert.objects.filter(pk=alert.pk).update(**taken)
    told = []
    alert_updated.connect(listener := lambda **kwargs: told.append(kwargs["what"]))
    try:
        answer(ask(alert), {16: ("SAME", 1.001)})
    finally:
        alert_updated.disconnect(listener)
    found = fresh(alert)
    assert (found.verdict, found.closed_at) == ("SAME", None)
    assert told == [found.confirm_sentence]


def test_gpu_time_decides_and_host_time_is_told_beside_it(box):
    alert = moved()
    answer(ask(alert), {16: ("SAME", 1.001)}, host={16: ("SLOW", 1.30)})
    found = fresh(alert)
    assert found.verdict == "SAME"
    assert "host time: SLOW ×1.300" in found.confirm_sentence


def test_a_verdict_on_what_was_closed_meanwhile_is_kept_and_told_to_nobody(box):
    alert = moved()
    run = ask(alert)
    Alert.objects.filter(pk=alert.pk).update(state=Alert.State.FIXED, closed_at=timezone.now())
    told = []
    alert_updated.connect(listener := lambda **kwargs: told.append(kwargs["what"]))
    try:
        answer(run, {16: ("SLOW", 1.042)})
    finally:
        alert_updated.disconnect(listener)
    found = fresh(alert)
    assert (found.verdict, found.state, told) == ("SLOW", "fixed", [])


def test_an_ab_without_values_says_so(box):
    alert = moved()
    answer(ask(alert), {})
    found = fresh(alert)
    assert (found.confirm, found.verdict) == ("cannot", "")
    assert found.confirm_sentence == "Its A/B gave no value for any of its cases on both sides."


def test_a_run_that_failed_is_tried_once_more_and_then_said_to_have_failed(box):
    alert = moved()
    first = ask(alert)
    fail(first, "crashed", "It crashed.")
    second = fresh(alert).confirm_run
    assert second != first
    assert fresh(alert).confirm == Alert.Confirm.ASKED
    fail(second, "crashed", "It crashed again.")
    found = fresh(alert)
    assert found.confirm == Alert.Confirm.CANNOT
    assert found.confirm_sentence == f"Run {second.pk}, which was to confirm it, failed: It crashed again."
    assert Run.objects.filter(kind=Run.Kind.CONFIRM).count() == 2
    assert confirm.ask_waiting() == 0


def test_an_environment_that_cannot_be_built_is_not_tried_again(box):
    alert = moved()
    fail(ask(alert), "environment", "There is no wheel.")
    assert fresh(alert).confirm == Alert.Confirm.CANNOT
    assert Run.objects.filter(kind=Run.Kind.CONFIRM).count() == 1


def test_what_a_person_cancelled_is_not_asked_for_again(box):
    alert = moved()
    ann = User.objects.create_user("ann", role=Role.OPERATOR)
    run = ask(alert)
    assert actions.cancel(run, ann)
    found = fresh(alert)
    assert (found.confirm, found.confirm_sentence) == (
        "cannot", f"Run {run.pk}, which was to confirm it, was cancelled.",
    )  # fmt: skip


def test_nobody_is_asked_for_a_gpu_that_nobody_here_has(box):
    alert = moved(target=gpu("recorded-h200-a"))
    assert confirm.ask_waiting() == 0
    found = fresh(alert)
    assert found.confirm == Alert.Confirm.CANNOT
    assert found.confirm_sentence == "No host here has this NVIDIA H200: it was measured elsewhere."
    assert confirm.ask_waiting() == 0
    assert len(history(alert)) == 1, "said once"
    assert not Run.objects.filter(kind=Run.Kind.CONFIRM).exists()


def test_an_alert_waits_for_its_host_to_come_back(box):
    Installation.objects.update(seen_at="2026-01-01T00:00:00Z")
    alert = moved()
    assert confirm.ask_waiting() == 0
    assert history(alert) == ["No live worker serves GPU 0 of box, NVIDIA H200 GPU-a."]
    assert confirm.ask_confirm(alert) is None
    assert len(history(alert)) == 1, "said once"
    Installation.objects.update(seen_at=timezone.now())
    assert confirm.ask_waiting() == 1


def test_stacks_of_one_recipe_have_nothing_to_put_beside(box):
    alert = moved(before="0.6.9", after="0.6.9")
    stack = alert.stack_after
    stack.pk, stack.digest = None, "other"
    stack.components = alert.stack_before.components | {"driver": "580.2"}
    stack.save()
    alert.changes.update(stack_after=stack)
    Measurement.objects.filter(measured_at=alert.changes.get().at).update(stack=stack)
    assert confirm.ask_confirm(alert) is None
    assert fresh(alert).confirm_sentence == (
        "Both stacks are of one recipe and differ in driver none → 580.2, "
        "which no environment can bring back."
    )


def test_kinds_that_nothing_is_measured_of_and_closed_alerts_ask_for_nothing(box):
    alert = moved(kind=Alert.Kind.COVERAGE)
    assert confirm.ask_confirm(alert) is None
    assert confirm.ask_waiting() == 0
    assert fresh(alert).confirm == Alert.Confirm.NONE
    other = moved({32: (1e-5, 1.05e-5)}, key="other")
    Alert.objects.filter(pk=other.pk).update(state=Alert.State.FIXED, closed_at="2026-11-30T00:00:00Z")
    assert confirm.ask_confirm(other) is None


def test_the_recipe_is_that_of_the_run_where_a_run_measured_it(box):
    alert = moved()
    change = alert.changes.get()
    versions = NEW | {"torch": "2.12.0"}
    made = Run.objects.create(
        job=Job.objects.create(title="a night", source="schedule"), kind=Run.Kind.GEMM, queue="gpu",
        recipe=Recipe.objects.create(digest="night", versions=versions), state=State.DONE, told=True,
    )  # fmt: skip
    Measurement.objects.filter(series=change.series, measured_at=change.at).update(run=made)
    assert ask(alert).recipe.versions == versions


@pytest.mark.django_db(transaction=True)
def test_two_tasks_at_once_ask_once(servers):
    host("box", "aaaaaaaa", "GPU-a")
    alert = moved(SLOWER)
    barrier, runs = threading.Barrier(2), []

    def one() -> None:
        try:
            barrier.wait()
            runs.append(confirm.ask_confirm(alert))
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs[0] == runs[1]
    assert Run.objects.filter(kind=Run.Kind.CONFIRM).count() == 1
    assert len(history(alert)) == 1
