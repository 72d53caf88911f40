"""`python -m workers.bench confirm` and `bisect`, from their arguments to a document."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchapp.ingest import schema
from tests.confirm.sides import SMALL, around, side, turned
from tests.workers.conftest import alive
from workers.bench.cli import main
from workers.bench.confirm.turn import Side

REPOSITORY = Path(__file__).resolve().parents[2]


def run(folder: Path, *words: str) -> schema.Document:
    out = folder / "out.json"
    assert main([*words, "--case", str(SMALL), "--host", "boxa", "--out", str(out)]) == 0
    return schema.parse(out.read_bytes())


def bisect(folder: Path, sides: list[Side], *words: str) -> schema.Document:
    environments = [word for each in sides for word in ("--env", f"{each.name}={each.python}")]
    return run(folder, "bisect", *environments, *words)


def test_an_ab_is_a_document_that_is_taken_in(tmp_path: Path):
    a, b = side(tmp_path, "A", *around(1e-3)), side(tmp_path, "B", *around(0.9e-3))
    words = ("confirm", "--old", str(a.python), "--old-name", "A", "--new", str(b.python), "--new-name", "B")
    document = run(tmp_path, *words)
    (said,) = document.comparisons
    assert (document.kind, said.verdict, document.stack["torch"]) == ("confirm", "FAST", "B")
    assert document.target.host == "boxa"
    assert document.command[:6] == ("python", "-m", "workers.bench", "confirm", "--old", "envs/A/bin/python")
    assert not any(str(tmp_path) in word for word in document.command)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--old", "/nowhere/python"), "is no program"),
        (("--margin", "0"), "--margin 0: expected"),
        (("--pairs-max", "0"), "--pairs-max 0: expected"),
        (("--case", "decode:nothing=1"), "nothing"),
        (("--case", "jit_module:module=norm,arch=sm90"), "modules does"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(words, fault, tmp_path, capsys):
    python = ("--old", sys.executable, "--new", sys.executable, "--case", str(SMALL))
    assert main(["confirm", *python, *words, "--out", str(tmp_path / "out.json")]) == 1
    assert fault in capsys.readouterr().err


def test_asked_to_stop_it_writes_what_it_has_and_leaves_no_process(tmp_path: Path):
    slow = {"value": 1e-3, "sleep": 0.05}
    a, b = side(tmp_path, "A", *[slow] * 2, {"sleep": 600}), side(tmp_path, "B", slow)
    out = tmp_path / "out.json"
    command = ["confirm", "--old", str(a.python), "--new", str(b.python), "--case", str(SMALL)]
    bench = subprocess.Popen(
        [sys.executable, "-m", "workers.bench", *command, "--out", str(out)], cwd=REPOSITORY
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "turns").exists() or [t.name for t in turned(tmp_path)].count("A") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    bench.send_signal(signal.SIGTERM)
    assert bench.wait(30) == 0
    (said,) = schema.parse(out.read_bytes()).comparisons
    assert (said.verdict, said.pairs) == ("AMBG", 2)
    assert "asked to stop" in said.why
    assert not alive(int((tmp_path / "pid").read_text()))


def versions(folder: Path, *values: float) -> list[Side]:
    return [side(folder, f"0.6.{i}", {"value": value}) for i, value in enumerate(values)]


def test_a_bisect_finds_the_first_version_and_the_factor_of_its_step(tmp_path: Path):
    document = bisect(tmp_path, versions(tmp_path, 1.0, 1.0, 1.0, 1.1, 1.21))
    pairs = [(each.old_stack["torch"], each.new_stack["torch"]) for each in document.comparisons]
    assert pairs == [("0.6.0", "0.6.4"), ("0.6.0", "0.6.2"), ("0.6.0", "0.6.3"), ("0.6.2", "0.6.3")]
    assert [each.verdict for each in document.comparisons] == ["SLOW", "SAME", "SLOW", "SLOW"]
    (note,) = document.notes
    assert "0.6.3 is the first version that has the change, SLOW against 0.6.2 by a factor of 1.100" in note
    assert document.stack["torch"] == "0.6.4"


def test_an_uncertain_ab_ends_a_bisect(tmp_path: Path):
    good, bad = side(tmp_path, "good", {"value": 1.0}), side(tmp_path, "bad", {"value": 2.0})
    unsure = side(tmp_path, "unsure", *around(1.4, spread=0.2))
    document = bisect(tmp_path, [good, unsure, bad], "--pairs-max", "5")
    assert [each.verdict for each in document.comparisons] == ["SLOW", "AMBG"]
    assert "after good and with bad at the latest; the A/B of unsure is uncertain" in document.notes[0]


def test_an_improvement_is_bisected_past_a_version_that_cannot_be_measured(tmp_path: Path):
    sides = versions(tmp_path, 1.0, 1.0, 1.0, 0.8)
    sides[1] = side(tmp_path, "broken", {"error": "no torch"})
    document = bisect(tmp_path, sides)
    assert "broken cannot be measured: no torch." in document.notes[0]
    assert "0.6.3 is the first version that has the change, FAST against 0.6.2" in document.notes[1]


def test_without_a_difference_there_is_nothing_to_bisect(tmp_path: Path):
    document = bisect(tmp_path, versions(tmp_path, 1.0, 1.3, 1.0))
    assert document.notes == ("0.6.2 is SAME against 0.6.0: there is nothing to bisect.",)


@pytest.mark.slow
def test_the_gemm_bench_itself_is_what_measures_both_sides(tmp_path: Path, torch_python: Path):
    """By torch on CPUs; the new side is a script that becomes a Python, as for environments laid by hand."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH=/nowhere exec "{torch_python}" "$@"\n')
    script.chmod(0o755)
    out = tmp_path / "out.json"
    words: list[Any] = ["confirm", "--old", torch_python, "--new", script, "--pairs-max", 1]
    words += ["--case", "256x512x512:bf16", "--case-seconds", 0.1, "--out", out]
    assert main([str(word) for word in words]) == 0
    (said,) = schema.parse(out.read_bytes()).comparisons
    assert (said.verdict, said.pairs, said.backend) == ("AMBG", 1, "torch.mm")
    assert said.ratio > 0 and (said.old_outcome, said.new_outcome) == ("ok", "ok")
    told = json.loads(out.read_text())
    assert told["target"]["kind"] == "cpu" and told["stack"]["torch"].startswith("2.")
