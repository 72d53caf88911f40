"""The command: what is found by rows of the file, what cannot be read in a sentence with its line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchapp.alerts.detection_csv import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def csv(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "series.csv"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def rows(*values: object) -> str:
    return "value\n" + "".join(f"{value}\n" for value in values)


def test_a_step_is_told_in_a_line(csv, capsys):
    assert main([csv(rows(*[10, 10.1, 9.9, 10.05] * 10, *[12, 12.1, 11.9] * 5))]) == 0
    told = capsys.readouterr().out
    assert told.startswith("row 40: 10.0")
    assert "worse, certain (40 points before, 15 after)" in told


def test_json_has_every_field(csv, capsys):
    assert main([csv(rows(10.31, 5.93)), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["index"] == 1
    assert found["certain"] is found["worse"] is False
    assert {"host", "before", "after", "ratio", "low", "high", "confidence", "n_before", "n_after"} <= set(
        found
    )


def test_hosts_are_series_of_their_own_and_rows_are_those_of_the_file(csv, capsys):
    lines = [f"{10 if i < 30 else 13},slow\n20,fast\n" for i in range(40)]
    assert main([csv("value,host\n" + "".join(lines)), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["host"], found["index"]) == ("slow", 60)


def test_options_reach_the_detector(csv, capsys):
    path = csv(rows(*[10] * 40, *[10.5] * 20))
    assert main([path, "--higher-is-better"]) == 0
    assert "better, certain" in capsys.readouterr().out
    assert main([path, "--min-effect", "0.1"]) == 0
    assert capsys.readouterr().out == "No step found.\n"
    assert main([path, "--minimum-history", "41"]) == 0
    assert "uncertain" in capsys.readouterr().out


def test_missing_values_and_an_empty_file_of_rows_are_no_errors(csv, capsys):
    assert main([csv("value,samples\n,\nnan,1;2\n3,\n")]) == 0
    assert main([csv("value\n")]) == 0
    assert capsys.readouterr().out == "No step found.\n" * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected a column named value, got nothing."),
        ("time\n1\n", "line 1: expected a column named value, got time."),
        ("value\n1\nfast\n", "line 3, column value: expected a number, got 'fast'."),
        ("value,samples\n1,1;x;2\n", "line 2, column samples: expected a number, got 'x'."),
        ("value,host\n1\n", "line 2: expected 2 columns, got 1."),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(csv, capsys, text, said):
    assert main([csv(text)]) == 1
    assert capsys.readouterr().err.endswith(f": {said}\n")


def test_a_head_that_is_no_csv_is_told(csv, capsys):
    """Its length is refused, or its name: another library may have raised the limit of this process."""
    assert main([csv("x" * 200_000)]) == 1
    said = capsys.readouterr().err
    assert ("not CSV" in said or "expected a column named value" in said) and len(said) < 1000


def test_a_file_that_is_no_text_and_one_that_is_missing(tmp_path, capsys):
    binary = tmp_path / "series.csv"
    binary.write_bytes(b"value\n\xff\xfe\x00\n")
    assert main([str(binary)]) == 1
    assert main([str(tmp_path / "none.csv")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--min-effect", "-1"], ["--min-effect", "x"], ["--minimum-history", "0"]]
)
def test_options_out_of_range_are_refused(csv, arguments):
    with pytest.raises(SystemExit):
        main([csv(rows(1)), *arguments])


def test_it_runs_as_a_module_and_reads_standard_input():
    ended = subprocess.run(
        [sys.executable, "-m", "benchapp.alerts.detect", "-"],
        cwd=ROOT,
        input=rows(10.31, 5.93),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("row 1: 10.31 → 5.93, ×0.575")
