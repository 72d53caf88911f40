"""What tile surveys cost in CPU seconds on one core, against their limits and against sharing nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.result import Result, timed
from bench.stand import Stand

ARCH, FIRST = "sm120", "0.6.3"
VERSIONS = (
    FIRST, "0.6.0", "0.5.3", "0.6.7", "0.6.8", "0.6.10", "0.6.11", "0.6.14", "0.6.18.post1", "0.7.4",
)  # fmt: skip
#: CPU seconds; the last is wall seconds
COLD_LIMIT, TEN_LIMIT, EXPLORE_LIMIT, AGAIN_LIMIT = 240.0, 900.0, 300.0, 5.0
CONFIGURATIONS = 300


def run(stand: Stand) -> Iterator[Result]:
    """Minutes: every version is fetched and compiled, by one compiler at a time."""
    shared = _cache(stand, "shared")
    versions = VERSIONS[: stand.size(len(VERSIONS), 2)]
    costs = {version: _survey(stand, shared, "tiles", version)["costs"] for version in versions}
    first = costs[FIRST]
    yield Result(
        f"grouped survey of {FIRST} on {ARCH}, nothing cached, CPU",
        _grouped(first),
        "limit",
        COLD_LIMIT,
        f"{first['instantiations']} kernels",
    )
    together = sum(map(_grouped, costs.values()))
    limit = TEN_LIMIT * len(versions) / len(VERSIONS)
    sharing = [version for version in versions if costs[version]["cached_units"]]
    what, note = f"{len(versions)} versions together, CPU", f"{len(sharing)} share what another compiled"
    yield Result(what, together, "limit", limit, note)
    alone = together
    for version in sharing:
        apart = _survey(stand, _cache(stand, version), "tiles", version)["costs"]
        alone += _grouped(apart) - _grouped(costs[version])
    yield Result(what, together, "each alone", alone, note)
    again = timed(lambda: _survey(stand, shared, "tiles", FIRST))
    yield Result(f"survey of {FIRST} again, wall", again, "limit", AGAIN_LIMIT)
    yield _exploration(stand, shared)


def _grouped(costs: dict[str, float]) -> float:
    """CPU seconds of a survey less those of the dense GEMM in it."""
    return costs["cpu_seconds"] - costs["mm_fp4_cpu_seconds"]


def _exploration(stand: Stand, cache: Path) -> Result:
    wanted = stand.size(CONFIGURATIONS, 20)
    document = _survey(stand, cache, "explore", FIRST, "--limit", str(wanted))
    compiled = sum(finding["stage"] == "compiled" for finding in document["evidence"])
    return Result(
        f"{wanted} configurations of the explorer, CPU",
        document["costs"]["cpu_seconds"],
        "limit",
        EXPLORE_LIMIT * wanted / CONFIGURATIONS,
        f"{compiled} answers",
    )


def _cache(stand: Stand, name: str) -> Path:
    """An empty cache, but for an nvcc from packages where the installation has one."""
    cache, toolchains = stand.home / f"cache-{name}", stand.real_home / "cache" / "toolchains"
    cache.mkdir()
    if toolchains.is_dir():
        shutil.copytree(toolchains, cache / "toolchains")
    return cache


def _survey(stand: Stand, cache: Path, command: str, version: str, *more: str) -> dict[str, Any]:
    out = stand.home / "document.json"
    print(f"  {command} {version}", file=sys.stderr, flush=True)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "workers.bench", command, "--flashinfer", version, "--arch", ARCH),
            *("--cache", str(cache), "--jobs", "1", "--out", str(out), *more),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise SystemExit(f"{command} {version}: {ended.stderr.strip().splitlines()[-1]}")
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return document
