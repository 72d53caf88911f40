"""Versions of any component, the roofline plot, coverage, JIT modules, and filters of large sets."""

from __future__ import annotations

import datetime as dt

import pytest

from benchapp.catalog.models import Target
from benchapp.runs.models import Run
from benchapp.trends import actions
from benchapp.trends.models import Offer
from tests.querycount import at_most
from tests.trends.cases import RTX, floor, put, timed
from tests.trends.gemms import store
from tests.trends.test_trends_metrics import SHAPE, text_of
from workers.bench.document import Measurement, Statistics

pytestmark = pytest.mark.django_db
VERSIONS = ("0.6.9", "0.6.13", "0.6.18.post1")


def module(name, metric, value, outcome="unverified"):
    good = outcome == "unverified"
    return Measurement(
        kind="jit_module",
        params={"module": name, "arch": "sm120"},
        outcome=outcome,
        measured_at="2026-11-20T10:00:00Z",
        metric=metric,
        samples=(value,) if good else (),
        statistics=Statistics(1, value, value, value, value) if good else None,
        error=None if good else "nvcc: out of patience",
    )


def test_versions_are_of_the_component_that_varies_most(client):
    for number, version in enumerate(VERSIONS):
        put(timed(f"16x{SHAPE}:nvfp4", (20 - number) * 1e-6), flashinfer=version)
    page = client.get("/trends/?view=versions&metric=us")
    assert page.context["chart"]["x"] == {"title": "flashinfer", "type": "category", "labels": list(VERSIONS)}
    by_torch = client.get("/trends/?view=versions&metric=us&component=torch")
    assert by_torch.context["chart"]["x"]["labels"] == ["2.11.0"]
    [line] = by_torch.context["chart"]["series"]
    assert len(line["points"]) == 1  # of three stacks with this torch the newest


def test_a_stack_without_the_component_stands_under_its_own_library(client):
    put(timed(f"16x{SHAPE}:nvfp4", 20e-6))
    put(timed(f"16x{SHAPE}:nvfp4", 21e-6), flashinfer="0.6.9")
    store(timed(f"16x{SHAPE}:nvfp4", 40e-6, backend="torch.mm"), target=RTX)
    page = client.get("/trends/?view=versions&metric=us&component=flashinfer")
    assert page.context["chart"]["x"]["labels"] == ["torch 2.11.0", "0.6.9", "0.6.18.post1"]
    [one] = client.get("/trends/?version=torch+2.11.0").context["points"]
    assert one.backend == "torch.mm"
    assert client.get("/trends/?view=coverage").context["found"].versions[0] == "torch 2.11.0"


def test_a_component_that_no_stack_names_falls_back(client):
    put(timed(f"16x{SHAPE}:nvfp4", 20e-6))
    page = client.get("/trends/?view=versions&component=vllm")
    assert page.context["component"] == "flashinfer" and page.context["chart"]


def test_the_roofline_plot_has_both_roofs(client):
    put(timed(f"16x{SHAPE}:nvfp4", 20e-6), timed(f"8192x{SHAPE}:nvfp4", 320e-6), floor("cupti"))
    page = client.get("/trends/?view=roofline&kind=gemm")
    points, dense = page.context["chart"]["series"]
    low, ridge, high = dense["points"]
    assert dense["label"] == "fp4 dense 2,015 TFLOP/s"
    assert ridge["y"] == high["y"] == pytest.approx(2015, rel=1e-3)
    assert low["y"] == pytest.approx(low["x"] * 1.792, rel=1e-3)  # bandwidth in TB/s
    assert all(point["y"] < 2015 and point["href"] for point in points["points"])
    assert "it limits none of these shapes" in text_of(page)
    sparse = client.get("/trends/?view=roofline&kind=gemm&metric=sparse").context["chart"]["series"][-1]
    assert sparse["label"] == "fp4 2:4 sparse 4,030 TFLOP/s" and sparse["dash"]


def test_the_launch_floor_is_drawn_where_it_limits(client):
    put(timed("16x128x128:nvfp4", 3e-6), floor("cupti", 2e-6))
    page = client.get("/trends/?view=roofline&kind=gemm")
    floor_line = page.context["chart"]["series"][-1]
    assert floor_line["label"] == "launch floor"
    assert floor_line["points"][0]["y"] == pytest.approx(2 * 16 * 128 * 128 / 2e-6 / 1e12)


def test_no_roofline_plot_without_a_rate(client):
    put(timed("rmsnorm:tokens=1,hidden=7168,dtype=bf16", 3e-6, backend="flashinfer.rmsnorm"))
    page = client.get("/trends/?view=roofline")
    assert page.context["chart"] is None and "no arithmetic peak is stated" in text_of(page)


def test_coverage_says_when_and_why_not(client):
    put(timed(f"16x{SHAPE}:nvfp4", 20e-6), timed(f"32x{SHAPE}:nvfp4", 20e-6), flashinfer="0.6.9")
    put(
        timed(f"16x{SHAPE}:nvfp4", None, outcome="unsupported", error="mm_fp4 wants SM100"),
        timed(f"32x{SHAPE}:nvfp4", None, outcome="timeout"),
        timed(f"16x{SHAPE}:mxfp8", 20e-6, backend="flashinfer.mm_mxfp8"),
        flashinfer="0.6.13",
    )
    Run.objects.all().delete()
    page = client.get("/trends/?view=coverage")
    found = page.context["found"]
    assert found.versions == ["0.6.9", "0.6.13"]
    [group] = found.groups
    mxfp8, nvfp4 = group.rows
    assert mxfp8.cells[0] is None and mxfp8.cells[1].good == 1
    assert nvfp4.cells[0].good == 2 and not nvfp4.cells[1].good
    assert [told[3] for told in nvfp4.cells[1].told] == ["timeout", "not supported"]
    said = text_of(page)
    assert "mm_fp4 wants SM100" in said and "2026-11-20 10:00 UTC" in said
    assert "1 cell nobody ever asked for" in said


def test_coverage_of_one_shape_has_a_row_a_size(client):
    put(*(timed(f"{m}x{SHAPE}:nvfp4", 20e-6) for m in (1, 16)), timed("1x512x512:nvfp4", 9e-6))
    [group] = client.get(f"/trends/?view=coverage&kind=gemm&shape={SHAPE}").context["found"].groups
    assert [row.label.replace("\u00a0", " ") for row in group.rows] == [
        "M = 1, nvfp4, flashinfer.mm_fp4.cutlass", "M = 16, nvfp4, flashinfer.mm_fp4.cutlass",
    ]  # fmt: skip


def test_a_large_coverage_has_pages_and_few_queries(client):
    put(*(timed(f"{m}x{n}x512:nvfp4", 9e-6) for m in (1, 2) for n in range(512, 562)))
    with at_most(11):
        page = client.get("/trends/?view=coverage")
    assert len(page.context["found"].groups) == 40
    assert len(client.get(page.wsgi_request.path + page.context["following"]).context["found"].groups) == 10


def test_modules_show_cost_size_and_failures(client):
    put(module("moe", "cpu_time", 2400.0), module("moe", "size", 2.0**20), kind="modules", flashinfer="0.6.9")
    put(
        module("moe", "cpu_time", 2500.0),
        module("moe", "size", 2.0**21),
        module("norm", "cpu_time", None, outcome="build_failed"),
        kind="modules",
        flashinfer="0.6.13",
    )
    page = client.get("/trends/?view=modules")
    assert [point["y"] for point in page.context["chart"]["series"][0]["points"]] == [2400.0, 2500.0]
    said = text_of(page)
    assert "FlashInfer 0.6.13: 1 modules built ahead take 2,500 CPU-seconds and 2.0 MiB; 1 could not" in said
    assert "build failed" in said
    assert not Offer.objects.exists()  # nothing of it is a time of a call


def test_many_shapes_are_typed(client):
    put(*(timed(f"1x{n}x512:nvfp4", 9e-6) for n in range(512, 560)))
    page = client.get("/trends/?shape=541×512")
    assert page.context["shape"] == "541×512" and len(page.context["points"]) == 1
    assert page.content.decode().count('<option value="5') == 48 and 'list="shapes"' in page.content.decode()
    assert "cannot be used" in text_of(client.get("/trends/?shape=9x9"))


def test_offers_only_grow_and_never_repeat(django_assert_num_queries):
    put(timed(f"1x{SHAPE}:nvfp4", 9e-6), timed(f"2x{SHAPE}:nvfp4", 9e-6))
    target = Target.objects.get(uuid=RTX.uuid)
    later = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    params = {"m": 1, "n": 4096, "k": 6144, "dtype": "nvfp4"}
    with django_assert_num_queries(1):
        actions.note(target.pk, [("gemm", params, "flashinfer.mm_fp4.cutlass", later)])
    [offer] = Offer.objects.all()
    assert (offer.shape, offer.cases, offer.newest_at) == (SHAPE, 2, later)
