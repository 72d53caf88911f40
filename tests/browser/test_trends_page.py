"""Charts drawn by the browser, and their tables."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE, overflow
from tests.trends.cases import put, timed
from tests.trends.gemms import CPU, gemm, store

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sweep():
    store(*(gemm(m, 19e-6 + m * 4e-8) for m in (1, 16, 64, 256)), gemm(128, None, outcome="crashed"))


def datasets(page):
    return page.evaluate(
        "Chart.getChart(document.querySelector('canvas')).data.datasets.map((d) => ({label: d.label, "
        "line: d.showLine !== false, style: d.pointStyle}))"
    )


def test_a_sweep_its_roofline_and_a_failure_are_drawn(open_page, sweep):
    page = open_page("/trends/")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    drawn = {each["label"]: each for each in datasets(page)}
    assert set(drawn) == {"bf16, 2.11.0", "roofline bf16", "▲ failed"}
    assert drawn["▲ failed"] == {"label": "▲ failed", "line": False, "style": "triangle"}
    assert page.locator(".points tbody tr").count() == 5
    ticks = page.evaluate(
        "Chart.getChart(document.querySelector('canvas')).scales.x.ticks.map((t) => t.value)"
    )
    assert ticks == [1, 16, 64, 128, 256]


def test_a_filter_changes_the_url_and_the_chart(open_page, sweep):
    page = open_page("/trends/")
    page.locator("select[name=metric]").select_option("roofline")
    page.wait_for_url("**/trends/?metric=roofline")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert page.evaluate("Chart.getChart(document.querySelector('canvas')).scales.y.max") == 105


@pytest.mark.parametrize("view", ["versions", "time"])
def test_other_views_draw(open_page, sweep, view):
    page = open_page(f"/trends/?view={view}&metric=us")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert "▲ failed" in [each["label"] for each in datasets(page)]


def test_a_metric_without_a_peak_says_why_instead_of_drawing(open_page):
    store(gemm(1, 1e-3), target=CPU)
    page = open_page("/trends/?metric=roofline")
    assert page.locator("canvas").count() == 0
    assert "No datasheet peak is known for this CPU" in page.locator("figure .empty").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_chart_and_table_without_sideways_scrolling(open_page, sweep, scheme):
    page = open_page("/trends/", viewport=PHONE, color_scheme=scheme)
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert overflow(page) <= 0


def test_the_roofline_plot_switches_its_peak_and_leads_to_the_coverage(open_page):
    put(
        timed("16x4096x6144:nvfp4", 20e-6, flags=("throttled",)),
        timed("32x4096x6144:nvfp4", 20e-6, flags=("borrowed", "imported")),
    )
    page = open_page("/trends/?view=roofline")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    points, roof = page.evaluate(
        "Chart.getChart(document.querySelector('canvas')).data.datasets.map((d) => ("
        "{line: d.showLine !== false, ground: d.pointBackgroundColor, ring: d.pointBorderWidth}))"
    )
    assert roof["line"] and not points["line"]
    assert points["ring"] == [2, 1.6] and points["ground"][0] != points["ground"][1]
    page.get_by_role("link", name="2:4 sparse peak").click()
    page.wait_for_url("**/trends/?view=roofline&metric=sparse")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert [each["label"] for each in datasets(page)][-1] == "fp4 2:4 sparse 4,030 TFLOP/s"
    page.locator("select[name=view]").select_option("coverage")
    page.wait_for_url("**/trends/?view=coverage*")
    assert page.locator(".coverage .tag.survived").inner_text() == "● 2"
