"""The overview: its sentence, what it counts, and what its polled fragments say."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip

import pytest
from django.conf import settings
from django.utils import timezone

from benchapp.alerts.models import Alert, Event
from benchapp.ingest.actions import ingest
from benchapp.runs import actions, work
from benchapp.runs.models import Document, Job, Run, State
from benchapp.runs.requests import request_cpu_gemm
from benchapp.web import queries
from tests.alerts.pages import made
from tests.fleet.reporting import report, take, uuid_of
from tests.ingest.documents import body, gemm, measurement
from tests.moe import loads
from tests.querycount import at_most
from tests.runs_pages.work import failed_survey, gemm_done, many, running_survey
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey, variant
from workers.bench.document import Target

pytestmark = pytest.mark.django_db


def page(client, url: str = "/") -> str:
    response = client.get(url)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def recorded(*measurements) -> Document:
    h200 = Target("gpu", "sm90", model="NVIDIA H200", uuid="GPU-1", host="there")
    row, _ = actions.receive(body(gemm(*measurements, target=h200)), origin=Document.Origin.RECORDED)
    return ingest(row.pk)


def test_an_empty_overview_says_what_will_come_and_how_to_ask(client):
    html = page(client)
    assert "No data yet, and nothing has been asked for." in html
    assert "manage.py survey --flashinfer 0.6.3" in html
    assert "No target has data yet." in html


def test_the_first_jobs_are_shown_in_motion(client):
    running_survey()
    html = page(client)
    assert "1 run under way or queued." in html
    assert 'max="40" value="14"' in html and "14 of 40: compiling group 2" in html
    assert 'hx-trigger="every 2s"' in html


def test_a_fit_that_came_with_tilewatch_is_labelled(client):
    labelled = '<span class="tag recorded">recorded</span> found'
    survey_0_6_3 = survey("0.6.3", "4.2.1", findings_of(IN_0_6_3))
    row, _ = actions.receive(survey_0_6_3.dumps().encode(), origin=Document.Origin.RECORDED)
    ingest(row.pk)
    assert labelled in page(client)
    store(dataclasses.replace(survey_0_6_3, producer="another"))
    assert labelled not in page(client)


def test_an_idle_overview_polls_slowly(client):
    assert 'hx-trigger="every 15s"' in page(client)


@pytest.mark.parametrize("number", [0, 1, 200])
def test_the_number_of_queries_does_not_grow(client, number):
    many(number)
    for n in range(min(number, 20)):
        gemm_done(measurement(n + 1))
    if number:
        failed_survey()
        store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    with at_most(25):
        page(client)
    with at_most(4):
        page(client, "/now")


def test_a_failed_run_and_a_refused_document_need_a_look(client):
    run = failed_survey()
    row, _ = actions.receive(b"{}", origin=Document.Origin.FILE, name="<b>bad.json")
    ingest(row.pk)
    html = page(client)
    assert "2 things need a look." in html
    assert f"Run {run.pk}: Tile survey of FlashInfer 9.9.9" in html
    assert "&lt;b&gt;bad.json" in html
    Event.objects.create(
        kind="rows_in_default", severity="warning", subject="s", sentence="x", dedupe_key="1"
    )
    assert "3 things need a look." in page(client)


def test_a_failure_made_good_by_an_equal_run_needs_no_look():
    failed_survey()
    assert len(queries.needs_a_look()) == 1
    again = running_survey("9.9.9")
    Run.objects.filter(pk=again.pk).update(state=State.DONE)
    assert queries.needs_a_look() == []


def test_a_failure_of_last_week_is_history():
    run = failed_survey()
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now() - dt.timedelta(days=8))
    assert queries.needs_a_look() == []


def test_a_lost_gpu_that_is_back_needs_no_look():
    for number, (kind, severity) in enumerate([("gpu_lost", "error"), ("gpu_back", "info")]):
        Event.objects.create(
            kind=kind, severity=severity, subject="GPU 3 of boxb", sentence=kind, dedupe_key=str(number)
        )
        assert len(queries.needs_a_look()) == 1 - number
    Event.objects.create(
        kind="gpu_lost", severity="error", subject="GPU 3 of boxb", sentence="again", dedupe_key="2"
    )
    assert [look.sentence for look in queries.needs_a_look()] == ["again"]


def test_the_overview_says_how_the_fleet_is(client):
    assert "python -m workers up" in page(client)
    take(report("boxa", gpus=2), report("boxb", gpus=2))
    take(report("boxb", gpus=1, missing=[uuid_of("boxb", 1)]))
    html = page(client)
    assert "of 4 GPUs working · 2 hosts" in html
    assert "▲ 1 to look at" in html and "GPU 1 of boxb no longer answers, last seen" in html


def test_variants_that_fit_are_counted_whatever_their_output_type(client):
    for output in ("bf16", "f16"):
        store(survey("0.6.3", "4.2.1", [f for row in IN_0_6_3 for f in variant(*row, output=output)]))
    fit = queries.newest_fit()
    assert (fit.arch, fit.version, fit.fit, fit.total) == ("sm120", "0.6.3", 14, 16)
    assert 'class="v">14 <span class="u">of 16 · FlashInfer 0.6.3' in page(client)


def test_kernels_that_no_release_ships_are_not_counted_as_a_releases():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    explored = [dataclasses.replace(f, family="explored_grouped_gemm") for f in findings_of(IN_0_6_3[:2])]
    document = survey("0.6.3", "4.2.1", explored, day=2)
    store(dataclasses.replace(document, stack={"cutlass": "4.5.0", "nvcc": "13.0.88"}))
    dense = [dataclasses.replace(f, family="mm_fp4") for f in findings_of(IN_0_6_3[:1])]
    store(survey("0.6.3", "4.2.1", dense, day=3))
    fit = queries.newest_fit()
    assert (fit.version, fit.fit, fit.total) == ("0.6.3", 14, 16)


def test_whether_tiles_were_tried_on_a_device_is_said(client):
    one = variant(*IN_0_6_3[0])
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    assert "not run on a device" in page(client)
    ran = dataclasses.replace(one[-1], stage="ran", source="device", tier=None, log=None)
    store(survey("0.6.3", "4.2.1", [ran], day=2))
    assert queries.newest_fit().fit == 14
    html = page(client)
    assert "1 of 16 tried on a device" in html and "not run on a device" not in html


def test_the_newest_release_is_by_version_and_not_by_time():
    store(survey("0.6.10", "4.4.2", findings_of(IN_0_6_3[4:]), day=1))
    store(survey("0.6.9", "4.4.2", findings_of(IN_0_6_3), day=2))
    assert queries.newest_fit().version == "0.6.10"


def test_only_what_may_rank_is_the_fastest(client):
    gemm_done(
        measurement(1, median=1e-3),
        measurement(16, median=1e-9, outcome="incorrect"),
        measurement(64, outcome="crashed", statistics=None, samples=()),
        measurement(128, outcome="unsupported", statistics=None, samples=()),
    )
    (fastest,) = queries.fastest_gemm()
    assert fastest.measurement.series.case.params["m"] == 1
    assert fastest.rate == pytest.approx(2.0 * 1024 * 1024 / 1e-3)
    assert "2 without a usable newest result" in page(client)
    assert "1 not supported there" in page(client)


def test_a_share_of_the_roofline_is_said_where_the_peak_is_known(client):
    recorded(measurement(16, median=1e-5))
    gemm_done()
    shares = {str(f.document.target): f.share for f in queries.fastest_gemm()}
    # 16 × 1024 × 1024 in bf16 moves 2.16 MB: 0.45 µs at the H200's 4.8 TB/s
    assert shares["NVIDIA H200"] == pytest.approx((2.0 * (16 * 2048 + 1024 * 1024)) / 4.8e12 / 1e-5, rel=1e-3)
    assert shares["Test CPU"] is None
    assert page(client).count("of roofline") == 1


def test_recorded_data_is_labelled_and_is_no_newest_data(client):
    recorded(measurement())
    html = page(client)
    assert "Nothing was measured here yet; what stands below was recorded elsewhere." in html
    assert html.count('<span class="tag recorded">recorded</span>') == 3
    gemm_done()
    assert "Newest data <time" in page(client)


def test_coverage_has_a_row_a_target_and_a_column_a_kind():
    recorded(measurement())
    gemm_done()
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    rows = [(str(c.target), c.recorded, [at is not None for at in c.ages]) for c in queries.coverage()]
    assert rows == [
        ("SM120", False, [True, False, False, False]),
        ("Test CPU", False, [False, True, False, False]),
        ("NVIDIA H200", True, [False, True, False, False]),
    ]


def test_what_runs_is_not_sent_again_while_nothing_changes(client):
    run = running_survey()
    first = client.get("/now")
    assert client.get("/now", headers={"If-None-Match": first["ETag"]}).status_code == 304
    Run.objects.filter(pk=run.pk).update(progress_done=20)
    assert client.get("/now", headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_run_waits_for_another_only_until_that_ended(client):
    first = running_survey()
    request_cpu_gemm("cpu-smoke", user=None, source=Job.Source.FIRST_START, waits_for=first)
    assert f"Waits for run {first.pk} to end." in page(client)
    work.fail(first.pk, 1, "x", "It failed.")
    assert "Waits for run" not in page(client)


def test_results_are_announced_when_a_run_ends_and_not_at_every_step(client):
    run = running_survey()
    seen = queries.motion().pulse
    Run.objects.filter(pk=run.pk).update(progress_done=20)
    assert "HX-Trigger" not in client.get(f"/now?seen={seen}")
    work.fail(run.pk, 1, "x", "It failed.")
    assert client.get(f"/now?seen={seen}")["HX-Trigger"] == "results"


def test_the_findings_bring_their_sentence(client):
    html = page(client, "/findings")
    assert 'id="lede" hx-swap-oob="true"' in html
    assert "<html" not in html


def test_every_recorded_model_has_its_rate(client):
    """Also where other models, or collectives, were measured last on its GPU."""
    for path in sorted((settings.REPOSITORY / "benchapp" / "recorded").glob("moe-*.json.gz")):
        row, _ = actions.receive(gzip.decompress(path.read_bytes()), origin=Document.Origin.RECORDED)
        assert ingest(row.pk).state == Document.State.ACCEPTED
    with at_most(25):
        html = page(client)
    assert all(name in html for name in ("Qwen3-30B-A3B", "gpt-oss-20b", "GLM-5"))
    assert "8 of 78 layers, projected" in html


def test_a_model_that_nobody_knows_takes_no_overview_away(client):
    odd = dataclasses.replace(loads.decode(64, 0.02), params={"m": 1})
    loads.store("moe", odd, loads.decode(64, 0.02), target=loads.GANG, stack=loads.VLLM)
    assert "tok/s" in page(client)


def test_alerts_that_are_told_need_a_look_and_the_others_stand_apart(client):
    made.alert(kind=Alert.Kind.COVERAGE, title="Cases <b> lost", sentence="120 cases are gone.")
    html = page(client)
    assert "1 thing needs a look: Cases &lt;b&gt; lost." in html
    assert "▲ alert" in html and "120 cases are gone." in html and "1 open alert</a>" in html
    made.alert(kind=Alert.Kind.MACHINE, certain=False)
    made.alert(kind=Alert.Kind.DRIFT, recorded=True)
    html = page(client)
    assert "1 thing needs a look" in html and "3 open alerts: 1 told" in html
    assert "1 undecided</a>" in html and "1 recorded elsewhere</a>" in html


def test_an_event_that_opened_an_alert_is_not_told_twice():
    event = Event.objects.create(
        kind="schedule_without_data", severity="warning", subject="s", sentence="x", dedupe_key="1"
    )
    assert len(queries.needs_a_look()) == 1
    made.alert(kind=Alert.Kind.SCHEDULE, event=event)
    assert queries.needs_a_look() == []
    assert queries.open_alerts().standing.told == 1
