import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def models_bench(torch_python, tmp_path):
    """Runs `python -m workers.bench moe …` to its end on the CPU and gives the document's text."""

    def run(*argv: str) -> Any:
        out = tmp_path / "document.json"
        done = subprocess.run(
            [torch_python, "-m", "workers.bench", "moe", "--threads", "1", *argv, "--out", str(out)],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return out.read_text()

    return run


@pytest.fixture
def hostile_gangs(torch_python):
    """Measures all-reduces by ranks that misbehave for some numbers of rows: (rows, outcome, error) each."""

    def run(case_s: float, *tokens: int) -> list[Any]:
        done = subprocess.run(
            [torch_python, "-m", "tests.moe_bench.hostile_run", str(case_s), *map(str, tokens)],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return run
