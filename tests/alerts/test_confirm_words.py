"""One verdict and one sentence out of what an A/B says of several cases: pure."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.alerts.confirm_words import Tried, decide

VERDICTS = ("SAME", "FAST", "SLOW", "AMBG")


@dataclasses.dataclass
class Said:
    """What `Comparison` rows are to these functions."""

    verdict: str
    ratio: float | None = 1.042
    low: float | None = 1.038
    high: float | None = 1.046
    metric: str = "time"
    pairs: int = 8
    in_cycles: bool = False
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


def tried(*verdicts: str) -> list[Tried]:
    return [Tried(f"case {n}", Said(verdict)) for n, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdicts", "worse", "said"),
    [
        (["SLOW"], True, "SLOW"),
        (["FAST"], False, "FAST"),
        (["SAME"], True, "SAME"),
        (["SLOW", "SLOW", "SAME"], True, "SLOW"),
        (["SLOW", "AMBG"], True, "SLOW"),
        (["SAME", "SAME", "AMBG"], True, "SAME"),
        (["SAME", "SLOW"], True, "AMBG"),
        (["SLOW", "FAST"], True, "AMBG"),
        (["AMBG", "SLOW"], True, "AMBG"),
        (["FAST"], True, "AMBG"),
        (["SLOW"], False, "AMBG"),
    ],
)
def test_the_strongest_case_decides_unless_another_says_otherwise(verdicts, worse, said):
    assert decide(tried(*verdicts), worse=worse)[0] == said


@given(st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=5), st.booleans())
def test_nothing_is_confirmed_or_refuted_that_any_case_contradicts(verdicts: list[str], worse: bool):
    verdict, _ = decide(tried(*verdicts), worse=worse)
    if verdict == "SAME":
        assert not {"SLOW", "FAST"} & set(verdicts)
    if verdict in ("SLOW", "FAST"):
        assert verdict == verdicts[0] == ("SLOW" if worse else "FAST")
        assert not {"SLOW", "FAST"} - {verdict} & set(verdicts)


def test_the_sentence_has_factor_interval_pairs_and_what_time_it_is_of():
    main = Said("SLOW", in_cycles=True, facts={"time_ratio": 1.071})
    host = Said("AMBG", 1.2, None, None)
    found = [Tried("gemm bf16", main, host, on_gpu=True), *tried("SAME", "SLOW")]
    assert decide(found, worse=True) == (
        "SLOW",
        "gemm bf16: SLOW ×1.042 [1.038, 1.046] over 8 pairs of fresh processes, GPU time, in cycles since "
        "the clock moved (in time ×1.071); host time: uncertain ×1.200. Of 2 more cases: 1 SAME, 1 SLOW.",
    )


def test_an_uncertain_one_says_why():
    said = Said("AMBG", 1.01, None, None, pairs=27, facts={"why": "after 27 pairs it is neither"})
    expected = "x: AMBG ×1.010 over 27 pairs of fresh processes, time (after 27 pairs it is neither)."
    assert decide([Tried("x", said)], worse=True) == ("AMBG", expected)


def test_what_is_no_gpu_time_is_called_what_it_is():
    for metric, words in (
        ("time", ", time."),
        ("cpu_time", ", CPU time of its build."),
        ("size", ", its size."),
    ):
        assert decide([Tried("x", Said("SAME", metric=metric))], worse=True)[1].endswith(words)
