"""What a host of two H200 really said and did when its workers were killed, shared, drained and cancelled."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from benchapp.fleet import reports, work
from benchapp.fleet.models import Gpu, Installation
from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document, Measurement
from workers.bench.suites import SUITES

FOLDER = Path(__file__).with_name("two_h200")


def recorded(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


@pytest.mark.django_db(transaction=True)
def test_its_reports_become_rows_of_two_gpus_that_are_well(client):
    for payload in recorded("reports.json"):
        work.report(f"chores@{payload['host']}/{payload['installation']}", payload)
    reports.take_reports()
    first, second = Installation.objects.order_by("key")
    assert "gpu.model.nvidia-h200" in first.queues
    assert first.facts["driver"] == "580.159.04"
    for gpu in Gpu.objects.filter(installation=first):
        assert (gpu.model, gpu.arch, gpu.served, gpu.problems) == ("NVIDIA H200", "sm90", True, [])
        assert gpu.configuration == {"ecc": True, "mig": False, "pcie": "gen5 x16", "power_limit_w": 700.0}
    assert second.gpus.filter(served=True).count() == 1
    assert "NVIDIA H200" in client.get("/fleet/").content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("gpu", [0, 1])
def test_what_its_workers_measured_is_stored_whole(gpu: int):
    document, _ = receive((FOLDER / f"gemm-gpu{gpu}.json").read_bytes(), origin=Document.Origin.FILE)
    assert ingest(document.pk).state == Document.State.ACCEPTED
    rows = Measurement.objects.filter(document=document)
    assert rows.count() == len(SUITES["h200-first"])
    assert set(rows.values_list("outcome", "timer")) == {("ok", "cuda_graph")}


def test_no_two_measurements_held_one_gpu_at_one_time():
    held = defaultdict(list)
    for attempt in recorded("attempts.json"):
        if attempt["to"] is not None:
            interval = (dt.datetime.fromisoformat(attempt["from"]), dt.datetime.fromisoformat(attempt["to"]))
            for gpu in attempt["gpus"]:
                held[gpu].append(interval)
    assert {gpu: len(intervals) for gpu, intervals in held.items()} == {
        "GPU-recorded-0": 17,
        "GPU-recorded-1": 4,
    }
    for intervals in held.values():
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(sorted(intervals)))


def test_two_installations_took_turns_on_one_gpu_and_a_killed_worker_lost_one_attempt():
    attempts = recorded("attempts.json")
    workers = [a["worker"] for a in attempts if a["run"] in range(12, 18)]
    assert len(set(workers)) == 2
    lost = [a for a in attempts if a["outcome"] == "lost"]
    assert [(a["run"], a["attempt"]) for a in lost] == [(11, 1)]
    assert any((a["run"], a["attempt"], a["outcome"]) == (11, 2, "delivered") for a in attempts)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_nobody_is_named(path: Path):
    text = path.read_text()
    assert "recorded-h200" in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)
    assert '"kernel": "Linux' not in text
    assert set(re.findall(r'"machine": "(.*?)"', text)) <= {""}
