"""The results of a run, whatever kind of case it measured."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.catalog.models import Recipe
from benchapp.runs.models import Job, Run
from tests.trends.cases import timed
from tests.trends.gemms import store

pytestmark = pytest.mark.django_db


def test_a_row_tells_kernel_host_time_processes_and_what_was_thrown_away(client):
    recipe = Recipe.objects.create(digest="r", versions={"torch": "2.11.0"})
    job = Job.objects.create(title="t", source="person")
    run = Run.objects.create(job=job, kind="gemm", queue="cpu", state="delivered", recipe=recipe)
    norm = timed("rmsnorm:tokens=64,hidden=7168,dtype=bf16", 4e-6, backend="flashinfer.rmsnorm")
    norm = dataclasses.replace(
        norm,
        kernel="RMSNormKernel",
        discarded=7,
        process_medians=(4e-6, 4.1e-6),
        process_host_medians=(1e-5,) * 2,
    )
    store(
        norm,
        timed("16x4096x7168:bf16", 20e-6, backend="torch.mm"),
        timed("16x4096x7168:nvfp4", None, outcome="unsupported", error="mm_fp4 needs SM100"),
        run=run,
    )
    page = " ".join(client.get(f"/runs/{run.pk}/").content.decode().replace("&nbsp;", " ").split())
    table = page[page.index("Table of results") : page.index("</table>")]
    assert "RMSNormKernel" in table and "7 thrown away" in table and "2 processes" in table
    assert "12.0 µs" in table and "11.0 µs – 14.0 µs" in table  # the host's
    assert table.count("TFLOP/s") == 1 and table.count(" GB/s") == 2  # no peak is stated for a norm
    assert "– unsupported" in table and "mm_fp4 needs SM100" in table
