"""The chart helper under the strict policy: drawn, redrawn with the theme, exchanged for its table."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, overflow

pytestmark = pytest.mark.django_db(transaction=True)

CHART = "Chart.getChart(document.querySelector('canvas'))"


@pytest.fixture
def chart(open_page, settings) -> Page:
    settings.ROOT_URLCONF = "tests.browser.urls"
    return open_page("/chart", viewport=PHONE, color_scheme="light", reduced_motion="reduce")


def test_a_chart_is_drawn_with_units_and_without_motion(chart):
    assert chart.evaluate(f"{CHART}.options.scales.y.title.text") == "Rate (TFLOP/s)"
    assert chart.evaluate(f"{CHART}.options.animation") is False
    assert chart.evaluate(f"{CHART}.getDatasetMeta(0).data.length") == 3
    assert chart.evaluate(f"Object.keys({CHART}.options.plugins.annotation.annotations)") == ["line0"]
    assert overflow(chart) <= 0


def test_colours_follow_the_theme(chart):
    light = chart.evaluate(f"{CHART}.data.datasets[0].borderColor")
    chart.get_by_label("Theme").select_option("dark")
    dark = chart.evaluate(f"{CHART}.data.datasets[0].borderColor")
    assert (light, dark) == ("rgb(47, 95, 208)", "rgb(143, 176, 255)")


def test_the_table_takes_the_place_of_the_chart_by_keyboard(chart):
    chart.get_by_role("button", name="Table").press("Enter")
    expect(chart.get_by_text("4.5 TFLOP/s")).to_be_visible()
    expect(chart.locator("canvas")).to_be_hidden()
    chart.get_by_role("button", name="Chart").press("Enter")
    expect(chart.locator("canvas")).to_be_visible()


def test_a_point_opens_what_it_stands_for(chart):
    place = chart.evaluate(
        f"(() => {{ const p = {CHART}.getDatasetMeta(0).data[0]; return {{x: p.x, y: p.y}}; }})()"
    )
    chart.locator("canvas").click(position=place)
    chart.wait_for_url("**/runs/")
