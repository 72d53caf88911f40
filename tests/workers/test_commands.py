"""What a child that measures is told: options that the bench knows, and places of its own."""

from __future__ import annotations

import argparse
import json

from benchapp.fleet.ask_fields import TIMERS
from benchapp.fleet.model_asks import STEPS
from benchapp.runs.models import Run
from benchapp.runs.work import Claim
from workers.bench.arguments import backends_of
from workers.bench.cases.model import Decode
from workers.bench.gemm import cli
from workers.bench.moe import cli as moe_cli
from workers.child import environment
from workers.commands import gemm_arguments, measuring_environment, moe_arguments


def claimed(**params: object) -> Claim:
    whole = {"device": "cuda", "cases": [{"m": 1, "n": 8, "k": 16, "dtype": "nvfp4"}]} | params
    return Claim(1, 1, Run.Kind.GEMM, "gpu.arch.sm90", 10, {"flashinfer": "0.6.9"}, whole, "", (), None)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    assert arguments[0] == "gemm"
    return parser.parse_args(arguments[1:])


def test_options_of_an_ask_are_options_of_the_bench(tmp_path):
    backends = ["torch.mm", "flashinfer.mm_fp4.cutlass"]
    for timer in TIMERS:
        run = claimed(processes=3, case_timeout_s=60, timer=timer, backends=backends)
        args = parsed(gemm_arguments(run, tmp_path, 900))
        assert (args.processes, args.case_timeout_s, args.timer, args.budget_s) == (3, 60, timer, 900)
        assert backends_of(args) == tuple(backends)
        assert json.loads(args.cases.read_text()) == run.params["cases"]


def test_without_options_the_bench_chooses(tmp_path):
    said = gemm_arguments(claimed(), tmp_path, 900)
    assert not {"--processes", "--case-timeout-s", "--timer", "--backend"} & set(said)


def test_a_run_of_models_is_told_its_cases_and_the_steps_that_estimates_count_on(tmp_path):
    case = {"kind": "decode", "model": "tiny-gqa", "batch": 4, "context": 8, "layers": 3, "tp": 2, "ep": 1}
    run = claimed(cases=[case], case_timeout_s=60, backends=["flashinfer+triton.fused_experts"])
    said = moe_arguments(run, tmp_path, 900)
    parser = argparse.ArgumentParser()
    moe_cli.add_arguments(parser)
    args = parser.parse_args(said[1:])
    assert (said[0], args.device, args.case_timeout_s, args.budget_s) == ("moe", "cuda", 60, 900)
    assert backends_of(args) == ("flashinfer+triton.fused_experts",)
    (chosen,) = moe_cli.chosen_cases(args)
    assert isinstance(chosen, Decode) and chosen.layout.gpus == 2 and args.steps == STEPS


def test_an_operators_settings_of_nccl_reach_the_bench_and_a_gang_sees_its_gpus_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    told = environment(measuring_environment(tmp_path, ("GPU-a0", "GPU-a1")))
    assert told["NCCL_NVLS_ENABLE"] == "0" and told["CUDA_VISIBLE_DEVICES"] == "GPU-a0,GPU-a1"
    assert "DATABASE_URL" not in told


def test_what_a_library_keeps_goes_with_the_attempt_and_nothing_compiles(tmp_path):
    told = measuring_environment(tmp_path, ("GPU-a0",))
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-a0" and told["FLASHINFER_DISABLE_JIT"] == "1"
    for name in ("FLASHINFER_WORKSPACE_BASE", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TMPDIR"):
        assert told[name].startswith(str(tmp_path)), name
