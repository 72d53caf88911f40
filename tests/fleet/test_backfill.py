import datetime as dt

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError

from benchapp.catalog.models import Release, Target
from benchapp.fleet import asks, backfill, schedules
from benchapp.fleet.asks import Ask
from benchapp.fleet.backfill import Have
from benchapp.fleet.models import Firing, Schedule, WatchedRelease
from benchapp.runs import actions
from benchapp.runs.models import Document, Job, Run, State
from tests.fleet.machines import host

pytestmark = pytest.mark.django_db
START, END = dt.datetime(2026, 3, 2, tzinfo=dt.UTC), dt.datetime(2026, 3, 9, tzinfo=dt.UTC)


def ask(*versions: str, targets: tuple[str, ...] = ("arch:sm120",), **more) -> Ask:
    return Ask.from_json({"what": "survey", "versions": versions, "targets": targets} | more)


def gemm(*versions: str) -> Ask:
    return ask(*versions, targets=("cpu",), what="gemm", suite="cpu-smoke")


def haves(wanted: Ask) -> dict[tuple[str, str], str]:
    return {(item.version, item.target): item.have for item in backfill.items(wanted)}


def end(run: Run, *, accepted: bool) -> None:
    """The run ends, with or without an accepted document."""
    states = (State.DELIVERED, State.DONE) if accepted else (State.FAILED,)
    for state in states:
        Run.objects.filter(pk=run.pk).update(state=state, told=True)
    if accepted:
        document, _ = actions.receive(
            f"run {run.pk}".encode(), origin=Document.Origin.WORKER, run=run, attempt=1
        )
        Document.objects.filter(pk=document.pk).update(state=Document.State.ACCEPTED, target=run.target)


def test_only_what_has_no_data_is_asked_for_and_asking_again_asks_for_the_rest():
    wanted = ask("0.6.2", "0.6.3", targets=("arch:sm120", "arch:sm90"))
    first = backfill.fill(wanted, backfill.items(wanted), user=None)
    runs = {(run.recipe.versions["flashinfer"], run.params["arch"]): run for run in Run.objects.all()}
    assert len(first) == 1
    assert len(runs) == 4
    assert set(haves(wanted).values()) == {Have.UNDER_WAY}
    assert backfill.fill(wanted, backfill.items(wanted), user=None) == []
    for key, run in runs.items():
        end(run, accepted=key != ("0.6.2", "sm90"))
    assert haves(wanted)["0.6.2", "arch:sm90"] == Have.MISSING
    (again,) = backfill.fill(wanted, backfill.items(wanted), user=None)
    assert [run.params for run, _ in again.runs] == [{"arch": "sm90"}]
    assert again.runs[0][0].recipe.versions == {"flashinfer": "0.6.2"}


def test_it_makes_way_for_all_other_work():
    (asked,) = backfill.fill(ask("0.6.3"), backfill.items(ask("0.6.3")), user=None)
    assert asked.job.source == Job.Source.BACKFILL
    assert asked.runs[0][0].priority < actions.PRIORITIES[Job.Source.SCHEDULE]


def test_a_suite_has_data_of_a_stack_only_where_that_very_suite_ran_with_it():
    wanted = gemm("2.12.0", "2.13.0")
    backfill.fill(wanted, backfill.items(wanted), user=None)
    run = Run.objects.get(recipe__versions__torch="2.13.0")
    end(run, accepted=True)
    here = Target.objects.create(key="cpu:here", kind=Target.Kind.CPU, arch="x86_64")
    Document.objects.filter(run=run).update(target=here)
    assert haves(wanted) == {("2.12.0", "cpu"): Have.UNDER_WAY, ("2.13.0", "cpu"): Have.DATA}
    fewer = ask("2.13.0", targets=("cpu",), what="gemm", cases=["16x64x64:fp32"])
    assert haves(fewer) == {("2.13.0", "cpu"): Have.MISSING}


def test_a_library_of_gpus_is_backfilled_by_its_own_versions():
    host("boxa", "aaaaaaaa", "GPU-a0")
    values = {"library": "flashinfer", "what": "gemm", "cases": ["16x64x64:nvfp4"]}
    for version in ("0.6.3", "0.6.9", "0.7.0rc1"):
        Release.objects.create(package="flashinfer", version=version)
    wanted = backfill.since(ask("0.1", targets=("gpuarch:sm90",), **values), "0.6.0")
    assert wanted.versions == ("0.6.3", "0.6.9")
    few = ask("0.6.3", targets=("gpuarch:sm90",), backends=["flashinfer.mm_fp4.cutlass"], **values)
    ((run, _),) = asks.request(few, user=None, source=Job.Source.COMMAND).runs
    end(run, accepted=True)
    Document.objects.update(target=Target.objects.create(key="gpu:GPU-a0", kind="gpu", arch="sm90"))
    assert set(haves(few).values()) == {"has data"}
    assert haves(wanted) == {
        ("0.6.3", "gpuarch:sm90"): "missing", ("0.6.9", "gpuarch:sm90"): "missing",
    }, "some of the backends are not all"  # fmt: skip


def test_every_release_since_one_leaves_out_candidates_and_pre_releases():
    for version in ("0.6.2", "0.6.3", "0.6.3+candidate.0123456789ab", "0.6.4rc1", "0.6.10"):
        Release.objects.create(package="flashinfer", version=version)
    assert backfill.since(ask("newest"), "0.6.3").versions == ("0.6.3", "0.6.10")
    with pytest.raises(ValidationError, match=r"No release of flashinfer from 1.0 on"):
        backfill.since(ask("newest"), "1.0")


@pytest.fixture
def nightly() -> Schedule:
    return schedules.add(
        {"name": "nightly", "ask": ask("newest").as_json(), "cron": "0 3 * * *", "timezone": "UTC"}, None
    )


def seen(version: str, day: int, *, new: bool = True) -> None:
    at = dt.datetime(2026, 3, day, tzinfo=dt.UTC)
    WatchedRelease.objects.create(package="flashinfer-python", version=version, first_seen_at=at, new=new)


def test_a_missing_week_is_asked_for_with_what_was_newest_then(nightly):
    seen("0.6.3", 8, new=False)
    seen("0.7.0", 5)
    seen("0.7.1rc1", 2)
    gaps = backfill.gaps(nightly, START, END)
    assert {gap.ask.versions[0]: [due.day for due in gap.due] for gap in gaps} == {
        "0.6.3": [2, 3, 4], "0.7.0": [5, 6, 7, 8],
    }  # fmt: skip


def test_the_backfill_of_a_week_says_so_and_is_resumable(nightly):
    seen("0.6.3", 1)
    refused = Firing.objects.create(
        schedule=nightly, due_at=START.replace(hour=3), outcome="refused", sentence="Gone."
    )
    (asked,) = backfill.fill_gaps(nightly, backfill.gaps(nightly, START, END), user=None)
    assert asked.job.title == (
        "Backfill of nightly, 2026-03-02 to 2026-03-08: Tile survey of FlashInfer 0.6.3 on SM120"
    )
    refused.refresh_from_db()
    assert refused.job == asked.job
    assert refused.sentence == (
        "Backfilled: measured when this job ran, not when it was due. Before: could not be asked for. Gone."
    )
    assert nightly.firings.count() == 7
    assert backfill.gaps(nightly, START, END) == []
    end(asked.runs[0][0], accepted=False)
    assert [len(gap.due) for gap in backfill.gaps(nightly, START, END)] == [7]
    (again,) = backfill.fill_gaps(nightly, backfill.gaps(nightly, START, END), user=None)
    end(again.runs[0][0], accepted=True)
    assert backfill.gaps(nightly, START, END) == []


def test_a_backfill_does_not_hold_up_the_schedule(nightly):
    seen("0.6.3", 1)
    backfill.fill_gaps(nightly, backfill.gaps(nightly, START, END), user=None)
    moment = dt.datetime(2026, 4, 1, 3, tzinfo=dt.UTC)
    Schedule.objects.update(next_due=moment)
    schedules.tick(moment)
    assert nightly.firings.get(due_at=moment).outcome == Firing.Outcome.ASKED


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [(END, START, "at most 92 days"), (START, START.replace(year=2027), "at most 92 days")],
)
def test_windows_that_cannot_be_are_refused(nightly, start, end, said):
    with pytest.raises(ValidationError, match=said):
        backfill.gaps(nightly, start, end)


def test_a_window_with_too_many_due_times_is_refused(nightly):
    nightly = schedules.edit(nightly, {"cron": "*/5 * * * *"}, None)
    with pytest.raises(ValidationError, match="expected a window with at most 1,000"):
        backfill.gaps(nightly, START, END)


def test_the_command_shows_first_and_asks_then(capsys, nightly):
    seen("0.6.3", 1)
    link = "what=survey&version=0.6.3&target=arch:sm120"
    call_command("backfill", "--ask", link, "--dry-run")
    assert "0.6.3 on SM120: missing" in capsys.readouterr().out
    assert not Job.objects.exists()
    call_command("backfill", "--schedule", "nightly", "--from", "2026-03-02", "--to", "2026-03-09")
    assert "no data of 2026-03-02 03:00, 2026-03-03 03:00" in capsys.readouterr().out
    call_command("backfill", "--ask", link)
    assert "nothing is missing that is not under way" in capsys.readouterr().out
    with pytest.raises(CommandError, match="expected --from and --to"):
        call_command("backfill", "--schedule", "nightly")
    with pytest.raises(CommandError, match="no schedule called 'gone'"):
        call_command("backfill", "--schedule", "gone")


def test_schedules_by_command(capsys):
    Release.objects.create(package="flashinfer", version="0.6.3")
    link = "what=survey&version=newest&target=arch:sm120"
    call_command(
        "schedule", "add", "nightly", "--ask", link, "--cron", "0 3 * * *", "--timezone", "Europe/Berlin"
    )
    assert "nightly: At 03:00 every day (Europe/Berlin), next due" in capsys.readouterr().out
    for command in ("pause", "resume", "run"):
        call_command("schedule", command, "nightly")
    assert capsys.readouterr().out.startswith("paused\nresumed\nasked for as job ")
    call_command("schedule", "list")
    assert "Tile survey of FlashInfer newest on SM120. At 03:00 every day" in capsys.readouterr().out
    with pytest.raises(CommandError, match="cron: Expected minute"):
        call_command("schedule", "add", "other", "--ask", link, "--cron", "x")
    with pytest.raises(CommandError, match="no schedule called"):
        call_command("schedule", "run", "gone")
