"""Benchmarks: each is listed, and what they print can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.registry import BENCHMARKS, ON_REQUEST, load
from bench.result import Result, Skipped, duration, table

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_every_listed_benchmark_can_be_loaded():
    assert all(callable(load(name)) for name in (*BENCHMARKS, *ON_REQUEST))


def test_an_unknown_name_is_answered_with_those_there_are():
    ended = bench("speed")
    assert ended.returncode == 2
    there = "ingest, pages, claims, dispatch, survey, tiles, timers, detectors, soak or fill"
    assert f"no benchmark 'speed': expected {there}" in ended.stderr


def test_a_benchmark_runs_on_servers_of_its_own():
    ended = bench("claims", "--quick")
    assert ended.returncode == 0, ended.stderr
    assert "claim a run and deliver its document" in ended.stdout


def test_the_table_shows_times_ratios_and_what_was_skipped():
    shown = table([Result("a", 2.0, "b", 0.5, "note"), Skipped("c", "no reason")]).splitlines()
    assert shown[2].split() == ["a", "2.00", "s", "b", "500.0", "ms", "4.0×", "note"]
    assert shown[3] == "c: skipped, no reason"


def test_durations_have_a_fitting_unit():
    assert [duration(s) for s in (12.0, 0.0123, 4.2e-5)] == ["12.00 s", "12.3 ms", "42 µs"]
