import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
