"""The page of whole models' steps in a browser: charts, bars, filters, a phone."""

from __future__ import annotations

import dataclasses

import pytest

from tests.browser.conftest import PHONE, overflow
from tests.moe.loads import GANG, decode, store

pytestmark = pytest.mark.django_db(transaction=True)
ONE = dataclasses.replace(GANG, properties={"gpus": 1})


def traced(batch, seconds, parts):
    made = decode(batch, seconds, tp=1)
    step = dataclasses.replace(
        made.step, parts=parts, libraries={"flashinfer": sum(parts.values()) - parts["gaps"]},
        traced_s=sum(parts.values()), kernels=1000, overlap_s=20e-6,
    )  # fmt: skip
    return dataclasses.replace(made, step=step)


@pytest.fixture
def steps():
    for version, fc1 in (("0.6.13", 6e-3), ("0.6.18", 4e-3)):
        parts = {"attention": 2e-3, "fc1": fc1, "fc2": 2e-3, "gaps": 1e-3}
        store(
            "moe", decode(1, 4e-3, tp=1), traced(64, sum(parts.values()), parts), decode(256, 25e-3, tp=1),
            target=ONE, stack={"flashinfer": version, "torch": "2.11.0"},
        )  # fmt: skip
    store(
        "moe", decode(64, 6e-3, tp=2), decode(64, 1e-3, layers=8, tp=1),
        target=GANG, stack={"flashinfer": "0.6.18", "torch": "2.11.0"}, day=21,
    )  # fmt: skip


def drawn(page, data):
    return page.evaluate(
        f"Chart.getChart(document.querySelector('[data-chart={data}] canvas')).data.datasets"
        ".map((d) => [d.label, d.data.map((p) => [p.x, p.y, p.name])])"
    )


def test_charts_bars_and_filters(open_page, steps):
    page = open_page("/moe/")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    rates = dict(drawn(page, "whole-rate-data"))
    assert [x for x, _, _ in rates["0.6.18 · flashinfer+triton.fused_experts"]] == [1, 64, 256]
    users = dict(drawn(page, "whole-users-data"))
    assert {name for points in users.values() for _, _, name in points} == {"1", "64", "256"}
    assert drawn(page, "whole-gpus-data") and drawn(page, "slice-rate-data")
    widths = page.locator("svg.parts rect").evaluate_all(
        "(rects) => rects.filter((r) => r.getBoundingClientRect().width > 1).length"
    )
    assert widths >= 8
    page.locator("select[name=batch]").select_option("1")
    page.wait_for_url("**/moe/?batch=1")
    assert "Against GPUs at batch" not in page.locator("main").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_sideways_scrolling(open_page, steps, scheme):
    page = open_page("/moe/", viewport=PHONE, color_scheme=scheme)
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert overflow(page) <= 0
