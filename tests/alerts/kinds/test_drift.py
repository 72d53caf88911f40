"""A GPU that grows slower over weeks, or is slower than its siblings."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest
from django.utils import timezone

from benchapp.alerts.kinds import drift
from benchapp.alerts.kinds.reference import is_reference
from benchapp.alerts.models import Alert
from benchapp.catalog.models import Case
from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from tests.alerts.kinds.stored import alerts, the, told
from tests.trends.cases import timed
from tests.trends.gemms import H200
from workers.bench.document import Document
from workers.bench.suites import SUITES

COPY = "copy:bytes=2147483648"
OTHER = {"case": "rmsnorm:tokens=64,hidden=7168,dtype=bf16", "backend": "flashinfer.rmsnorm"}
pytestmark = pytest.mark.django_db


def store(
    nights, *, target=H200, case=COPY, backend="torch.copy_", origin=Row.Origin.WORKER, level=1e-3, **stack
):
    """One document of one reference case. `nights` are (days ago, seconds / level)."""
    now = timezone.now()
    at = [
        f"{now - dt.timedelta(days=ago, minutes=len(nights) - i):%Y-%m-%dT%H:%M:%S}Z"
        for i, (ago, _) in enumerate(nights)
    ]
    document = Document(
        kind="gemm",
        command=("python", "-m", "workers.bench", "gemm"),
        started_at=at[0],
        finished_at=at[-1],
        target=target,
        stack={"torch": "2.11.0", "driver": "580"} | stack,
        measurements=tuple(
            dataclasses.replace(timed(case, level * each, backend=backend, l2="unknown"), measured_at=moment)
            for (_, each), moment in zip(nights, at, strict=True)
        ),
    )
    row, _ = receive(document.dumps().encode(), origin=origin, name="reference.json")
    assert ingest(row.pk).state == Row.State.ACCEPTED


#: 0.3 % slower every night of three weeks.
SLOWER = [(ago, 1.003 ** (20 - ago)) for ago in range(20, -1, -1)]


def test_a_gpu_that_grows_slower_over_weeks_drifts_and_is_told_once():
    store(SLOWER)
    drift.sweep()
    drift.sweep()
    alert = the("drift")
    assert alert.title == "NVIDIA H200 drifts: GPU-1 on box"
    assert "grew 6.1" in alert.sentence and "over 20 days" in alert.sentence
    assert (alert.host.name, alert.target.uuid, told(alert)) == ("box", "GPU-1", ["opened"])
    assert alert.ratio == pytest.approx(1.003**20, rel=0.01)


def test_it_closes_itself_once_the_machine_is_as_fast_again():
    store(SLOWER)
    drift.sweep()
    store([(ago, 1.0) for ago in range(20, -1, -1) for _ in range(2)])  # most of each day
    drift.sweep()
    assert (the("drift").state, told(the("drift"))) == (Alert.State.FIXED, ["opened", "closed"])


@pytest.mark.parametrize("how", [{"origin": Row.Origin.IMPORT}, OTHER])
def test_imported_files_and_other_cases_show_no_drift(how):
    store(SLOWER, **how)
    drift.sweep()
    assert alerts("drift") == []


def test_another_driver_is_no_drift_and_recorded_history_is_marked():
    store(SLOWER[:14], driver="580")
    store(SLOWER[14:], driver="590")
    drift.sweep()
    assert alerts("drift") == []
    store(SLOWER, origin=Row.Origin.RECORDED, target=dataclasses.replace(H200, uuid="GPU-9"))
    drift.sweep()
    assert the("drift").recorded


def test_a_gpu_slower_than_its_siblings_is_told_and_one_of_two_is_not():
    gpus = [dataclasses.replace(H200, uuid=f"GPU-{i}") for i in range(4)]
    store([(0, 1.2)], target=gpus[0])
    store([(0, 1.0)], target=gpus[1])
    drift.sweep()
    assert alerts("drift") == []
    for gpu in gpus[2:]:
        store([(0, 1.001)], target=gpu)
    drift.sweep()
    alert = the("drift")
    assert alert.target.uuid == "GPU-0"
    assert "19.9\u00a0% more than on 3 other GPUs like it" in alert.sentence
    store([(0, 1.0)] * 5, target=gpus[0])
    drift.sweep()
    alert.refresh_from_db()
    assert alert.state == Alert.State.FIXED


CLOSED = ("fixed", "wont_fix", "machine")


@pytest.mark.parametrize("state", CLOSED)
def test_what_a_person_closed_is_no_news_until_another_case_drifts(state):
    store(SLOWER)
    drift.sweep()
    Alert.objects.update(state=state, closed_at=timezone.now())
    drift.sweep()
    assert len(alerts("drift")) == 1
    store(SLOWER, case="empty_kernel:timer=cupti", backend="torch.fill_", level=1e-6)
    drift.sweep()
    assert len(alerts("drift")) == 2


@pytest.mark.parametrize("state", CLOSED)
def test_what_a_person_closed_is_news_again_once_it_did_not_drift(state):
    store(SLOWER)
    drift.sweep()
    Alert.objects.update(state=state, closed_at=timezone.now())
    store([(ago, 1.0) for ago in range(20, -1, -1) for _ in range(2)])  # most of each day
    drift.sweep()
    store([(ago, 1.003 ** (20 - ago)) for ago in range(20, -1, -1) for _ in range(4)])
    drift.sweep()
    assert len(alerts("drift")) == 2


def test_the_reference_suite_is_of_reference_cases_alone():
    backends = {"copy": "torch.copy_", "empty_kernel": "torch.fill_"}
    assert len(SUITES["reference"]) >= 4
    for case in SUITES["reference"]:
        row = Case(kind=case.kind, params=case.params)
        assert is_reference(row, backends.get(case.kind, "torch.mm"))
        assert not is_reference(row, "flashinfer.mm_bf16.cudnn")
    assert set(SUITES["reference"]) <= set(SUITES["h200-core"])
