"""The load generator of the tests, in the environment that a worker would build too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchapp.fleet.endpoints import AIPERF
from tests.conftest import REPOSITORY
from workers import environments
from workers.lease import only_one


def python() -> Path:
    """Built on first use, and kept in var/envs. Skips where it cannot be installed."""
    root, versions = REPOSITORY / "var" / "envs", {"aiperf": AIPERF}
    found = environments.python_of(environments.location(root, versions))
    root.mkdir(parents=True, exist_ok=True)
    with only_one(root / "tests.lock", wait=True):  # other test processes want it too
        if not found.exists():
            built = subprocess.run(environments.build_command(root, versions), capture_output=True, text=True)
            if built.returncode:
                assert not os.environ.get("CI"), built.stderr
                pytest.skip(f"aiperf {AIPERF} cannot be installed here: no package index, or no room")
    return found
