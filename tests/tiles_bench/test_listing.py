"""What three lists of a version say of each other, and what a tactic id means.

`tactics/` holds what the programs of real releases wrote about NVFP4 on SM120, without backtraces.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiles_bench.conftest import macro, unit
from workers.bench.document import BenchError
from workers.bench.tiles import arches, candidates, findings, instantiations, listing
from workers.bench.tiles.candidates import Offer, Outcome
from workers.bench.tiles.instantiations import Form, Unit
from workers.bench.tiles.listing import Entry

FOLDER = Path(__file__).parent / "tactics"
NVFP4 = "nvfp4xnvfp4"
SMALL = [(128, 128, 256), (128, 128, 128), (256, 128, 128), (128, 256, 128)]
NARROW = [(128, 32, 256), (128, 32, 128), (128, 64, 256), (128, 64, 128)]
TILES = {"0.6.3": SMALL, "0.6.8": SMALL, "0.6.17": SMALL + NARROW, "0.6.18": SMALL + NARROW}


def offer(version: str) -> Offer:
    return candidates.parse((FOLDER / f"{version}-sm120.tsv").read_text(), [])


def written(tiles: list[tuple[int, int, int]]) -> Unit:
    """What the generators of these releases write for the tiles."""
    macros = [
        macro(tile, fusion=fusion, swap=swap, output=output)
        for tile in tiles
        for fusion in ("NONE", "FINALIZE")
        for swap in (True, False)
        for output in ("half", "__nv_bfloat16")
    ]
    return instantiations.parse("one.generated.cu", unit(*macros), "Sm120")


def lists(version: str) -> dict[Form, Entry]:
    return listing.entries(offer(version), [written(TILES[version])], [NVFP4])


def form(tile: tuple[int, int, int], fusion: str = "none", *, swap: bool = False) -> Form:
    return Form(NVFP4, tile, (1, 1, 1), fusion, swap, "auto")


@pytest.mark.parametrize(
    ("version", "gemm1", "gemm2", "never"),
    [
        ("0.6.3", 8, 16, set()),
        ("0.6.8", 12, 24, {(128, 128, 512), (256, 128, 256)}),
        ("0.6.17", 20, 40, {(128, 128, 512), (256, 128, 256)}),
        ("0.6.18", 20, 40, {(128, 128, 512), (256, 128, 256)}),
    ],
)
def test_tactics_of_a_release_are_counted_and_those_that_never_dispatch_named(
    version: str, gemm1: int, gemm2: int, never: set[tuple[int, int, int]]
) -> None:
    entries = lists(version)
    ids = [pair for entry in entries.values() for pair in entry.tactics]
    assert sorted(number for gemm, number in ids if gemm == 1) == list(range(gemm1))
    assert sorted(number for gemm, number in ids if gemm == 2) == list(range(gemm1, gemm1 + gemm2))
    assert {entry.form.tile for entry in entries.values() if not entry.dispatched} == never
    assert all(entry.instantiated == entry.dispatched for entry in entries.values())


@pytest.mark.parametrize(
    ("version", "tactic", "gemm", "expected"),
    [
        ("0.6.3", 15, 2, form((256, 128, 128), "finalize")),
        ("0.6.17", 17, 1, form((128, 32, 128), swap=True)),
        ("0.6.18", 33, 2, form((128, 256, 128), "finalize")),
    ],
)
def test_an_id_means_a_form_and_a_form_its_ids(version: str, tactic: int, gemm: int, expected: Form) -> None:
    listings = [listing.listing(entry) for entry in lists(version).values()]
    assert listing.decode(listings, NVFP4, tactic) == (gemm, expected)
    assert (gemm, tactic) in listing.tactic_ids(listings, expected)


def test_an_id_out_of_range_means_nothing() -> None:
    listings = [listing.listing(entry) for entry in lists("0.6.3").values()]
    assert listing.decode(listings, NVFP4, 24) is None
    assert listing.decode(listings, NVFP4, -1) is None
    assert listing.decode(listings, "fp8xfp8", 0) is None
    assert listing.tactic_ids(listings, form((64, 64, 64))) == ()


def test_a_tactic_that_never_dispatches_says_what_lacks_and_where_it_would_stand() -> None:
    entries = lists("0.6.18")
    found = findings.of_missing([written(SMALL)], arches.find("sm120"), entries)
    of_one = [f for f in found if f.tile == (128, 128, 512) and f.fusion == "finalize" and f.swap_ab]
    assert [(f.stage, f.passed, f.reason, f.output) for f in of_one] == [
        ("candidate", True, None, "f16"),
        ("dispatched", False, "no_dispatch", "f16"),
        ("candidate", True, None, "bf16"),
        ("dispatched", False, "no_dispatch", "bf16"),
    ]
    assert of_one[0].detail == "GEMM2 tactic 54"
    assert of_one[1].detail == (
        "Its dispatch throws: Unsupported tile shape config 128128256 for MoE gemm, and its generator writes "
        "no such kernel. It would have to stand as SHAPE_CASE(120, 128, 128, 256) in "
        "moe_gemm_template_dispatch_tma_ws.h and among the tiles of generate_sm120_grouped_gemm_operations."
    )


def test_what_no_tactic_asks_for_is_listed_all_the_same() -> None:
    strange = form((128, 192, 128))
    asked = {strange: Outcome(None, "Unsupported tile shape config 128192064 for MoE gemm.")}
    both = written([(128, 192, 128)])
    entries = listing.entries(
        Offer((), asked | dict.fromkeys(_forms(both), asked[strange]), {}), [both], [NVFP4]
    )
    assert {(e.candidate, e.dispatched, e.instantiated) for e in entries.values()} == {(False, False, True)}
    assert listing.listing(entries[strange]).tactics == ()


def _forms(unit: Unit) -> list[Form]:
    return [one.variant.form for one in unit.instantiations]


def test_an_exception_is_told_in_its_own_words() -> None:
    raised = (
        "[TensorRT-LLM][ERROR] void dispatch() [with T = __nv_fp4_e2m1]\x1fUnsupported tile (128, 128, 64) "
        "and cluster (1, 1, 1) shape combination for arch 120.\x1fConfig was Cutlass GEMM Tactic\x1f"
        "1       0x41c2d0 ./tactics() [0x41c2d0]"
    )
    expected = "Unsupported tile (128, 128, 64) and cluster (1, 1, 1) shape combination for arch 120."
    assert candidates.message(raised) == expected
    place = "[TensorRT-LLM][ERROR] GEMM config undefined. (a/b.h:12)\x1f1  0x41 ./tactics"
    assert candidates.message(place) == "GEMM config undefined."


def test_a_family_that_the_heuristic_refuses_is_no_crash() -> None:
    said = "refused\tfp8xfp8\t1\t[TensorRT-LLM][ERROR] Not Implemented: only nvfp4. (a.cpp:1)\n"
    refused = candidates.parse(said, [])
    assert refused.refusals == {"fp8xfp8": "Not Implemented: only nvfp4."}
    assert "the heuristic throws: Not Implemented" in listing.log(refused, [], ["fp8xfp8"])


@given(st.text(alphabet=st.sampled_from("offeransw\t\n0123 ") | st.characters(codec="utf-8")))
def test_any_output_parses_or_is_refused_in_a_sentence(text: str) -> None:
    for said in (text, "offer\t" + text, "answer\t" + text):
        try:
            candidates.parse(said, [])
        except BenchError as error:
            assert error.code == "bad_listing"
