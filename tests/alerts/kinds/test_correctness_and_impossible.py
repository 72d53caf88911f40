"""Wrong results and impossible times."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.alerts.models import Alert
from benchapp.alerts.routing import traits
from benchapp.runs.models import Document as Row
from tests.alerts.kinds.stored import CUDNN, CUTLASS, alerts, store, the, timed, told
from tests.trends.cases import timed as case
from workers.bench.document import Correctness

pytestmark = pytest.mark.django_db
State = Alert.State


def wrong(m, *, backend=CUTLASS):
    return dataclasses.replace(
        timed(m, outcome="incorrect", backend=backend),
        correctness=Correctness("float64", 0.125, 3.5, 0, 0, m * 4096, 0.008),
    )


def test_a_case_that_turns_wrong_is_the_loudest_alert():
    store("0.6.9", timed(1), timed(16, backend=CUDNN), day=1)
    store("0.6.13", wrong(1), wrong(16, backend=CUDNN), day=2)
    alert = the("correctness")
    assert alert.title == "2 cases wrong on NVIDIA H200: flashinfer 0.6.9 → 0.6.13"
    assert "cosine 0.125, largest error 3.5, 0.008 allowed" in alert.sentence
    assert alert.importance == 10 and alert.certain
    assert [case["backend"] for case in alert.evidence["cases"]] == [CUDNN, CUTLASS]


def test_a_wrong_layer_of_a_model_names_the_model_for_routes():
    layer = "moe_layer:model=Qwen3-30B-A3B,tokens=64,tp=1,ep=1,distribution=uniform,dtype=bf16"
    right = case(layer, 300e-6, backend=CUTLASS)
    store("0.6.9", right, day=1)
    store("0.6.13", dataclasses.replace(right, outcome="incorrect"), day=2)
    assert the("correctness").evidence["model"] == ["Qwen3-30B-A3B"]
    assert "Qwen3-30B-A3B" in traits(the("correctness")).moe_models


def test_it_closes_itself_once_all_are_right():
    store("0.6.9", timed(1), day=1)
    store("0.6.13", wrong(1), day=2)
    store("0.6.13", wrong(1), day=3)
    assert told(the("correctness")) == ["opened"]
    store("0.6.14", timed(1), day=4)
    assert (the("correctness").state, told(the("correctness"))) == (State.FIXED, ["opened", "closed"])


def test_a_wrong_result_of_the_same_version_names_what_else_differs():
    store("0.6.9", timed(1), day=1)
    store("0.6.9", wrong(1), day=2, driver="590")
    assert the("correctness").title == "1 case wrong on NVIDIA H200: flashinfer 0.6.9, driver 580 → 590"


def test_what_was_never_right_or_is_history_is_no_loss():
    store("0.6.13", wrong(1), day=1)
    store("0.6.9", timed(1), day=2)
    store("0.6.13", wrong(1), day=3)
    store("0.6.3", wrong(1), day=4)
    assert alerts("correctness") == []


def test_recorded_and_imported_ones_tell_nobody():
    store("0.6.9", timed(1), day=1)
    store("0.6.13", wrong(1), day=2, origin=Row.Origin.IMPORT)
    assert alerts("correctness") == []
    store("0.6.14", wrong(1), day=3, origin=Row.Origin.RECORDED)
    assert the("correctness").recorded


def test_an_impossible_time_is_one_alert_a_backend_and_version_until_it_is_possible():
    store("0.6.9", timed(4096, 1e-6), timed(4096, 300e-6, backend=CUDNN), day=1)
    alert = the("impossible")
    assert alert.title == f"1 case faster than NVIDIA H200 allows: {CUTLASS}, flashinfer 0.6.9"
    assert "gemm bf16 4096 × 4096 × 7168 in 1.00\u00a0µs" in alert.sentence
    store("0.6.9", timed(4096, 1e-6), day=2)
    store("0.6.13", timed(4096, 1e-6), day=3)
    assert told(the("impossible")) == ["opened"]
    store("0.6.13", timed(4096, 300e-6), day=4)
    assert the("impossible").state == State.FIXED


def test_impossible_times_of_others_files_and_of_history_are_theirs():
    store("0.6.9", timed(4096, 1e-6), day=1, origin=Row.Origin.IMPORT)
    assert alerts("impossible") == []
    store("0.6.13", timed(4096, 300e-6), day=2)
    store("0.6.3", timed(4096, 1e-6), day=3)
    assert alerts("impossible") == []
    store("0.6.14", timed(4096, 1e-6), day=4, origin=Row.Origin.RECORDED)
    assert the("impossible").recorded
