import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def experts_say(torch_python):
    """Asks a function of `in_torch.py`, in one child process that has torch."""
    child = subprocess.Popen(
        [torch_python, "-m", "tests.experts.in_torch"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ask(function: str, **arguments: Any) -> Any:
        child.stdin.write(json.dumps({"function": function, "arguments": arguments}) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        assert line, f"{function} ended the child with {child.wait(timeout=10)}; its words are above"
        return json.loads(line)

    yield ask
    child.stdin.close()
    child.wait(timeout=30)
