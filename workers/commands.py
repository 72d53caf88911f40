"""What each bench is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings

from benchapp.catalog.digests import recipe_words
from benchapp.runs.models import Run
from benchapp.runs.work import Claim
from workers.bench.serving.endpoint import KEY_VARIABLE

REPOSITORY = Path(__file__).resolve().parents[1]


def survey_arguments(run: Claim, wheel: Path | None = None) -> list[str]:
    """Of the bench of tiles, or of the explorer."""
    cache = settings.HOME / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    asked = run.params
    return [
        asked.get("task", "tiles"), "--flashinfer", run.versions["flashinfer"],
        "--arch", asked["arch"], "--cache", str(cache),
        *(("--tier", asked["tier"]) if "tier" in asked else ()),
        *(("--full", str(asked["full"])) if "full" in asked else ()),
        *(("--rescue",) if "rescue" in asked else ()),
        *(("--wheel", str(wheel)) if wheel else ()),
    ]  # fmt: skip


def gemm_arguments(run: Claim, folder: Path, budget_s: float) -> list[str]:
    """Of the GEMM bench. Past `budget_s` it starts no case."""
    cases = folder / "cases.json"
    cases.write_text(json.dumps(run.params["cases"]))
    return [
        "gemm", "--device", run.params["device"], "--cases", str(cases), "--budget-s", f"{budget_s:.0f}",
        *_option("--case-timeout-s", run.params.get("case_timeout_s")),
        *_option("--processes", run.params.get("processes")),
        *(("--timer", str(run.params["timer"])) if "timer" in run.params else ()),
        *(word for backend in run.params.get("backends", ()) for word in ("--backend", str(backend))),
    ]  # fmt: skip


def moe_arguments(run: Claim, folder: Path, budget_s: float) -> list[str]:
    """Of the bench of whole models. Past `budget_s` it starts no case."""
    cases = folder / "cases.json"
    cases.write_text(json.dumps(run.params["cases"]))
    return [
        "moe", "--device", run.params["device"], "--cases", str(cases), "--budget-s", f"{budget_s:.0f}",
        *_option("--case-timeout-s", run.params.get("case_timeout_s")),
        *(word for backend in run.params.get("backends", ()) for word in ("--backend", str(backend))),
    ]  # fmt: skip


def serving_arguments(run: Claim, folder: Path, budget_s: float) -> list[str]:
    """Of the load generator. The endpoint and what its stack is stated to be travel as a file."""
    asked = folder / "endpoint.json"
    asked.write_text(json.dumps(run.params["endpoint"]))
    cases = folder / "cases.json"
    cases.write_text(json.dumps(run.params["cases"]))
    return [
        "serving", "--endpoint", str(asked), "--cases", str(cases), "--budget-s", f"{budget_s:.0f}",
        *_option("--case-timeout-s", run.params.get("case_timeout_s")),
    ]  # fmt: skip


def confirm_arguments(run: Claim, folder: Path, budget_s: float, old: Path, new: Path) -> list[str]:
    """Of an A/B of two environments' Pythons. Past `budget_s`, or the run's own, it starts no process."""
    cases, cache = folder / "cases.json", settings.HOME / "cache"
    cases.write_text(json.dumps(run.params["cases"]))
    cache.mkdir(parents=True, exist_ok=True)
    budget = min(budget_s, float(run.params.get("budget_s", budget_s)))
    names = _names(run.versions_beside, run.versions)
    return [
        "confirm", "--old", str(old), "--old-name", names[0], "--new", str(new), "--new-name", names[1],
        "--bench", run.params["bench"], "--device", run.params["device"], "--cases", str(cases),
        "--cache", str(cache), "--budget-s", f"{budget:.0f}",
        *_option("--margin", run.params.get("margin")),
        *(word for backend in run.params.get("backends", ()) for word in ("--backend", str(backend))),
    ]  # fmt: skip


def _names(old: dict[str, str], new: dict[str, str]) -> tuple[str, str]:
    """What the two sides are called: by the one version in which they differ, else by all."""
    differing = [name for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
    if len(differing) == 1 and differing[0] in old.keys() & new.keys():
        return old[differing[0]], new[differing[0]]
    return recipe_words(old)[:60], recipe_words(new)[:60]


def endpoint_key(run: Claim) -> dict[str, str]:
    """The API key that a server wants, as a variable for the child that measures it and for no other. Only
    variables made for this may be named, so that a run sends no other secret of this host away."""
    endpoint = run.params.get("endpoint")
    name = endpoint.get("api_key_env") if isinstance(endpoint, dict) else None
    if not isinstance(name, str) or KEY_VARIABLE.fullmatch(name) is None or name not in os.environ:
        return {}
    return {name: os.environ[name]}


#: what tells each kind of measurement what to do
MEASURING = {
    Run.Kind.GEMM: gemm_arguments,
    Run.Kind.MOE: moe_arguments,
    Run.Kind.SERVING: serving_arguments,
}


def _option(name: str, value: Any) -> tuple[str, ...]:
    return () if value is None else (name, f"{float(value):g}")


def child_environment(folder: Path, gpus: tuple[str, ...] = ()) -> dict[str, str]:
    """Variables of a child beside those passed on. It sees the GPUs that it was given, and no other."""
    return {
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder),
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }


def measuring_environment(folder: Path, gpus: tuple[str, ...]) -> dict[str, str]:
    """Variables of a child that measures. Whatever a library keeps goes with the attempt's folder, and none
    compiles: FlashInfer raises instead where a kernel was not built ahead.

    FLASHINFER_DISABLE_VERSION_CHECK stays unset, so that parts of FlashInfer of different versions are told.
    """
    return child_environment(folder, gpus) | {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TRITON_CACHE_DIR": str(folder / "cache" / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(folder),
        "FLASHINFER_DISABLE_JIT": "1",
    }
