"""Tactic ids of one version, both GEMMs."""

from __future__ import annotations

import pytest

from benchapp.ingest.importers.tactics import Tactic, Tactics, UnknownTactic
from tests.ingest.importers.tactic_lists import lookup

LISTED = lookup("0.6.3", "sm120")["nvfp4xnvfp4"]
ONE = Tactic((128, 128, 128), (1, 1, 1), "none", False, "auto")
#: ids 0, 2 and 4, 7: what lies between are kernels of an older architecture
WITH_GAPS = Tactics("0.6.3", "sm90", "fp8xfp8", {0: ONE, 2: ONE}, {4: ONE, 7: ONE})


@pytest.mark.parametrize(
    ("number", "gemm", "said"),
    [
        (0, 1, "128x128x256 NONE no swap"),
        (3, None, "256x128x128 NONE no swap"),
        (7, 1, "256x128x128 NONE swap_ab"),
        (15, 2, "256x128x128 FINALIZE no swap"),
        (23, None, "256x128x128 FINALIZE swap_ab"),
    ],
)
def test_an_id_means_one_variant(number: int, gemm: int | None, said: str):
    decoded = LISTED.decode(number, gemm)
    assert decoded is not None
    assert str(decoded[1]) == said


@pytest.mark.parametrize(("number", "gemm"), [(8, 1), (7, 2), (24, 2), (24, None), (-2, None)])
def test_an_id_of_neither_gemm_is_out_of_range(number: int, gemm: int | None):
    with pytest.raises(UnknownTactic, match=f"tactic {number} is out of range: .*0.6.3 on sm120 has ids"):
        LISTED.decode(number, gemm)


@pytest.mark.parametrize(("number", "gemm"), [(1, 1), (3, 1), (5, 2), (5, None), (3, None)])
def test_an_id_between_those_listed_is_no_fault(number: int, gemm: int | None):
    assert WITH_GAPS.decode(number, gemm) is None


@pytest.mark.parametrize(("number", "gemm"), [(4, 1), (3, 2), (8, None)])
def test_beyond_the_ends_it_is(number: int, gemm: int | None):
    with pytest.raises(UnknownTactic, match="out of range"):
        WITH_GAPS.decode(number, gemm)
