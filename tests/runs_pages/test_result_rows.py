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
    page = " ".join(
        client.get(f"/runs/{run.pk}/").content.decode().replace("&nbsp;", " ").split()
    )  # also what does not break
    assert "RMSNormKernel" in page and "7 thrown away" in page and "2 processes" in page
    assert "12.0 µs" in page and "11.0 µs – 14.0 µs" in page  # the host's
    assert page.count("TFLOP/s") == 1 and page.count(" GB/s") == 2  # no peak is stated for a norm
    assert "– unsupported" in page and "mm_fp4 needs SM100" in page
