"""What one broken kernel costs: its case by its backend, and nothing after it."""

import json
import subprocess
from pathlib import Path

import pytest

MS = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 4)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_each_fault_costs_one_case_and_no_other_is_harmed(torch_python):
    done = subprocess.run(
        [torch_python, "-m", "tests.gemm_bench.hostile_run", "2", *map(str, MS)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    outcomes = {m: (backend, outcome) for m, backend, outcome, _, _ in told["rows"]}
    assert outcomes == {
        1: ("torch.mm", "ok"),
        3: ("torch.mm", "timeout"),
        5: ("torch.mm", "crashed"),
        7: ("torch.mm", "oom"),
        9: ("torch.mm", "unsupported"),
        11: ("torch.mm", "build_failed"),
        13: ("torch.mm", "launch_failed"),
        15: (None, "crashed"),
        17: ("torch.mm", "incorrect"),
        19: ("torch.mm", "crashed"),
        21: ("torch.mm", "crashed"),
        4: ("torch.mm", "ok"),
    }
    errors = {m: error for m, _, _, error, _ in told["rows"]}
    assert "no answer within 2 s" in errors[3] and "SIGSEGV" in errors[5] and "SIGSEGV" in errors[15]
    assert "SIGKILL" in errors[19] and "wrote among the lines" in errors[21]
    assert errors[9] == "No such kernel on this device."
    # What brought a time is measured in both processes, what did not is not tried again.
    medians = {m: count for m, _, _, _, count in told["rows"]}
    assert {m for m, count in medians.items() if count == 2} == {1, 4, 17}
    assert told["settled"] == 24
