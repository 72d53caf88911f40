"""Cases that were right and are measured no more open one alert a GPU model and pair of versions."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.alerts import triage
from benchapp.alerts.kinds import registry
from benchapp.alerts.models import Alert
from benchapp.runs.models import Document as Row
from tests.alerts.kinds.stored import COMMAND, CUDNN, CUTLASS, alerts, lost, store, the, timed, told
from tests.trends.gemms import H200

pytestmark = pytest.mark.django_db
State = Alert.State


def test_cases_that_an_upgrade_lost_are_one_alert_that_says_which_and_why():
    store("0.6.9", timed(1), timed(16), timed(16, backend=CUDNN), day=1)
    store(
        "0.6.13",
        lost(1, "build_failed", "nvcc: error\nmore"),
        lost(16, "build_failed", "nvcc: error\nmore"),
        timed(16, backend=CUDNN),
        day=2,
    )
    alert = the("coverage")
    assert alert.title == "2 cases lost on NVIDIA H200: flashinfer 0.6.9 → 0.6.13"
    assert f"2 by {CUTLASS}: build failed (“nvcc: error”)" in alert.sentence
    assert (alert.state, alert.certain, alert.worse, alert.recorded) == (State.NEW, True, True, False)
    assert (alert.host.name, alert.target.uuid) == ("box", "GPU-1")
    assert alert.stack_before.components["flashinfer"] == "0.6.9"
    (group,) = alert.evidence["groups"]
    assert (group["cases"], group["outcome"], group["backend"]) == (2, "build failed", CUTLASS)


def test_the_same_loss_the_next_night_and_with_the_next_version_is_no_news():
    store("0.6.9", timed(1), day=1)
    for day, version in enumerate(("0.6.13", "0.6.13", "0.6.14"), 2):
        store(version, lost(1), day=day)
    assert told(the("coverage")) == ["opened"]


def test_looking_again_changes_nothing():
    store("0.6.9", timed(1), day=1)
    row = store("0.6.13", lost(1), day=2)
    registry.after_document(row.pk)
    assert told(the("coverage")) == ["opened"]
    assert registry.look_at_new() == 0


def test_more_losses_join_and_another_gpu_of_the_model_too():
    other = dataclasses.replace(H200, uuid="GPU-2")
    for target in (H200, other):
        store("0.6.9", timed(1), timed(2), day=1, target=target)
    store("0.6.13", lost(1), day=2)
    store("0.6.13", lost(2, "crashed", "signal 11"), day=2, target=other)
    alert = the("coverage")
    assert told(alert) == ["opened", "joined"] and alert.title.startswith("2 cases lost")
    store("0.6.14", lost(1), lost(2, "crashed", "signal 11"), day=3, target=other)
    assert told(the("coverage")) == ["opened", "joined"], "the same cases of a later version"
    store("0.6.14", timed(1), timed(2), day=4)
    assert the("coverage").state == State.NEW, "the other GPU lacks them still"
    store("0.6.14", timed(1), timed(2), day=4, target=other)
    assert the("coverage").state == State.FIXED


def test_it_closes_itself_when_all_are_back_and_opens_again_when_they_are_lost_again():
    store("0.6.9", timed(1), timed(2), day=1)
    store("0.6.13", lost(1), lost(2), day=2)
    store("0.6.13", timed(1), lost(2), day=3)
    alert = the("coverage")
    assert alert.title.startswith("1 case lost") and told(alert) == ["opened", "joined"]
    store("0.6.14", timed(1), timed(2), day=4)
    alert.refresh_from_db()
    assert (alert.state, told(alert)[-1]) == (State.FIXED, "closed")
    store("0.6.15", lost(1), timed(2), day=5)
    assert [each.state for each in alerts("coverage")] == [State.FIXED, State.NEW]


def test_an_older_version_that_still_works_mends_nothing():
    store("0.6.9", timed(1), day=1)
    store("0.6.13", lost(1), day=2)
    store("0.6.9", timed(1), day=3)
    assert the("coverage").state == State.NEW


def test_what_a_person_closed_stays_closed_while_it_lasts():
    store("0.6.9", timed(1), day=1)
    store("0.6.13", lost(1), day=2)
    triage.close(the("coverage").pk, None, State.WONT_FIX, "we do not use it")
    store("0.6.13", lost(1), day=3)
    store("0.6.14", lost(1), day=4)
    assert the("coverage").state == State.WONT_FIX


def test_history_measured_late_is_no_loss():
    store("0.6.13", lost(1), day=1)
    store("0.6.3", timed(1), day=2)
    store("0.6.9", timed(1), day=3)
    store("0.6.13", lost(1), day=4)
    assert alerts("coverage") == []


def test_what_never_worked_or_failed_for_long_is_no_loss():
    store("0.6.9", lost(1), timed(2), day=1)
    store("0.6.13", lost(1), timed(2), day=2)
    assert alerts("coverage") == []


def test_one_crash_within_a_version_is_an_accident_and_two_are_a_loss():
    store("0.6.9", timed(1), day=1)
    store("0.6.9", lost(1, "crashed", "signal 11"), day=2, driver="590")
    assert alerts("coverage") == []
    store("0.6.9", lost(1, "crashed", "signal 11"), day=3, driver="590")
    assert the("coverage").title == "1 case lost on NVIDIA H200: flashinfer 0.6.9, driver 580 → 590"


def test_a_backend_that_vanished_is_lost():
    store("0.6.9", timed(1), timed(1, backend=CUDNN), day=1)
    store("0.6.13", timed(1, backend=CUDNN), day=2)
    assert f"1 by {CUTLASS}: backend gone" in the("coverage").sentence
    store("0.6.14", timed(1), timed(1, backend=CUDNN), day=3)
    assert the("coverage").state == State.FIXED


@pytest.mark.parametrize("chosen", ["before", "after"])
def test_a_backend_that_nobody_asked_for_has_not_vanished(chosen):
    by_name = (*COMMAND, "--backend", CUDNN)
    commands = {"before": (by_name, COMMAND), "after": (COMMAND, by_name)}[chosen]
    store("0.6.9", timed(1), timed(1, backend=CUDNN), day=1, command=commands[0])
    store("0.6.13", timed(1, backend=CUDNN), day=2, command=commands[1])
    assert alerts("coverage") == []


def test_a_backend_that_vanished_long_ago_is_no_news():
    store("0.6.3", timed(1), timed(1, backend=CUDNN), day=1, look=False)
    store("0.6.9", timed(1, backend=CUDNN), day=2, look=False)
    Row.objects.update(facts={"measurements": 1, "alerts_looked": True, "command": []})
    store("0.6.13", timed(1, backend=CUDNN), day=3)
    assert alerts("coverage") == []


def test_candidates_under_test_and_files_of_others_lose_nothing():
    store("0.6.9", timed(1), day=1)
    store("0.6.13+candidate.1234", lost(1), day=2)
    store("0.6.13", lost(1), day=3, origin=Row.Origin.IMPORT)
    assert alerts("coverage") == []


def test_recorded_documents_are_history():
    store("0.6.9", timed(1), day=1, origin=Row.Origin.RECORDED)
    store("0.6.13", lost(1), day=2, origin=Row.Origin.RECORDED)
    assert the("coverage").recorded
