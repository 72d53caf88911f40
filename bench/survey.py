"""A tile survey whose every verdict is cached; against the start of Python alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.result import Result, Skipped, median_time
from bench.stand import Stand

VERSION, ARCH = "0.6.3", "sm120"


def run(stand: Stand) -> Iterator[Result | Skipped]:
    cache, what = stand.real_home / "cache", f"survey of FlashInfer {VERSION}, cached"
    if not (cache / "versions" / f"{VERSION}.json").exists():
        yield Skipped(what, f"no survey of it was made in {stand.real_home}")
        return
    out = stand.home / "survey.json"
    times = stand.size(3, 1)
    seconds = median_time(lambda: _survey(cache, out), times)
    costs = json.loads(out.read_text(encoding="utf-8"))["costs"]
    start = median_time(lambda: subprocess.run([sys.executable, "-c", ""], check=True), times)
    note = f"{costs['cached_units']} of {costs['units']} files cached"
    yield Result(what, seconds, "start of Python", start, note)


def _survey(cache: Path, out: Path) -> None:
    program = [sys.executable, "-m", "workers.bench", "tiles", "--flashinfer", VERSION, "--arch", ARCH]
    subprocess.run(
        [*program, "--cache", cache, "--out", out],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
