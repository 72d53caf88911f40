import argparse
import json

import pytest

from workers.bench.arguments import backends_of
from workers.bench.cases import parse as cases
from workers.bench.cases.gemm import Gemm as Case
from workers.bench.document import BenchError
from workers.bench.gemm import cli
from workers.bench.suites import SUITES


def arguments(*argv):
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    return parser.parse_args(argv)


def chosen(*argv):
    return cli.chosen_cases(arguments(*argv))


def test_params_flops_and_compulsory_bytes():
    case = Case(16, 4096, 6144, "bf16")
    assert case.params == {"m": 16, "n": 4096, "k": 6144, "dtype": "bf16", "layout": "nt"}
    assert case.work.flops == 2 * 16 * 4096 * 6144
    assert case.work.bytes == 2 * (16 * 6144 + 4096 * 6144 + 16 * 4096)
    assert cases.from_params("gemm", case.params, "case") == case


def test_shapes_sweeps_suites_and_files_come_together_without_repeats(tmp_path):
    listed = tmp_path / "cases.json"
    listed.write_text(json.dumps([Case(1, 8, 8, "fp32").params, {"m": 2, "n": 8, "k": 8, "dtype": "bf16"}]))
    assert chosen("--cases", str(listed)) == [Case(1, 8, 8, "fp32"), Case(2, 8, 8, "bf16")]
    assert chosen("--shape", "1x8x8", "1x8x8:fp32", "--dtype", "fp32,bf16") == [
        Case(1, 8, 8, "fp32"),
        Case(1, 8, 8, "bf16"),
    ]
    assert chosen("--m", "1,16", "--n", "8", "--k", "4") == [Case(1, 8, 4, "bf16"), Case(16, 8, 4, "bf16")]
    assert chosen("--suite", "cpu-smoke") == list(SUITES["cpu-smoke"])


def test_groups_gather_an_m_sweep_over_one_weight():
    grouped = cases.in_groups(SUITES["h200-first"])
    assert [case.params["m"] for case in grouped[0][:9]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert sum(map(len, grouped)) == len(SUITES["h200-first"])


def test_a_child_takes_several_short_sweeps_and_never_part_of_one():
    lengths = {8: 10, 9: 10, 10: 10, 11: 40}
    sweeps = [[Case(m, n, 64, "bf16") for m in range(1, length + 1)] for n, length in lengths.items()]
    grouped = cases.in_groups(case for sweep in sweeps for case in sweep)
    assert [{case.params["n"] for case in group} for group in grouped] == [{8, 9}, {10}, {11}]


@pytest.mark.parametrize("argv", [("--suite", "h200-first"), ("--shape", "3x5x7:tf32", "--budget-s", "30")])
def test_the_repeat_command_asks_for_the_same_cases(argv):
    args = arguments(*argv)
    wanted = cli.chosen_cases(args)
    command = cli.repeat_command(args, wanted)
    assert command[:4] == ("python", "-m", "workers.bench", "gemm")
    assert cli.chosen_cases(arguments(*command[4:])) == wanted


def test_a_long_case_list_still_makes_a_short_repeat_command():
    wanted = [Case(m, 1048576, 1048576, "bf16") for m in range(1, 5001)]
    command = cli.repeat_command(arguments("--shape", "1x1x1"), wanted)
    assert len(command) <= 200 and max(map(len, command)) <= 2000
    assert cli.chosen_cases(arguments(*command[4:])) == wanted


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), "Nothing to measure"),
        (("--suite", "nightly"), "cpu-smoke"),
        (("--shape", "16x16"), "MxNxK"),
        (("--shape", "0x16x16"), r"\.m: expected a whole number from 1"),
        (("--shape", "99999999x1x1"), r"\.m: expected"),
        (("--shape", "1x1x1:fp4"), r"\.dtype: expected one of"),
        (("--shape", "1x1x1", "--dtype", "bf17"), "bf17"),
        (("--m", "1,2", "--n", "8"), "together"),
        (("--m", "1,", "--n", "8", "--k", "8"), "MxNxK"),
        (("--cases", "/nowhere/cases.json"), "No such file"),
    ],
)
def test_a_wrong_request_is_one_clear_sentence(argv, says):
    with pytest.raises(BenchError, match=says):
        chosen(*argv)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("{}", "expected a list"),
        ("[3]", r"cases.json\[0\]: expected an object"),
        ('[{"m": true, "n": 1, "k": 1, "dtype": "bf16"}]', r"\[0\].m: expected a whole number"),
        ('[{"m": 1, "n": 1.5, "k": 1, "dtype": "bf16"}]', r"\[0\].n: expected a whole number"),
        ('[{"m": 1, "n": 1, "k": 1, "dtype": ["bf16"]}]', r"\[0\].dtype: expected"),
        ('[{"m": 1, "n": 1, "k": 1, "dtype": "bf16", "tile": 3}]', "unknown field 'tile'"),
        ('[{"m": 1, "n": 1, "k": 1, "dtype": "bf16", "layout": "tt"}]', r"\[0\].layout: expected one of nt"),
    ],
)
def test_a_wrong_case_file_names_the_place(tmp_path, text, says):
    path = tmp_path / "cases.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=says):
        chosen("--cases", str(path))


@pytest.mark.parametrize(
    ("option", "value"), [("--threads", "0"), ("--budget-s", "nan"), ("--case-seconds", "-1")]
)
def test_limits_must_be_more_than_zero(option, value):
    with pytest.raises(BenchError, match="expected more than 0"):
        cli.run(arguments("--shape", "1x1x1", option, value))


def test_cases_of_any_kind_backends_and_how_they_are_timed_are_in_the_repeat_command():
    args = arguments(
        "--device", "cuda", "--shape", "16x64x128:nvfp4", "--case", "rmsnorm:tokens=4,hidden=64,dtype=bf16",
        "copy:bytes=1024", "--backend", "torch.mm,torch.copy_", "--backend", "flashinfer.rmsnorm",
        "--timer", "cuda_graph", "--l2", "flushed", "--processes", "3",
    )  # fmt: skip
    wanted = cli.chosen_cases(args)
    assert [case.kind for case in wanted] == ["gemm", "rmsnorm", "copy"]
    again = arguments(*cli.repeat_command(args, wanted)[4:])
    assert cli.chosen_cases(again) == wanted
    assert backends_of(again) == ("torch.mm", "torch.copy_", "flashinfer.rmsnorm")
    assert (again.timer, again.l2, again.processes) == ("cuda_graph", "flushed", 3)
    assert backends_of(arguments("--shape", "1x1x1")) is None


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--processes", "0", "from 1 to 100"),
        ("--processes", "101", "from 1 to 100"),
        ("--backend", "torch.mm,", "expected names"),
    ],
)
def test_wrong_processes_and_backends_are_named(option, value, says):
    with pytest.raises(BenchError, match=says):
        cli.run(arguments("--shape", "1x1x1", option, value))
