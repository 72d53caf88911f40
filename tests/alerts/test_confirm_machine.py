"""A machine's alert: its cases are measured again with the recipe that they had, beside reference cases."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.alerts import confirm
from benchapp.alerts.confirm_machine import FEWEST, PROCESSES, compare
from benchapp.alerts.models import Alert
from benchapp.ingest.actions import ingest
from benchapp.runs import work
from benchapp.runs.models import Run, State
from tests.alerts.moved_alerts import opened
from tests.alerts.nights import OWN, SQUARE, gpu, measured, night
from tests.fleet.machines import host
from workers.bench.document import Document, Statistics

LEVELS = st.floats(1e-6, 1e-2)
BEFORE, AFTER = 1.00e-5, 1.05e-5


@given(LEVELS, LEVELS, st.lists(LEVELS, max_size=9))
def test_all_processes_or_none_have_to_be_at_the_new_level(before: float, after: float, medians: list[float]):
    found = compare(before, after, medians or [before])
    assert 0 <= found.moved <= found.processes
    assert found.low <= found.ratio <= found.high
    if found.verdict in ("SLOW", "FAST"):
        assert found.moved == found.processes >= FEWEST
        assert (found.verdict == "SLOW") == (after > before)
    elif found.verdict == "SAME":
        assert found.moved == 0
        assert found.processes >= FEWEST


@pytest.mark.parametrize(
    ("medians", "verdict"),
    [
        ([AFTER] * 5, "SLOW"),
        ([BEFORE] * 5, "SAME"),
        ([BEFORE * 0.9] * 5, "SAME"),
        ([AFTER * 1.1] * 5, "SLOW"),
        ([AFTER, AFTER, AFTER, AFTER, BEFORE], "AMBG"),
        ([AFTER] * (FEWEST - 1), "AMBG"),
    ],
)
def test_a_case_is_at_the_level_that_all_its_processes_are_nearer_to(medians, verdict):
    assert compare(BEFORE, AFTER, medians).verdict == verdict


def drifted(*, reference: float | None = 1.5e-3) -> Alert:
    """A GPU whose products take longer since the second night, with one stack."""
    host("box", "aaaaaaaa", "GPU-a")
    levels = {16: (BEFORE, AFTER), 32: (BEFORE, 1.04e-5)}
    sides = [night(day, {m: each[day] for m, each in levels.items()}, reference=reference) for day in (0, 1)]
    return opened(levels, sides, kind=Alert.Kind.MACHINE, key="machine")


def deliver(run: Run | None, medians: dict[int, list[float]], reference: float = 1.5e-3, flags=()) -> None:
    """What the run measured: fresh processes' medians by M."""
    assert run is not None and work.claim([run.queue], "gpu-a@box/aaaaaaaa") is not None
    at = Run.objects.get(pk=run.pk).created_at
    items = []
    for m, values in medians.items():
        item = measured(m, values[0], at, flags=flags)
        items.append(_with(item, values))
    items.append(_with(measured(SQUARE, reference, at, backend="torch.mm", square=True), [reference] * 5))
    document = Document(
        kind="gemm", command=("python",), started_at=at.isoformat(), finished_at=at.isoformat(), target=gpu(),
        stack={"torch": "2.11.0", "python": "3.12.3", "flashinfer": "0.6.9", "cutlass": "4.4.2"},
        measurements=tuple(items),
    )  # fmt: skip
    stored = ingest(work.deliver(run.pk, 1, document.dumps().encode()))
    assert stored.state == "accepted", stored.fault


def _with(item, values: list[float]):
    middle = sorted(values)[len(values) // 2]
    spread = Statistics(len(values), middle, min(values), max(values), min(values))
    return dataclasses.replace(item, process_medians=tuple(values), samples=tuple(values), statistics=spread)


@pytest.mark.django_db
def test_the_same_cases_are_measured_again_in_fresh_processes_with_a_reference():
    alert = drifted()
    assert confirm.ask_waiting() == 1
    run = Alert.objects.get(pk=alert.pk).confirm_run
    assert (run.kind, run.queue) == (Run.Kind.GEMM, "gpu.uuid.GPU-a")
    assert run.recipe.versions["flashinfer"] == "0.6.9"
    assert run.params["processes"] == PROCESSES
    assert run.params["foreign"] == "flag"
    assert [case["m"] for case in run.params["cases"]] == [16, 32, SQUARE]
    assert run.params["backends"] == [OWN, "torch.mm"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("medians", "verdict", "state"),
    [
        ({16: [AFTER] * 5, 32: [1.04e-5] * 5}, "SLOW", "new"),
        ({16: [BEFORE] * 5, 32: [BEFORE] * 5}, "SAME", "invalid"),
        ({16: [AFTER] * 5, 32: [BEFORE] * 5}, "AMBG", "new"),
    ],
)
def test_what_is_measured_decides_whether_it_is_still_so(medians, verdict, state):
    alert = drifted()
    deliver(confirm.ask_confirm(alert), medians)
    found = Alert.objects.get(pk=alert.pk)
    assert (found.verdict, found.confirm, found.state) == (verdict, "done", state)
    assert "of 5 fresh processes are at the new level" in found.confirm_sentence


@pytest.mark.django_db
def test_the_reference_case_tells_the_machine_from_what_ran_on_it():
    alert = drifted()
    deliver(confirm.ask_confirm(alert), {16: [AFTER] * 5}, reference=1.65e-3, flags=("contended",))
    said = Alert.objects.get(pk=alert.pk).confirm_sentence
    assert "Reference gemm bf16 8192 × 8192 × 8192: ×1.097 of before." in said
    assert "Another program was on the GPU meanwhile." in said


@pytest.mark.django_db
def test_a_run_without_fresh_processes_decides_nothing():
    alert = drifted(reference=None)
    run = confirm.ask_confirm(alert)
    assert [case["m"] for case in run.params["cases"]] == [16, 32]
    deliver(run, {64: [AFTER] * 5})
    found = Alert.objects.get(pk=alert.pk)
    assert found.confirm == "cannot"
    assert found.confirm_sentence == f"Run {run.pk} measured none of its cases in fresh processes."
    assert Run.objects.get(pk=run.pk).state == State.DONE
