"""The bench itself, in a real Python with torch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchapp.ingest import schema
from workers.bench import timing
from workers.bench.document import Statistics

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def test_bf16_and_fp32_are_timed_and_checked(bench, tmp_path):
    progress = tmp_path / "progress"
    document = bench(
        "--m", "1,16", "--n", "256", "--k", "512", "--dtype", "bf16,fp32", "--case-seconds", "0.3",
        "--threads", "1", "--host", "lab", "--progress", str(progress),
    )  # fmt: skip
    schema.Document.model_validate_json(json.dumps(document))
    assert document["target"]["kind"] == "cpu" and document["target"]["host"] == "lab"
    assert document["target"]["configuration"] == {"threads": 1}
    assert {"torch", "python"} <= set(document["stack"])
    assert [m["params"]["m"] for m in document["measurements"]] == [1, 1, 16, 16]
    for found in document["measurements"]:
        assert found["outcome"] == "ok" and found["timer"] == "wall_clock" and found["readings"] is None
        assert found["correctness"]["cosine"] > 0.999 and found["correctness"]["nan_count"] == 0
        assert 0 < found["correctness"]["max_relative_error"] < found["correctness"]["tolerance"]
        assert Statistics(**found["statistics"]) == timing.summarise(found["samples"])
        assert ("few_samples" in found["flags"]) == timing.is_short(found["samples"])
    lines = [json.loads(line) for line in progress.read_text().splitlines()]
    assert (lines[0]["done"], lines[-1]["done"], lines[-1]["total"]) == (0, 4, 4)


def test_a_case_that_cannot_fit_or_run_costs_only_itself(bench):
    document = bench(
        "--shape", "1048576x1048576x8:fp32", "8x8x8:fp32", "8x8x8:tf32", "--case-seconds", "0.1"
    )  # fmt: skip
    schema.Document.model_validate_json(json.dumps(document))
    assert [m["outcome"] for m in document["measurements"]] == ["oom", "ok", "unsupported"]
    assert "GiB" in document["measurements"][0]["error"]
    # or an outcome without a time would begin a series of its own
    assert {m["backend"] for m in document["measurements"]} == {"torch.mm"}
    assert all(m["flops"] and m["bytes"] for m in document["measurements"])


def test_a_case_past_its_time_and_a_spent_budget_are_timeouts(bench):
    document = bench("--shape", "4096x4096x4096:fp32", "8x4096x4096:fp32", "--case-timeout-s", "0.01")
    assert [m["outcome"] for m in document["measurements"]] == ["timeout", "timeout"]
    document = bench("--shape", "8x8x8:fp32", "8x8x16:fp32", "--budget-s", "0.5")
    first, second = document["measurements"]
    assert (first["outcome"], second["outcome"]) == ("ok", "timeout")
    assert "budget of 0.5 s was spent" in second["error"]


def children_of(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.fixture
def long_bench(torch_python, tmp_path):
    """A bench in the midst of its first case: (process, its measuring child, the document's path)."""
    out = tmp_path / "document.json"
    shapes = ["2048x2048x2048:fp32", "8x2048x2048:fp32"]
    command = [torch_python, "-m", "workers.bench", "gemm", "--case-seconds", "60", "--out", str(out)]
    process = subprocess.Popen([*command, "--budget-s", "20", "--shape", *shapes], cwd=ROOT)
    deadline = time.monotonic() + 60
    while not (children := children_of(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    # Threads appear once torch computes: the case has begun.
    while len(list(Path(f"/proc/{children[0]}/task").iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    yield process, children[0], out
    process.kill()
    process.wait()


def test_a_killed_child_costs_one_case(long_bench):
    process, child, out = long_bench
    os.kill(child, signal.SIGKILL)
    assert process.wait(120) == 0
    first, second = json.loads(out.read_text())["measurements"]
    assert first["outcome"] == "crashed" and "SIGKILL" in first["error"]
    assert second["outcome"] == "ok"


def test_a_bench_asked_to_stop_writes_what_it_has(long_bench):
    process, child, out = long_bench
    process.terminate()
    assert process.wait(60) == 0
    schema.Document.model_validate_json(out.read_text())
    told = json.loads(out.read_text())
    assert [found["outcome"] for found in told["measurements"]] == ["timeout", "timeout"]
    assert all(
        found["error"].endswith("the bench was asked to stop before it was done.")
        for found in told["measurements"]
    )
    assert not Path(f"/proc/{child}").exists()


def test_the_child_ends_with_its_parent(long_bench):
    process, child, _ = long_bench
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


def test_without_torch_or_cuda_one_sentence_says_so(torch_python, tmp_path):
    def run(python, *argv):
        command = [python, *argv, "--shape", "8x8x8", "--out", str(tmp_path / "document.json")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1 and not (tmp_path / "document.json").exists()
        return done.stderr

    bare = ["-S", "-m", "workers.bench", "gemm"]
    assert "needs torch" in run(sys.executable, *bare)
    probe = [torch_python, "-c", "import sys, torch; sys.exit(torch.cuda.is_available())"]
    if subprocess.run(probe).returncode == 0:
        assert "sees no CUDA GPU" in run(torch_python, "-m", "workers.bench", "gemm", "--device", "cuda")
