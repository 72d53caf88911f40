import datetime as dt
import functools
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from benchapp.alerts.models import Event
from benchapp.fleet import releases
from benchapp.fleet.models import Installation, WatchedRelease
from benchapp.fleet.releases import PACKAGES, ask_for_new, record, watch
from benchapp.runs.models import Job, Run
from tests.fleet.machines import host
from workers.bench.suites import SUITES

pytestmark = pytest.mark.django_db
FLASHINFER, CUTLASS, *_ = PACKAGES


class Index:
    """A package index of our own on this machine, as pip reads one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def offer(self, name: str, *versions: str) -> None:
        folder = self._folder / "simple" / name
        folder.mkdir(parents=True, exist_ok=True)
        links = []
        for version in versions:
            wheel = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as members:
                about = f"{wheel.name.split('-py3')[0]}.dist-info/METADATA"
                members.writestr(about, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            links.append(f'<a href="{wheel.name}">{wheel.name}</a>')
        (folder / "index.html").write_text("<!doctype html><title>links</title>" + "\n".join(links))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    (tmp_path / "simple").mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *args: None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    yield Index(tmp_path)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


def seen(package: str = FLASHINFER.name) -> dict[str, bool]:
    return dict(WatchedRelease.objects.filter(package=package).values_list("version", "new"))


def test_the_first_look_asks_for_nothing_and_a_later_release_for_one_survey(index):
    index.offer("flashinfer-python", "0.6.3", "0.7.0rc1")
    index.offer("nvidia-cutlass", "4.2.0.0")
    assert watch() == []
    assert seen() == {"0.6.3": False, "0.7.0rc1": False}
    assert seen("nvidia-cutlass") == {"4.2.0.0": False}
    assert not Job.objects.exists()

    index.offer("flashinfer-python", "0.6.3", "0.7.0rc1", "0.7.0rc2", "0.7.0")
    index.offer("nvidia-cutlass", "4.2.0.0", "4.3.0.0")
    assert {row.version for row in watch()} == {"0.7.0", "0.7.0rc2", "4.3.0.0"}
    job = Job.objects.get()
    assert job.source == Job.Source.RELEASE_WATCH
    assert job.title == "Tile survey of FlashInfer 0.7.0 on SM120"
    assert WatchedRelease.objects.get(job=job).version == "0.7.0"
    assert not Event.objects.exists()


def test_an_index_that_is_away_is_told_once_after_a_day(no_index):
    watch()
    away = Event.objects.get()
    assert (away.kind, away.severity) == ("release_index_away", Event.Severity.INFO)
    assert "pip does not reach its package index" in away.sentence
    Event.objects.filter(pk=away.pk).update(at=away.at - dt.timedelta(hours=25))
    watch()
    releases._note(away.sentence)
    told = Event.objects.get(severity=Event.Severity.WARNING)
    assert told.sentence.startswith("No new release can be seen since")
    assert releases.away_since() == away


def test_an_index_that_came_back_is_away_anew_the_next_time():
    for fault in ("gone", "", "", "gone", "gone"):
        releases._note(fault)
    kinds = [event.kind for event in Event.objects.order_by("pk")]
    assert kinds == ["release_index_away", "release_index_back", "release_index_away"]


@pytest.mark.django_db(transaction=True)
def test_watchers_at_once_make_one_job_for_a_new_release():
    record(FLASHINFER, ["0.6.3"])
    together = threading.Barrier(4)

    def watching() -> None:
        try:
            together.wait()
            record(FLASHINFER, ["0.6.3", "0.7.0"])
            ask_for_new()
        finally:
            connection.close()

    threads = [threading.Thread(target=watching) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen() == {"0.6.3": False, "0.7.0": True}
    assert Job.objects.count() == 1
    assert Run.objects.count() == 1


def test_many_new_releases_at_once_are_surveyed_a_few_at_a_time_newest_first():
    record(FLASHINFER, ["0.6.3"])
    record(FLASHINFER, ["0.6.3", *(f"0.7.{patch}" for patch in range(8))])
    ask_for_new()
    asked = set(WatchedRelease.objects.exclude(job=None).values_list("version", flat=True))
    assert asked == {f"0.7.{patch}" for patch in range(3, 8)}
    ask_for_new()
    assert not WatchedRelease.objects.filter(new=True, job=None).exists()


def test_what_is_no_version_is_left_out():
    record(FLASHINFER, ["0.6.3", "not a version", "1." + "0" * 100, "0.6.3+cu130"])
    assert seen() == {"0.6.3": False, "0.6.3+cu130": False}
    record(FLASHINFER, ["0.6.4+cu130", "0.7.0.dev20260101"])
    assert ask_for_new() == []


# what GPUs measure of it


@pytest.fixture(autouse=True)
def kernels_alone(settings):
    """Whole models have their tests in test_model_asks."""
    settings.RELEASE_MODEL_SUITE = ""


def new_release(version: str = "0.7.0") -> list[Run]:
    record(FLASHINFER, ["0.6.3"])
    record(FLASHINFER, ["0.6.3", version])
    ask_for_new()
    return list(Run.objects.filter(kind=Run.Kind.GEMM).order_by("queue"))


def test_where_gpus_are_served_a_new_release_is_measured_too(settings):
    settings.RELEASE_SUITE = "h200-first"
    host("boxa", "aaaaaaaa", "GPU-a0", "GPU-a1")
    host("boxb", "bbbbbbbb", "GPU-b0", arch="sm120")
    runs = new_release()
    assert [run.queue for run in runs] == ["gpu.arch.sm120", "gpu.arch.sm90"]
    assert {run.params["suite"] for run in runs} == {"h200-first"}
    assert {run.recipe.versions["flashinfer"] for run in runs} == {"0.7.0"}
    survey, bench = Job.objects.order_by("pk")
    assert survey == WatchedRelease.objects.get(version="0.7.0").job
    assert bench.source == Job.Source.RELEASE_WATCH and bench == runs[0].job
    ask_for_new()
    assert Job.objects.count() == 2


def test_each_architecture_has_its_suite_where_no_setting_names_one(settings, monkeypatch):
    settings.RELEASE_SUITE = None
    monkeypatch.setattr(releases, "SUITES_BY_ARCH", {"sm90": "h200-first"})
    monkeypatch.setattr(releases, "SUITE", "cpu-smoke")
    host("boxa", "aaaaaaaa", "GPU-a0")
    host("boxb", "bbbbbbbb", "GPU-b0", arch="sm120")
    assert [run.params["suite"] for run in new_release()] == ["cpu-smoke", "h200-first"]


def test_the_suites_chosen_by_architecture_are_there():
    assert {releases.SUITE, *releases.SUITES_BY_ARCH.values()} <= set(SUITES)


@pytest.mark.parametrize("suite", ["", "no-such-suite"])
def test_without_a_suite_or_a_live_gpu_it_is_only_surveyed(settings, suite):
    settings.RELEASE_SUITE = suite
    gone = host("boxa", "aaaaaaaa", "GPU-a0")
    assert new_release() == [] and Job.objects.count() == 1
    settings.RELEASE_SUITE = "h200-first"
    Installation.objects.filter(pk=gone.pk).update(seen_at=gone.seen_at - dt.timedelta(days=1))
    assert new_release("0.7.1") == [] and Job.objects.count() == 2
