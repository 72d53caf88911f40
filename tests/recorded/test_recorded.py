"""The documents that come with the product: really measured, complete, and without anybody's identity."""

import json
import re
from pathlib import Path

import pytest

from benchapp.ingest import schema
from workers.bench import hardware, roofline, timing
from workers.bench.document import Document, Statistics, Target
from workers.bench.gemm.recorded import scrub
from workers.bench.suites import SUITES

RECORDED = sorted((Path(__file__).resolve().parents[2] / "benchapp" / "recorded").glob("gemm-*.json"))


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def text(request):
    return request.param.read_text()


def test_there_is_one_from_an_h200():
    assert any(path.name.startswith("gemm-h200-") for path in RECORDED)


def test_it_is_what_ingest_takes(text):
    document = schema.Document.model_validate_json(text)
    assert len(document.measurements) == len(SUITES["h200-first"])


def test_it_names_no_machine(text):
    target = json.loads(text)["target"]
    assert target["host"] == "recorded-h200" and target["uuid"] == "GPU-recorded-h200"
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)


def test_every_case_is_correct_consistent_and_possible(text):
    document = json.loads(text)
    model = hardware.lookup(document["target"]["model"])
    assert model is not None and document["target"]["properties"]["sm_count"] == model.sm_count
    for found in document["measurements"]:
        m, n, k, dtype = (found["params"][name] for name in ("m", "n", "k", "dtype"))
        assert found["outcome"] == "ok" and found["timer"] == "cuda_graph" and found["kernel"]
        assert Statistics(**found["statistics"]) == timing.summarise(found["samples"])
        assert found["flops"] == roofline.gemm_flops(m, n, k)
        assert found["bytes"] == roofline.gemm_bytes(m, n, k, dtype, dtype, dtype)
        assert found["host_time"]["median"] > 0 and found["readings"]["sm_clock_mhz_median"] > 1000
        peak = model.dense_peak(dtype, model.max_clock_mhz)
        assert peak is not None
        bound = roofline.hard_bound(
            flops=found["flops"],
            highest_peak=peak,
            read_bytes=roofline.gemm_read_bytes(m, n, k, dtype, dtype),
            write_bytes=roofline.gemm_write_bytes(m, n, dtype),
            bandwidth=model.bandwidth,
            l2_bytes=document["target"]["properties"]["l2_bytes"],
            l2_policy=found["l2_policy"],
        )
        assert bound is not None and not roofline.is_impossible(found["statistics"]["median"], bound)
        cold = roofline.roofline_time(found["flops"], peak, found["bytes"], model.bandwidth)
        assert 0.2 < cold / found["statistics"]["median"] < 1


def test_scrubbing_takes_out_who_measured_and_nothing_else():
    target = Target(kind="gpu", arch="sm90", model="NVIDIA H200", uuid="GPU-1f", host="ours.example")
    whole = Document("gemm", ("python",), "", "", target, {"torch": "2"}, logs={"gemm 1x1x1": "/home/us"})
    found = scrub(whole, "recorded-h200")
    assert (found.target.host, found.target.uuid) == ("recorded-h200", "GPU-recorded-h200")
    assert (found.target.model, found.stack, found.logs) == ("NVIDIA H200", {"torch": "2"}, {})
