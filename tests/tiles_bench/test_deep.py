"""Kernels with their real bodies: a miniature of CUTLASS and the real nvcc."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiles_bench.conftest import macro, unit, wheel_files, write_wheel
from workers.bench.document import BenchError, Finding
from workers.bench.tiles import arches, deep, instantiations, sources, toolchain
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.compiler import Frontend

GOOD, BODY_FAILS, TOO_LARGE = (128, 128, 128), (128, 128, 64), (256, 128, 128)
TEXT = unit(macro(GOOD, output="half"), macro(BODY_FAILS, output="__nv_bfloat16"), macro(TOO_LARGE))
UNIT = instantiations.parse("one.generated.cu", TEXT, "Sm120")
Deep = Callable[..., tuple[list[Finding], dict[str, str]]]


def finding(index: int, stage: str, passed: bool) -> Finding:
    variant = UNIT.instantiations[index].variant
    return Finding(
        family="moe_grouped_gemm",
        inputs=variant.inputs,
        output=variant.output,
        tile=variant.tile,
        cluster=variant.cluster,
        fusion=variant.fusion,
        swap_ab=variant.swap_ab,
        schedule=variant.schedule,
        stage=stage,  # type: ignore[arg-type]
        passed=passed,
        source="compiler",
        tier="types",
        threads=384,
        unit=UNIT.name,
        log=UNIT.name,
    )


EVIDENCE = [
    *(finding(index, "compiled", True) for index in range(3)),
    *(finding(index, "fits", index != 2) for index in range(3)),
]


@pytest.fixture
def survey(cache_folder: Path, tmp_path: Path) -> Deep:
    """survey(tier, version, told) -> (findings, logs); `told` takes what progress says"""
    cache = Cache(cache_folder)
    arch = arches.find("sm120")

    def run(tier: str, version: str = "0.6.3", told: list[str] | None = None, limit: int | None = None):
        wheel = write_wheel(tmp_path / f"{version}.whl", wheel_files({UNIT.name: TEXT}, version))
        with cache.scratch() as scratch:
            tree = sources.obtain(cache, version, wheel, scratch, lambda: None)
            tools = toolchain.obtain(cache, arch, scratch, os.environ, lambda: None)
            frontend = Frontend(tools, tree, arch, (), tier=tier)  # type: ignore[arg-type]

            def say(done: int, total: int, message: str) -> None:
                if told is not None:
                    told.append(message)

            return deep.survey(frontend, [UNIT], EVIDENCE, cache, scratch, jobs=1, limit=limit, say=say)

    return run


def test_what_fits_is_compiled_to_machine_code_and_a_body_may_fail(survey: Deep) -> None:
    (failed, passed), logs = survey("full")
    assert (failed.tile, failed.output, failed.passed, failed.reason) == (
        BODY_FAILS, "bf16", False, "compile_error",
    )  # fmt: skip
    assert failed.detail == 'static assertion failed with "K must be a multiple of 128"'
    assert (passed.stage, passed.tier, passed.tile, passed.passed) == ("compiled", "full", GOOD, True)
    assert (passed.registers or 0) > 0 and (passed.object_bytes or 0) > 500
    assert (passed.spill_store_bytes, passed.spill_load_bytes, passed.stack_bytes) == (0, 0, 0)
    assert (passed.cpu_seconds or 0) > 0 and passed.threads == 384
    said = logs[failed.log or ""]
    assert said.startswith("$ nvcc ") and "K must be a multiple of 128" in said
    assert "registers" in logs[passed.log or ""] and "device_kernel" in logs[passed.log or ""]


def test_the_body_tier_ends_with_the_front_end(survey: Deep) -> None:
    failed, passed = survey("body")[0]
    assert (failed.passed, passed.passed, passed.registers, passed.object_bytes) == (False, True, None, None)


def test_each_kernel_is_kept_and_serves_other_releases_and_other_units(
    survey: Deep, cache_folder: Path
) -> None:
    first, _ = survey("full", limit=1)
    told: list[str] = []
    both, _ = survey("full", told=told)
    assert both[0] == first[0]
    assert told[0] == "tier full: 1 of 2 kernels compiled with their bodies"
    told.clear()
    other, logs = survey("full", "0.7.0", told)
    assert told == ["tier full: 2 of 2 kernels compiled with their bodies"]
    assert other == both
    assert all(log.startswith("# compiled for flashinfer 0.6.3;") for log in logs.values())
    for entry in (cache_folder / "bodies").rglob("*.json"):
        entry.write_text(entry.read_text().replace('"registers": ', '"registers": -'))
    again, _ = survey("full")
    assert [dataclasses.replace(each, cpu_seconds=None) for each in again] == [
        dataclasses.replace(each, cpu_seconds=None) for each in both
    ]


def test_too_little_memory_is_waited_for_and_then_said(survey: Deep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "available_bytes", lambda: 3_000_000_000)
    monkeypatch.setattr(deep, "_MEMORY_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(deep, "_MEMORY_POLL_SECONDS", 0.02)
    told: list[str] = []
    with pytest.raises(BenchError, match=r"takes up to 7.5 GB to compile, 3.0 GB are free"):
        survey("full", told=told)
    assert told[-1].startswith("waiting for memory: ")
