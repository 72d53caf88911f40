"""The trends page from stored documents."""

from __future__ import annotations

import pytest

from benchapp.catalog.models import Recipe
from benchapp.runs.models import Document, Job, Run
from benchapp.trends import queries
from tests.querycount import at_most
from tests.trends.gemms import CPU, STRANGER, gemm, store

pytestmark = pytest.mark.django_db
SWEEP = ((1, 19.0e-6), (16, 20.5e-6), (64, 21e-6), (256, 28e-6))


@pytest.fixture
def sweep():
    return store(*(gemm(m, seconds) for m, seconds in SWEEP))


def chart(page):
    return page.context["chart"]


def test_a_sweep_is_drawn_beside_its_roofline(client, sweep):
    page = client.get("/trends/")
    line, roof = chart(page)["series"]
    assert line["label"] == "bf16, 2.11.0" and [point["x"] for point in line["points"]] == [1, 16, 64, 256]
    assert roof["label"] == "roofline bf16" and {1, 2, 16, 128, 256} <= {
        point["x"] for point in roof["points"]
    }
    above = {point["x"]: point["y"] for point in roof["points"]}
    assert all(point["y"] < above[point["x"]] for point in line["points"])
    assert all(point["low"] < point["y"] < point["high"] for point in line["points"])
    assert chart(page)["x"]["type"] == "logarithmic" and chart(page)["x"]["ticks"] == [1, 16, 64, 256]


def test_the_sentence_compares_with_the_roofline_and_not_with_the_brochure(client, sweep):
    page = client.get("/trends/").content.decode()
    ends = "64.4\u00a0% at M\u00a0=\u00a01 and 54.3\u00a0% at M\u00a0=\u00a0256"
    assert f"bf16 reaches {ends} of what the hardware allows" in page
    assert (
        "Memory bandwidth sets that roofline up to M\u00a0=\u00a064: at M\u00a0=\u00a01 this shape allows"
        in page
    )
    assert "no more than 0.485\u00a0% of dense peak" in page
    assert "dense peak 989\u00a0TFLOP/s at 1,830 MHz" in page


@pytest.mark.parametrize(
    "metric, first", [("us", 19.0), ("roofline", 64.4), ("peak", 0.312), ("tflops", 3.09), ("gbs", 3092)]
)
def test_the_metric_is_a_filter(client, sweep, metric, first):
    drawn = chart(client.get(f"/trends/?metric={metric}"))
    assert drawn["series"][0]["points"][0]["y"] == pytest.approx(first, rel=0.01)
    assert drawn["y"]["min"] <= drawn["series"][0]["points"][0]["y"] <= drawn["y"]["max"]


def test_every_point_links_to_where_it_came_from(client, sweep):
    page = client.get("/trends/")
    assert all(
        point["href"] == f"/runs/documents/{sweep.pk}.json" for point in chart(page)["series"][0]["points"]
    )
    assert page.content.decode().count(f'href="/runs/documents/{sweep.pk}.json"') == len(SWEEP)


def test_what_failed_is_marked_and_never_a_speed(client):
    store(
        gemm(1, 19e-6),
        gemm(2, None, outcome="launch_failed"),
        gemm(4, 1e-6, outcome="incorrect"),
        gemm(8, None, outcome="unsupported"),
        gemm(16, 20e-6, outcome="unverified"),
    )
    page = client.get("/trends/")
    series = {each["label"]: each for each in chart(page)["series"]}
    ys = {point["x"]: point["y"] for point in series["bf16, 2.11.0"]["points"]}
    assert ys[2] is ys[4] is ys[8] is None and ys[1] and ys[16]
    for label, m in (("▲ failed", 2), ("≠ wrong result", 4), ("– not supported", 8)):
        [mark] = series[label]["points"]
        assert mark["x"] == m and mark["y"] == chart(page)["y"]["min"]
    text = page.content.decode()
    assert "Marked and not ranked: 1 failed, 1 incorrect, 1 unsupported." in text
    assert "unverified" in text


def test_a_run_that_a_person_called_invalid_stays_visible_but_ranks_nowhere(client):
    recipe = Recipe.objects.create(digest="r", versions={"torch": "2.11.0"})
    run = Run.objects.create(
        job=Job.objects.create(title="t", source="person"),
        kind="gemm",
        queue="cpu",
        state="delivered",
        recipe=recipe,
    )
    store(*(gemm(m, seconds) for m, seconds in SWEEP), run=run)
    Run.objects.update(invalid_reason="the fan was off")
    page = client.get("/trends/")
    assert page.context["chart"] is None
    assert "Nothing measured here may rank as a speed" in page.content.decode()
    assert "the fan was off" in page.content.decode() and f"/runs/{run.pk}/" in page.content.decode()


def test_impossibly_fast_is_not_ranked(client):
    store(gemm(256, 1e-7))
    page = client.get("/trends/")
    assert "~ ok, not ranked" in page.content.decode() and "impossible" in page.content.decode()


def test_a_cpu_has_no_peak_and_says_so(client):
    store(gemm(1, 1e-3, dtype="fp32"), gemm(16, 2e-3, dtype="fp32"), target=CPU)
    page = client.get("/trends/?metric=peak")
    assert page.context["chart"] is None
    assert (
        "Share of dense peak cannot be drawn: No datasheet peak is known for this CPU"
        in page.content.decode()
    )
    page = client.get("/trends/")
    assert [each["label"] for each in chart(page)["series"]] == ["fp32, 2.11.0"]
    assert "fp32 takes 1.00\u00a0ms" in page.content.decode()


def test_an_unknown_gpu_has_no_peak_and_says_so(client):
    store(gemm(1, 1e-3), target=STRANGER)
    assert "No datasheet peak is known for NVIDIA Unheard Of" in client.get("/trends/").content.decode()


def test_versions_stand_in_release_order_and_the_newest_of_each_counts(client):
    for day, (torch, seconds) in enumerate(
        (("2.10.0", 22e-6), ("2.9.1", 25e-6), ("2.10.0", 21e-6)), start=10
    ):
        store(gemm(16, seconds, at=f"2026-11-{day}T10:00:00Z"), torch=torch, day=day)
    drawn = chart(client.get("/trends/?view=versions&metric=us"))
    assert drawn["x"]["labels"] == ["2.9.1", "2.10.0"]
    assert [(p["x"], round(p["y"])) for p in drawn["series"][0]["points"]] == [("2.9.1", 25), ("2.10.0", 21)]
    over_time = chart(client.get("/trends/?view=time&metric=us"))
    assert [round(point["y"]) for point in over_time["series"][0]["points"]] == [22, 25, 21]


def test_recorded_data_is_labelled(client):
    store(gemm(1, 19e-6), origin=Document.Origin.RECORDED)
    page = client.get("/trends/").content.decode()
    assert '<span class="tag recorded">recorded</span>' in page and "not measured on this machine" in page


def test_filters_narrow_what_is_shown(client):
    store(*(gemm(m, s) for m, s in SWEEP), gemm(16, 1e-5, n=512, k=512), gemm(16, 3e-4, dtype="fp32"))
    page = client.get("/trends/?m=64, 16&dtype=bf16")
    assert [point["x"] for point in chart(page)["series"][0]["points"]] == [16, 64]
    page = client.get("/trends/?shape=512x512")
    assert [point["x"] for point in chart(page)["series"][0]["points"]] == [16]
    page = client.get("/trends/?shape=9x9&m=a&target=77&dtype=int3")
    assert page.content.decode().count("cannot be used") == 4 and chart(page)
    page = client.get("/trends/?shape=9%00x9&m=1%00&backend=%00&component=%00")
    assert page.content.decode().count("cannot be used") == 4 and chart(page)


def test_an_empty_and_a_filtered_out_page_say_so(client):
    assert "Nothing has been measured yet" in client.get("/trends/").content.decode()
    store(gemm(1, 19e-6))
    assert "Nothing measured matches" in client.get("/trends/?m=999").content.decode()


def test_points_are_capped_and_the_page_says_so(client, monkeypatch):
    monkeypatch.setattr(queries, "MAX_POINTS", 3)
    store(*(gemm(m, 20e-6) for m in (1, 2, 4, 8)))
    page = client.get("/trends/")
    assert len(page.context["points"]) == 3 and "Only the newest 3 points" in page.content.decode()


def test_a_large_page_stays_within_its_queries(client):
    for version in range(5):
        store(*(gemm(m, 20e-6) for m in range(1, 60)), torch=f"2.{version}.0")
    with at_most(9):
        assert len(client.get("/trends/").context["points"]) == 295
