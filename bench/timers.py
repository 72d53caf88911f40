"""Our graph and event timers, FlashInfer's and Triton's against kernel time, in ten fresh processes.

The measuring is `python -m workers.bench.timers.comparison`, which runs alone in any Python with torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.result import Failed, Result, Skipped
from bench.stand import Stand
from workers import environments
from workers.bench.timers.comparison import table

WHAT = "timers against kernel time"
PROCESSES = 10
_SEES_A_GPU = "import sys, torch; sys.exit(not torch.cuda.is_available())"


def run(stand: Stand) -> Iterator[Result | Skipped]:
    """Many minutes. The whole table is left in the installation's folder, as JSON and Markdown."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        yield Skipped(WHAT, "this machine has no NVIDIA GPU")
        return
    python = _python(stand.real_home)
    if python is None:
        yield Skipped(
            WHAT, f"neither this Python nor an environment in {stand.real_home} has a torch that sees the GPU"
        )
        return
    folder = stand.real_home / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    out, markdown = folder / "timers.json", folder / "timers.md"
    out.unlink(missing_ok=True)
    ended = subprocess.run(
        [
            *(str(python), "-m", "workers.bench.timers.comparison"),
            *("--processes", str(stand.size(PROCESSES, 2)), "--out", str(out), "--markdown", str(markdown)),
        ],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode:
        raise Failed(f"{WHAT}: the measuring ended with {ended.returncode}.")
    print(markdown.read_text(encoding="utf-8"))
    for row in table.rows(json.loads(out.read_text(encoding="utf-8"))["processes"]):
        for name in table.OURS:
            if (cell := row.cells.get(name)) is not None:
                note = f"{cell.difference * 1e6:+.2f} µs{'' if cell.within else ', too far'}"
                yield Result(f"{row.kernel}, {name}", cell.seconds, row.reference, row.kernel_seconds, note)


def _python(home: Path) -> Path | None:
    """A Python whose torch sees the GPU: this one, or an environment's, with FlashInfer if there is any."""
    built = environments.built(home / "envs")
    layered = sorted(built, key=lambda each: environments.base_of(each) is None)
    candidates = [Path(sys.executable), *(environments.python_of(each) for each in layered)]
    return next((each for each in candidates if _sees_a_gpu(each)), None)


def _sees_a_gpu(python: Path) -> bool:
    return subprocess.run([python, "-c", _SEES_A_GPU], capture_output=True, check=False).returncode == 0
