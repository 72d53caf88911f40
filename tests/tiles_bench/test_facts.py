"""The survey of the real FlashInfer 0.6.3 against values that were found independently."""

import csv
import json
import re
import time
from pathlib import Path

import pytest

from tests.tiles_bench.test_survey import bench

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "sm120_grouped_smem_0.6.3.csv"
SECOND_SURVEY_SECONDS = 5


@pytest.mark.slow
def test_flashinfer_0_6_3_equals_the_facts(cache_folder: Path, tmp_path: Path) -> None:
    if not FACTS.is_file():
        pytest.skip("the facts, ../shared/facts/sm120_grouped_smem_0.6.3.csv, are not on this machine")
    out = tmp_path / "out.json"
    done = bench("--cache", str(cache_folder), "--out", str(out))
    if "no_network" in done.stderr or "Is there a network?" in done.stderr:
        pytest.skip("the wheel of FlashInfer 0.6.3 cannot be downloaded without a network")
    assert done.returncode == 0, done.stderr
    document = json.loads(out.read_text())
    found = {
        (f["inputs"], "x".join(map(str, f["tile"])), f["fusion"].upper(), f["swap_ab"], f["output"]): f
        for f in document["evidence"]
        if f["stage"] == "fits" and f["family"] == "moe_grouped_gemm"
    }
    with FACTS.open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert len(found) == 2 * len(rows) == 40
    for row in rows:
        for output in ("f16", "bf16"):
            key = (row["inputs"], row["tile_mnk_elems"], row["epilogue_fusion"], row["swap_ab"] == "true")
            finding = found[(*key, output)]
            assert finding["need_bytes"] == int(row["shared_storage_bytes"])
            assert finding["limit_bytes"] == int(row["limit_bytes"])
            assert finding["stages"] == int(row["stages"])
            assert finding["passed"] == (row["fits"] == "True")
            assert finding["unit"] == row["generated_file"]
            assert sum(finding["parts"].values()) == finding["need_bytes"]
    logs = [document["logs"][name] for name in {row["generated_file"] for row in rows}]
    carveouts = re.findall(r"carveout=(\d+)", "".join(logs))
    assert sorted(carveouts) == sorted(row["epilogue_bytes"] for row in rows for _ in range(2))
    assert document["stack"]["cutlass"] == rows[0]["cutlass"]

    started = time.monotonic()
    again = bench(
        "--cache", str(cache_folder), "--out", str(out), env={"PIP_INDEX_URL": "http://127.0.0.1:1"}
    )
    assert again.returncode == 0, again.stderr
    assert time.monotonic() - started < SECOND_SURVEY_SECONDS
    assert json.loads(out.read_text())["evidence"] == document["evidence"]
