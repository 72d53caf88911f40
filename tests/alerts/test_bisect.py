"""A bisect over versions, driven by the verdicts of its A/Bs until the first bad one is named."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from benchapp.alerts import bisecting, confirm, triage
from benchapp.alerts.confirm_plan import PRIORITY
from benchapp.alerts.models import Alert, Bisect, Entry
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.models import Release
from benchapp.fleet import builds
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import actions, work
from benchapp.runs.models import Run, State
from tests.alerts.moved_alerts import answer, built, moved
from tests.alerts.nights import gpu
from tests.fleet.machines import host

VERSIONS = ["0.6.3", "0.6.4", "0.6.5", "0.6.6", "0.6.7", "0.6.7.post1", "0.6.8", "0.6.9", "0.6.10"]
FIRST, LAST = VERSIONS[0], VERSIONS[-1]

pytestmark = pytest.mark.django_db


@pytest.fixture
def box():
    for version in (*VERSIONS, "0.6.2", "0.6.11", "0.6.8rc1"):
        Release.objects.create(package="flashinfer", version=version)
    return host("box", "aaaaaaaa", "GPU-a")


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password="correct horse battery", role=Role.OPERATOR)


def alert() -> Alert:
    return moved(before=FIRST, after=LAST)


def waiting(bisect: Bisect) -> Run:
    """The run that its next step waits for."""
    run = bisect.steps.get(verdict="", run__state=State.QUEUED).run
    assert run is not None
    return run


def sides(run: Run) -> tuple[str, str]:
    return run.recipe_beside.versions["flashinfer"], run.recipe.versions["flashinfer"]


def drive(bisect: Bisect, truth: dict[tuple[str, str], str | None]) -> list[tuple[str, str]]:
    """Answer step after step by `truth`; None: the version cannot be measured. Returns what was compared."""
    compared: list[tuple[str, str]] = []
    for _ in range(30):
        bisect.refresh_from_db()
        if bisect.state != Bisect.State.RUNNING:
            return compared
        run = waiting(bisect)
        pair = sides(run)
        compared.append(pair)
        verdict = truth[pair]
        if verdict is None:
            fail(run, f"FlashInfer {pair[1]} could not be imported.")
        else:
            answer(run, {16: (verdict, 1.06 if verdict == "SLOW" else 1.001)})
    raise AssertionError("it did not end")


def fail(run: Run, sentence: str) -> None:
    assert work.claim([run.queue], "gpu-a@box/aaaaaaaa") is not None
    run.refresh_from_db()
    assert work.fail(run.pk, run.attempt, "crashed", sentence)
    actions.tell_ended()


def slow_from(version: str) -> dict[tuple[str, str], str | None]:
    """Verdicts of a change that came with one version."""
    first = VERSIONS.index(version)
    return {
        (old, new): "SLOW" if VERSIONS.index(old) < first <= VERSIONS.index(new) else "SAME"
        for old in VERSIONS
        for new in VERSIONS
    }


@pytest.mark.parametrize("first", ["0.6.4", "0.6.10"])
def test_the_first_bad_version_is_named_with_its_factor(box, first):
    bisect = bisecting.ask_bisect(alert())
    assert bisect.versions == VERSIONS, "releases in between, without pre-releases"
    compared = drive(bisect, slow_from(first))
    bisect.refresh_from_db()
    before = VERSIONS[VERSIONS.index(first) - 1]
    assert (bisect.state, bisect.first_bad) == ("found", first)
    assert bisect.sentence == f"First flashinfer {first}: SLOW ×1.060 [1.050, 1.070] against {before}."
    assert compared[0] == (FIRST, LAST)
    assert (before, first) in compared, "its own factor was measured"
    assert len(compared) == len(set(compared)) <= 5
    assert bisect.ended_at is not None


def test_the_result_stands_in_the_alert_before_all_suspects(box):
    found = alert()
    Alert.objects.filter(pk=found.pk).update(suspects=[{"component": "cutlass"}, {"component": "flashinfer"}])
    drive(bisecting.ask_bisect(found), slow_from("0.6.7"))
    first, second = Alert.objects.get(pk=found.pk).suspects
    assert (first["component"], first["before"], first["after"]) == ("flashinfer", "0.6.6", "0.6.7")
    assert first["why"].startswith("bisect: First flashinfer 0.6.7: SLOW")
    assert second == {"component": "cutlass"}
    again = Proposal(
        key=found.key, kind=Alert.Kind.STACK, title="A move", sentence="It goes on.",
        suspects=[{"component": "torch"}, {"component": "flashinfer"}],
    )  # fmt: skip
    assert open_or_join(again)[0].suspects == [first, {"component": "torch"}]
    said = list(Entry.objects.filter(alert=found, action="bisect").values_list("sentence", flat=True))
    assert said[0] == "Bisect of flashinfer over 9 versions, 0.6.3 to 0.6.10."
    assert said[-1].startswith("First flashinfer 0.6.7")


def test_each_step_keeps_all_but_the_version_and_asks_on_the_alerts_own_gpu(box):
    bisect = bisecting.ask_bisect(alert())
    run = waiting(bisect)
    assert (run.kind, run.queue, run.priority) == (Run.Kind.CONFIRM, "gpu.uuid.GPU-a", PRIORITY)
    assert run.recipe_beside.versions | {"flashinfer": LAST} == run.recipe.versions
    answer(run, {16: ("SLOW", 1.06)})
    step = bisect.steps.get(number=1)
    assert (step.verdict, step.comparison.alert, step.comparison.ratio) == ("SLOW", bisect.alert, 1.06)
    assert sides(waiting(bisect)) == (FIRST, "0.6.7")


def test_what_the_confirm_job_has_compared_is_not_compared_again(box):
    found = alert()
    answer(confirm.ask_confirm(found), {16: ("SLOW", 1.06)})
    bisect = bisecting.ask_bisect(found)
    assert [(step.new_version, step.verdict) for step in bisect.steps.all()] == [
        (LAST, "SLOW"),
        ("0.6.7", ""),
    ]


def test_it_stops_at_an_uncertain_step(box):
    bisect = bisecting.ask_bisect(alert())
    compared = drive(bisect, slow_from("0.6.8") | {(FIRST, "0.6.7"): "AMBG"})
    bisect.refresh_from_db()
    assert compared == [(FIRST, LAST), (FIRST, "0.6.7")]
    assert (bisect.state, bisect.first_bad) == ("undecided", "")
    assert bisect.sentence == (
        "It came with flashinfer 0.6.10 at the latest, and after 0.6.3: "
        "0.6.7 against 0.6.3 is uncertain ×1.001 [0.991, 1.011]."
    )


def test_a_version_that_cannot_be_measured_is_skipped(box):
    truth = slow_from("0.6.5") | dict.fromkeys([(FIRST, "0.6.7"), (FIRST, "0.6.8")], None)
    bisect = bisecting.ask_bisect(alert())
    drive(bisect, truth)
    bisect.refresh_from_db()
    assert (bisect.state, bisect.first_bad) == ("found", "0.6.5")


def test_a_range_that_cannot_be_measured_is_told(box):
    broken = {(FIRST, version): None for version in ("0.6.6", "0.6.7", "0.6.7.post1")}
    bisect = bisecting.ask_bisect(alert())
    drive(bisect, slow_from("0.6.7") | broken)
    bisect.refresh_from_db()
    assert bisect.state == "undecided"
    assert bisect.sentence.startswith("It came with flashinfer 0.6.8 at the latest, and after 0.6.5: ")
    assert bisect.sentence.endswith(" could not be measured.")


@pytest.mark.parametrize(
    ("ends", "state", "sentence"),
    [
        (
            "SAME",
            "undecided",
            "flashinfer 0.6.10 against 0.6.3: SAME ×1.001 [0.991, 1.011]. There is",
        ),
        (
            None,
            "failed",
            "flashinfer 0.6.10 could not be measured beside 0.6.3. FlashInfer 0.6.10 could",
        ),
    ],
)
def test_without_a_difference_between_both_ends_there_is_nothing_to_find(box, ends, state, sentence):
    bisect = bisecting.ask_bisect(alert())
    assert drive(bisect, {(FIRST, LAST): ends}) == [(FIRST, LAST)]
    bisect.refresh_from_db()
    assert bisect.state == state
    assert bisect.sentence.startswith(sentence)


def test_a_change_that_came_in_small_steps_is_not_blamed_on_one_version(box):
    truth = slow_from("0.6.7") | {("0.6.6", "0.6.7"): "SAME"}
    bisect = bisecting.ask_bisect(alert())
    drive(bisect, truth)
    bisect.refresh_from_db()
    assert (bisect.state, bisect.first_bad) == ("undecided", "")
    assert bisect.sentence.endswith("yet SAME ×1.001 [0.991, 1.011] against 0.6.6: it came in small steps.")


def test_the_versions_that_may_come_next_are_built_ahead_and_not_called_off(box):
    bisect = bisecting.ask_bisect(alert())
    answer(waiting(bisect), {16: ("SLOW", 1.06)})
    ahead = Run.objects.filter(kind=Run.Kind.BUILD, priority=builds.AHEAD_PRIORITY)
    assert {run.recipe.versions["flashinfer"] for run in ahead} >= {"0.6.5", "0.6.8"}
    builds.ask_for_builds()
    assert {run.state for run in ahead.all()} == {State.QUEUED}
    assert bisecting.cancel_bisect(bisect, User.objects.create_user("ann", role=Role.OPERATOR))
    builds.ask_for_builds()
    assert {run.state for run in ahead.all()} == {State.CANCELLED}


def test_one_bisect_an_alert_and_a_person_may_end_it(box, ann):
    found = alert()
    bisect = bisecting.ask_bisect(found, ann)
    assert bisecting.ask_bisect(found, ann) == bisect
    run = waiting(bisect)
    assert bisecting.cancel_bisect(bisect, ann)
    assert not bisecting.cancel_bisect(bisect, ann)
    bisect.refresh_from_db()
    run.refresh_from_db()
    assert (bisect.state, bisect.sentence, run.state) == ("cancelled", "Cancelled by ann.", State.CANCELLED)
    assert set(AuditEntry.objects.filter(user=ann).values_list("action", flat=True)) >= {
        "ask_bisect", "cancel_bisect", "cancel_run",
    }  # fmt: skip
    assert bisecting.ask_bisect(found, ann) != bisect


def test_cancelling_the_run_of_a_step_ends_the_bisect(box, ann):
    bisect = bisecting.ask_bisect(alert())
    run = waiting(bisect)
    actions.cancel(run, ann)
    bisect.refresh_from_db()
    assert (bisect.state, bisect.sentence) == ("cancelled", f"Run {run.pk}, one of its steps, was cancelled.")


def test_a_bisect_ends_with_its_alert(box, ann):
    found = alert()
    bisect = bisecting.ask_bisect(found, ann)
    run = waiting(bisect)
    triage.close(found.pk, ann, Alert.State.WONT_FIX, "it is so upstream")
    bisect.refresh_from_db()
    run.refresh_from_db()
    assert (bisect.state, bisect.sentence) == ("cancelled", "Called off: its alert was closed.")
    assert run.state == State.CANCELLED


def test_a_step_whose_end_was_missed_is_taken_up(box):
    bisect = bisecting.ask_bisect(alert())
    answer(waiting(bisect), {16: ("SLOW", 1.06)})
    Run.objects.filter(pk=waiting(bisect).pk).update(state=State.RUNNING)
    Run.objects.filter(state=State.RUNNING).update(state=State.FAILED, told=True, failure="It was lost.")
    assert bisecting.go_on() == 1
    assert bisecting.go_on() == 0
    assert sides(waiting(bisect))[1] in ("0.6.6", "0.6.7.post1")


def test_versions_can_be_chosen(box):
    bisect = bisecting.ask_bisect(alert(), versions=["0.6.9", "0.6.3", "0.6.5"])
    assert bisect.versions == ["0.6.3", "0.6.5", "0.6.9"]
    with pytest.raises(ValidationError, match="is not a version"):
        bisecting.ask_bisect(moved({32: (1e-5, 2e-5)}, key="other"), versions=["0.6.9", "<script>"])


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (["0.0.1", "0.0.2"], "0.0.1 is not between 0.6.3 and"),
        (["0.6.3", "0.6.3.0"], "two versions or more"),
    ],
)
def test_versions_that_cannot_hold_the_change_are_refused(box, versions, said):
    with pytest.raises(ValidationError, match=said):
        bisecting.ask_bisect(alert(), versions=versions)


def test_a_downgrade_is_searched_from_the_newer_to_the_older(box):
    bisect = bisecting.ask_bisect(moved(before=LAST, after=FIRST))
    assert bisect.versions == VERSIONS[::-1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": Alert.Kind.MACHINE}, "Only what moved with a version can be bisected."),
        ({"before": "0.6.3", "after": "0.6.4"}, "No release of flashinfer is known between 0.6.3 and 0.6.4"),
        ({"before": "0.6.9", "after": "0.6.9"}, "Both sides are of one stack"),
        ({"target": gpu("recorded-h200-a")}, "No host here has this NVIDIA H200"),
    ],
)
def test_what_cannot_be_bisected_says_why(box, options, sentence):
    with pytest.raises(ValidationError, match=sentence):
        bisecting.ask_bisect(moved(**options))
    assert not Bisect.objects.exists()


def test_a_growth_in_build_cost_is_bisected_by_a_compiler_without_a_gpu(box):
    bisect = bisecting.ask_bisect(built(before=FIRST, after=LAST))
    run = waiting(bisect)
    assert (run.queue, run.params["bench"]) == ("build.aaaaaaaa", "modules")
    truth = slow_from("0.6.6")
    for _ in range(10):
        bisect.refresh_from_db()
        if bisect.state != Bisect.State.RUNNING:
            break
        run = waiting(bisect)
        verdict = truth[sides(run)]
        answer(run, {0: (verdict, 1.5 if verdict == "SLOW" else 1.0)}, metric="cpu_time")
    assert (bisect.state, bisect.first_bad) == ("found", "0.6.6")
