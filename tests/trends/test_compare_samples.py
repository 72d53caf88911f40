"""vLLM 0.19 against 0.24 on RTX PRO 6000, as aiconfigurator measured them: one upgrade read rightly."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from django.core.management import call_command

from tests.trends.compares import compare, rows

SAMPLES = Path(__file__).resolve().parents[3] / "shared/samples/aiconfigurator/rtx_pro_6000_server"


@pytest.mark.django_db
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="aiconfigurator's samples are not beside this checkout")
def test_faster_over_all_slower_in_one_place_and_a_format_lost(client, tmp_path):
    for version in ("0.19.0", "0.24.0"):
        folder = SAMPLES / "gemm" / "vllm" / version
        here = tmp_path / "rtx" / "gemm" / "vllm" / version
        here.mkdir(parents=True)
        shutil.copy(folder / "collection_meta.yaml", here)
        table = pq.read_table(folder / "gemm_perf.parquet")
        of_shape = pc.and_(pc.equal(table["n"], 4096), pc.equal(table["k"], 6144))
        pq.write_table(table.filter(of_shape), here / "gemm_perf.parquet")
    call_command("import", "aiconfigurator", str(tmp_path / "rtx"), stdout=StringIO())
    page = compare(client, dtype="nvfp4", shape="4096x6144", show="worse")
    counts = page.context["whole"].counts
    assert counts["better"] > 3 * counts["worse"] > 0
    top = page.context["rows"][0]["row"]
    assert next(iter(rows(page))) == 4352 and top.ratio == pytest.approx(1.24, abs=0.005)
    whole = compare(client)
    (lost,) = [line for line in whole.context["missing"] if "fp8_block" in line]
    assert "lost" in lost and "fp8_block" not in str(whole.context["speed"])
