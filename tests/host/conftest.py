"""Hosts whose GPUs are simulated at NVML's boundary; every process is a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import pynvml

REPOSITORY = Path(__file__).resolve().parents[2]
SIMULATED = REPOSITORY / "tests" / "simulated"


@pytest.fixture
def nvml(tmp_path: Path) -> Callable[..., Path]:
    """Writes the file that the simulated NVML answers from; call it again to change what it says."""
    path = tmp_path / "nvml.json"

    def say(*gpus: dict[str, Any], **said: Any) -> Path:
        pynvml.write(path, *gpus, **said)
        return path

    return say


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process's environment, and so its children's, is that of a host; returns its data folder."""
    monkeypatch.setenv("PYTHONPATH", str(SIMULATED))
    monkeypatch.setenv("SIMULATED_NVML", str(tmp_path / "nvml.json"))
    monkeypatch.setenv("TILEWATCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILEWATCH_LEASES", str(tmp_path / "leases"))
    return tmp_path / "home"


@pytest.fixture
def run_up(host: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python -m workers up …` to its end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workers", "up", *arguments],
            cwd=REPOSITORY,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
