import datetime as dt

import pytest
from django.test import Client

from benchapp.fleet import releases, schedules
from benchapp.fleet.models import Candidate, Firing, Schedule, WatchedRelease
from benchapp.people.models import User
from benchapp.runs.models import Job, Run
from tests.tiles_bench.conftest import macro, unit, wheel_files, write_wheel

pytestmark = pytest.mark.django_db
LINK = "/trigger/?what=survey&version=0.6.3&target=arch:sm120"
ASK = {"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120"]}
FORM = {
    "name": "nightly", "ask": LINK, "cron": "0 3 * * *", "unit": "3600", "timezone": "Europe/Berlin",
    "missed": "skip", "skip_if_running": "on",
}  # fmt: skip


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", role="operator"))
    return client


@pytest.fixture
def schedule() -> Schedule:
    fields = {"name": "nightly", "ask": ASK, "cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    return schedules.add(fields, None)


def text(response) -> str:
    return response.content.decode()


def test_the_list_says_what_when_and_what_came_of_it(client, schedule):
    schedules.run_now(schedule, None)
    page = text(client.get("/fleet/schedules/"))
    for said in (
        "1 schedule.", "Tile survey of FlashInfer 0.6.3 on SM120", "At 03:00 every day (Europe/Berlin)",
        "queued", "03:00</time>",
    ):  # fmt: skip
        assert said in page


def test_without_schedules_the_page_says_how_to_make_one(client):
    assert "Nothing is scheduled" in text(client.get("/fleet/schedules/"))


def test_a_schedule_is_made_from_a_link_of_the_trigger_page(operator):
    form = text(operator.get("/fleet/schedules/new?what=survey&version=0.6.3&target=arch:sm120"))
    assert "/trigger/?what=survey&amp;version=0.6.3&amp;target=arch:sm120" in form
    made = operator.post("/fleet/schedules/new", FORM)
    schedule = Schedule.objects.get()
    assert made.headers["Location"] == f"/fleet/schedules/{schedule.pk}/"
    assert (schedule.ask, schedule.cron, schedule.missed) == (ASK, "0 3 * * *", "skip")
    assert schedule.created_by.username == "ada"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cron": "0 25 * * *"}, "the hour of"),
        ({"cron": "", "every": ""}, "Expected either a cron expression or an interval."),
        ({"every": "2"}, "Expected either a cron expression or an interval."),
        ({"cron": "", "every": "1", "unit": "60"}, "Expected 300 to"),
        ({"timezone": "Berlin"}, "did you mean Europe/Berlin?"),
        ({"ask": "what=survey&version=0.6.3&target=moon"}, "is no target"),
        ({"ask": "hello"}, "cannot be asked for"),
        ({"missed": "maybe"}, "not one of the available choices"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(operator, change, said):
    refused = operator.post("/fleet/schedules/new", FORM | change)
    assert refused.status_code == 422
    assert said in text(refused)
    assert not Schedule.objects.exists()


def test_two_schedules_of_one_name_are_refused(operator, schedule):
    assert "There is a schedule called nightly already" in text(operator.post("/fleet/schedules/new", FORM))


def test_editing_shows_what_was_entered(operator, schedule):
    schedules.edit(schedule, {"cron": "", "interval_s": 21_600}, None)
    page = text(operator.get(f"/fleet/schedules/{schedule.pk}/edit"))
    assert 'value="6"' in page
    change = FORM | {"cron": "", "every": "2", "unit": "86400", "missed": "run"}
    del change["skip_if_running"]
    operator.post(f"/fleet/schedules/{schedule.pk}/edit", change)
    schedule.refresh_from_db()
    assert (schedule.interval_s, schedule.skip_if_running) == (172_800, False)


def test_the_buttons_do_what_they_say(operator, schedule):
    def press(name: str) -> str:
        return text(operator.post(f"/fleet/schedules/{schedule.pk}/{name}", follow=True))

    assert "is paused" in press("pause")
    assert "Paused" in text(operator.get(f"/fleet/schedules/{schedule.pk}/"))
    assert "due again from now on" in press("resume")
    assert "Asked for as job" in press("run")
    assert "pause it instead of deleting it" in press("delete")
    Firing.objects.all().delete()
    assert "is deleted" in press("delete")
    assert operator.post(f"/fleet/schedules/{schedule.pk}/run").status_code == 404


def test_run_now_says_which_runs_under_way_it_joined(operator, schedule):
    def press() -> str:
        return text(operator.post(f"/fleet/schedules/{schedule.pk}/run", follow=True))

    assert "Joined" not in press()
    run = Run.objects.get()
    page = press()
    assert page.count(f"Joined run {run.pk}, which was under way already.") == 2, "above and in its history"
    assert Run.objects.count() == 1
    schedules.edit(schedule, {"ask": ASK | {"versions": ["0.6.3", "0.6.2"]}}, None)
    page = press()
    job = Job.objects.latest("pk")
    assert f"Asked for as job {job.pk}, and joined run {run.pk}, which was under way already." in page


def test_only_operators_write(client, schedule):
    client.force_login(User.objects.create_user("eve", role="viewer"))
    for address in ("new", f"{schedule.pk}/pause", f"{schedule.pk}/run", f"{schedule.pk}/delete"):
        assert client.post(f"/fleet/schedules/{address}", FORM).status_code == 403
    for address in ("backfill/fill", "candidates/add"):
        assert client.post(f"/fleet/{address}", {}).status_code == 403
    assert not Run.objects.exists()
    assert "Run now" not in text(client.get(f"/fleet/schedules/{schedule.pk}/"))


def test_the_backfill_page_shows_what_is_missing_and_asks_for_it(operator):
    page = text(operator.get("/fleet/backfill/", {"ask": LINK}))
    assert "1 of 1 missing" in page
    operator.post("/fleet/backfill/fill", {"ask": LINK, "since": ""})
    job = Job.objects.get()
    assert (job.source, job.title) == (
        Job.Source.BACKFILL, "Backfill: Tile survey of FlashInfer 0.6.3 on SM120",
    )  # fmt: skip
    assert "under way" in text(operator.get("/fleet/backfill/", {"ask": LINK}))
    again = text(operator.post("/fleet/backfill/fill", {"ask": LINK, "since": ""}, follow=True))
    assert "Nothing is missing that is not under way" in again
    assert Job.objects.count() == 1


def test_a_window_of_a_schedule_is_backfilled(operator, schedule):
    window = {"schedule": schedule.pk, "start": "2026-03-02", "end": "2026-03-04"}
    assert "3 due times without data" in text(operator.get("/fleet/backfill/", window))
    operator.post("/fleet/backfill/fill", window)
    assert Job.objects.get().title.startswith("Backfill of nightly, 2026-03-02 to 2026-03-04: Tile survey")
    assert schedule.firings.count() == 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"ask": "what=explore&version=0.6.3&target=arch:sm120"}, "explore cannot be backfilled"),
        ({"ask": LINK, "since": "9.9"}, "No release of flashinfer from 9.9 on is known here"),
        ({"ask": "what=nonsense"}, "cannot be asked for"),
        ({"schedule": "77", "start": "2026-03-02", "end": "2026-03-04"}, "Select a valid choice"),
    ],
)
def test_a_backfill_that_cannot_be_is_explained(operator, query, said):
    assert said in text(operator.get("/fleet/backfill/", query))
    assert operator.post("/fleet/backfill/fill", query).status_code in (302, 422)
    assert not Run.objects.exists()


def test_new_releases_are_told_on_the_overview_and_their_page(client):
    flashinfer, cutlass, *_ = releases.PACKAGES
    assert "has not been asked yet" in text(client.get("/fleet/releases/"))
    for offered in (["0.6.3", "0.7.0rc1"], ["0.6.3", "0.7.0rc1", "0.7.0", "0.7.1rc1"]):
        releases.record(flashinfer, offered)
    releases.record(cutlass, ["4.2.0.0"])
    releases.ask_for_new()
    page = text(client.get("/fleet/releases/"))
    assert "Newest: FlashInfer 0.7.0" in page
    assert "pre-release: none" in page
    overview = text(client.get("/"))
    assert "<strong>FlashInfer 0.7.0</strong>" in overview
    assert "0.7.1rc1" not in overview
    WatchedRelease.objects.update(first_seen_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert "New releases" not in text(client.get("/"))


def test_a_wheel_sent_by_a_browser_becomes_a_candidate_and_is_surveyed(operator, tmp_path):
    wheel = write_wheel(tmp_path / "patched.whl", wheel_files({"a.cu": unit(macro((128, 128, 128)))}))
    with wheel.open("rb") as sent:
        operator.post("/fleet/candidates/add", {"path": sent, "base": "0.6.3", "note": "one stage less"})
    candidate = Candidate.objects.get()
    assert (candidate.origin, candidate.note) == ("patched.whl", "one stage less")
    page = text(operator.get("/fleet/candidates/"))
    assert candidate.version in page
    asked = operator.post(f"/fleet/candidates/{candidate.pk}/survey", {"arch": "sm121"})
    run = Run.objects.get()
    assert asked.headers["Location"] == f"/runs/{run.pk}/"
    assert run.params == {"arch": "sm121", "candidate": candidate.sha256}
    operator.post(f"/fleet/candidates/{candidate.pk}/survey", {"arch": "moon"})
    assert Run.objects.count() == 1


def test_a_file_that_is_no_wheel_is_refused_beside_its_field(operator, tmp_path):
    (tmp_path / "text.whl").write_text("no wheel")
    with (tmp_path / "text.whl").open("rb") as sent:
        refused = operator.post("/fleet/candidates/add", {"path": sent, "base": "new", "note": ""})
    assert refused.status_code == 422
    assert "is not a version" in text(refused)
    assert not Candidate.objects.exists()
