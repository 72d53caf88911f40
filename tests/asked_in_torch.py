"""Functions of a test's module, called in a child process whose Python has torch."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def asking(python: Path, module: str) -> Iterator[Callable[..., Any]]:
    """Asks the functions of `module`, which ends in `answer`, in one child process."""
    child = subprocess.Popen(
        [python, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def ask(function: str, **arguments: Any) -> Any:
        child.stdin.write(json.dumps({"function": function, "arguments": arguments}) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        assert line, f"{function} ended the child with {child.wait(timeout=10)}; its words are above"
        return json.loads(line)

    yield ask
    child.stdin.close()
    child.wait(timeout=30)


def answer(functions: Mapping[str, Any], prepare: Callable[[], object] = lambda: None) -> None:
    """In the child: the answers to what is asked on its standard input, each after `prepare`."""
    for line in sys.stdin:
        asked = json.loads(line)
        prepare()
        print(json.dumps(functions[asked["function"]](**asked["arguments"])), flush=True)
