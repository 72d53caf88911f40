import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _has_torch(python: str) -> bool:
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def torch_python() -> str:
    """A Python that has torch: this one, or the one TILEWATCH_TORCH_PYTHON names."""
    for python in filter(None, (os.environ.get("TILEWATCH_TORCH_PYTHON"), sys.executable)):
        if _has_torch(python):
            return python
    pytest.skip("no Python with torch: name one in TILEWATCH_TORCH_PYTHON")


@pytest.fixture
def bench(torch_python, tmp_path):
    """Runs `python -m workers.bench gemm …` to its end and gives the document."""

    def run(*argv: str) -> Any:
        out = tmp_path / "document.json"
        done = subprocess.run(
            [torch_python, "-m", "workers.bench", "gemm", *argv, "--out", str(out)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(out.read_text())

    return run
