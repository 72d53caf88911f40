"""The soak's short form: real workers, servers and children; each of its disturbances once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak_child import libfaketime
from bench.soak_place import UUIDS
from bench.soak_plan import CHILDREN, DISTURBANCES, FULL, SHORT, Size, asks, disturbances, overlaps

ROOT = Path(__file__).parents[2]
LIMIT_S = 420
SEED = 4


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_while_workers_and_servers_are_killed():
    if libfaketime() is None and not os.environ.get("CI"):
        pytest.skip("libfaketime is not installed (apt install libfaketime)")
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "soak", "--quick", "--seed", str(SEED)],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    assert all(f"1 {what}" in ended.stdout for what in DISTURBANCES), ended.stdout
    assert "✓ no GPU had two children at one time" in ended.stdout


@pytest.mark.parametrize("size", [FULL, SHORT])
def test_each_soak_asks_for_every_kind_of_child_and_wish(size: Size):
    drawn = asks(size, 1, len(UUIDS))
    assert [ask.number for ask in drawn] == list(range(size.runs))
    assert {ask.child for ask in drawn} == set(CHILDREN) - set(size.without)
    assert {ask.by for ask in drawn} == {"uuid", "model", "arch", "gang"}
    assert any(ask.cancelled_after_s is not None for ask in drawn)
    assert drawn == asks(size, 1, len(UUIDS)) != asks(size, 2, len(UUIDS))


def test_a_short_soak_does_everything_to_the_machines_once():
    assert sorted(what for _, what in disturbances(SHORT, 1)) == sorted(DISTURBANCES)


def test_two_holders_of_one_gpu_at_one_time_are_found():
    apart = [(0.0, 1.0, "1-1"), (1.0, 2.0, "2-1"), (3.0, 4.0, "3-1")]
    assert overlaps(apart) == []
    assert overlaps([*apart, (1.5, 3.5, "4-1")]) == [("2-1", "4-1"), ("4-1", "3-1")]
    assert overlaps([(0.0, 9.0, "1-1"), (1.0, 2.0, "2-1"), (5.0, 6.0, "3-1")]) == [
        ("1-1", "2-1"),
        ("1-1", "3-1"),
    ]
