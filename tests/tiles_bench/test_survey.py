"""The whole survey through its command line, on small wheels of our own making and the real nvcc."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tiles_bench.conftest import macro, unit, wait_until_gone

REPOSITORY = Path(__file__).parents[2]
GOOD, BAD, LEFT_OUT = (128, 128, 128), (128, 48, 128), (64, 128, 128)
UNITS = {
    "one.generated.cu": unit(
        macro(GOOD, output="half"),
        macro(BAD, output="half"),
        macro(BAD, output="__nv_bfloat16", fusion="FINALIZE"),
        macro(GOOD, output="__nv_bfloat16", fusion="FINALIZE", swap=True),
    ),
    "two.generated.cu": unit(
        macro((256, 128, 128), fusion="FINALIZE", inputs="__nv_fp8_e4m3, SafeFP4", swap=True),
        macro(LEFT_OUT),
    ),
}


def bench(
    *arguments: str, env: dict[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers.bench", "tiles", "--arch", "sm120", "--flashinfer", "0.6.3"]
    return subprocess.run(
        [*command, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **more,
    )


def survey(wheel: Path, cache: Path, out: Path, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = bench("--wheel", str(wheel), "--cache", str(cache), "--out", str(out), env=env)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def findings(document: dict[str, Any], stage: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        (tuple(f["tile"]), f["output"], f["fusion"], f["swap_ab"]): f
        for f in document["evidence"]
        if f["stage"] == stage
    }


def test_every_instantiation_gets_its_own_verdict(
    make_wheel: Callable[..., Path], cache_folder: Path, tmp_path: Path
) -> None:
    document = survey(make_wheel(UNITS), cache_folder, tmp_path / "out.json")
    assert document["stack"]["flashinfer"] == "0.6.3"
    assert document["stack"]["cutlass"] == "4.9.1"
    assert (document["costs"]["instantiations"], document["costs"]["units"]) == (6, 2)
    assert len(findings(document, "dispatched")) == 6

    compiled = findings(document, "compiled")
    failed = {key for key, f in compiled.items() if f["reason"] == "compile_error"}
    assert failed == {(BAD, "f16", "none", False), (BAD, "bf16", "finalize", False)}
    assert all("N must be a multiple of 32" in compiled[key]["detail"] for key in failed)
    assert compiled[LEFT_OUT, "f16", "none", False]["reason"] == "not_supported"

    fits = findings(document, "fits")
    small, large = fits[GOOD, "f16", "none", False], fits[(256, 128, 128), "f16", "finalize", True]
    assert (small["need_bytes"], small["passed"], small["stages"], small["threads"]) == (70656, True, 2, 384)
    assert (large["need_bytes"], large["passed"], large["reason"]) == (107520, False, "smem_overflow")
    assert large["inputs"] == "mxfp8xmxfp4"
    assert large["detail"] == "6,144 B more than a block of sm120 can have"
    assert fits[GOOD, "bf16", "finalize", True]["unit"] == "one.generated.cu"
    for finding in fits.values():
        assert sum(finding["parts"].values()) == finding["need_bytes"]
    log = document["logs"]["one.generated.cu"]
    assert log.startswith("$ nvcc ") and "-DMINI" in log and "N must be a multiple of 32" in log
    assert "need=70656" in log and str(cache_folder) not in log


def test_the_second_survey_compiles_nothing_and_needs_no_network(
    make_wheel: Callable[..., Path], cache_folder: Path, tmp_path: Path
) -> None:
    wheel = make_wheel(UNITS)
    first = survey(wheel, cache_folder, tmp_path / "1.json")
    started = time.monotonic()
    second = survey(wheel, cache_folder, tmp_path / "2.json", {"PIP_INDEX_URL": "http://127.0.0.1:1/simple"})
    assert time.monotonic() - started < 5
    assert second["costs"]["cached_units"] == 2
    assert second["evidence"] == first["evidence"]
    assert second["logs"] == first["logs"]
    for verdict in (cache_folder / "verdicts").rglob("*.json"):
        verdict.write_text('{"kernels": [')
    third = survey(wheel, cache_folder, tmp_path / "3.json")
    assert third["costs"]["cached_units"] == 0
    assert third["evidence"] == first["evidence"]


def test_two_surveys_at_once_share_one_cache(
    make_wheel: Callable[..., Path], cache_folder: Path, tmp_path: Path
) -> None:
    wheel = make_wheel(UNITS)
    documents: list[dict[str, Any]] = []

    def one(name: str) -> None:
        documents.append(survey(wheel, cache_folder, tmp_path / name))

    threads = [threading.Thread(target=one, args=(f"{i}.json",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(documents) == 2
    assert documents[0]["evidence"] == documents[1]["evidence"]
    assert sorted(document["costs"]["cached_units"] for document in documents) == [0, 2]
    assert list((cache_folder / "scratch").iterdir()) == []


def wrapped_nvcc(folder: Path, tools: Path, case: str) -> Path:
    """A CUDA_HOME whose nvcc runs shell lines before it becomes the real one."""
    packaged = next((tools / "toolchains").glob("*/bin/nvcc"), None)
    real = shutil.which("nvcc") or packaged
    nvcc = folder / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f'#!/bin/sh\n{case}\nexec "{real}" "$@"\n')
    nvcc.chmod(0o755)
    return folder / "cuda"


def test_a_crash_of_the_compiler_marks_its_unit_only_and_is_tried_again(
    make_wheel: Callable[..., Path], cache_folder: Path, tools_cache: Path, tmp_path: Path
) -> None:
    wheel = make_wheel(UNITS)
    home = wrapped_nvcc(
        tmp_path, tools_cache, "[ -f survey.cu ] && grep -q two.generated survey.cu && kill -SEGV $$"
    )
    document = survey(wheel, cache_folder, tmp_path / "1.json", {"CUDA_HOME": str(home)})
    by_unit = {
        (f["unit"], f["reason"], f["detail"]) for f in document["evidence"] if f["stage"] == "compiled"
    }
    assert {(u, r) for u, r, _ in by_unit} == {
        ("one.generated.cu", None),
        ("one.generated.cu", "compile_error"),
        ("two.generated.cu", "compile_error"),
    }
    assert ("two.generated.cu", "compile_error", "the compiler was killed by signal 11") in by_unit
    again = survey(wheel, cache_folder, tmp_path / "2.json")
    assert again["costs"]["cached_units"] in (0, 1)
    assert {f["unit"] for f in again["evidence"] if f["stage"] == "fits"} == set(UNITS)


def test_an_unusable_nvcc_is_passed_over(
    make_wheel: Callable[..., Path], cache_folder: Path, tools_cache: Path, tmp_path: Path
) -> None:
    home = wrapped_nvcc(tmp_path, tools_cache, "kill -SEGV $$")
    document = survey(make_wheel(UNITS), cache_folder, tmp_path / "1.json", {"CUDA_HOME": str(home)})
    assert findings(document, "fits")


def test_termination_leaves_nothing_running_and_no_scratch(
    make_wheel: Callable[..., Path], cache_folder: Path, tools_cache: Path, tmp_path: Path
) -> None:
    home = wrapped_nvcc(
        tmp_path, tools_cache, f"[ -f survey.cu ] && echo $$ > {tmp_path}/pid && exec sleep 120"
    )
    wheel = make_wheel(UNITS)
    command = [sys.executable, "-m", "workers.bench", "tiles", "--arch", "sm120", "--flashinfer", "0.6.3"]
    command += ["--wheel", str(wheel), "--cache", str(cache_folder), "--out", str(tmp_path / "out.json")]
    running = subprocess.Popen(command, cwd=REPOSITORY, env={**os.environ, "CUDA_HOME": str(home)})
    deadline = time.monotonic() + 60
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()):
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 143
    wait_until_gone(int((tmp_path / "pid").read_text()))
    assert list((cache_folder / "scratch").iterdir()) == []
    assert not (tmp_path / "out.json").exists()


def test_a_full_disk_while_compiling_is_one_sentence_and_no_verdict(
    make_wheel: Callable[..., Path], cache_folder: Path, tools_cache: Path, tmp_path: Path
) -> None:
    message = "nvcc fatal: cannot write: No space left on device"
    home = wrapped_nvcc(tmp_path, tools_cache, f'[ -f survey.cu ] && echo "{message}" >&2 && exit 1')
    done = bench(
        "--wheel", str(make_wheel(UNITS)), "--cache", str(cache_folder), "--out", str(tmp_path / "out.json"),
        env={"CUDA_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "\nerror: The disk became full while nvcc compiled" in done.stderr
    assert list((cache_folder / "verdicts").iterdir()) == []
