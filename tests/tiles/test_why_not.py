"""“Why not bigger?”, from evidence alone."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from benchapp.tiles.fates import Fate, Variant
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed
from benchapp.tiles.next_size import need_of_next
from benchapp.tiles.reasons import stage_bytes
from benchapp.tiles.why_not import Known, why_not
from tests.tiles.surveys import IN_0_6_3
from tests.tiles.test_tiles_words import known, variants


def parts_of(tile, fusion, stages, need):
    """As the survey of 0.6.3 found them: what a stage holds, the epilogue, pipelines; the rest is padding."""
    m, n, k = tile
    a, b, sa, sb = (m * k // 2, n * k // 2, m * k // 16, n * k // 16)
    parts = {
        "operand_a": stages * a,
        "operand_b": stages * b,
        "scales_a": stages * sa,
        "scales_b": stages * sb,
        "epilogue": 16_896 if fusion == "finalize" else 12_800,
        "pipelines": 1_248,
    }
    return parts | {"padding": need - sum(parts.values())}


def in_0_6_3():
    return [
        known(tile, fusion, swap, stages, need, parts_of(tile, fusion, stages, need))
        for tile, fusion, swap, stages, need in IN_0_6_3
    ]


def listed(variant, *, candidate=True, dispatched=True, instantiated=True, gemm2=(7,)):
    m, n, k = variant.tile
    key = Key(m, n, k, "1x1x1", "auto", variant.fusion, variant.swap_ab)
    return Listed(key, candidate, dispatched, instantiated, (), gemm2)


def told(held, **more):
    return why_not(Known("FlashInfer 0.6.3", "sm120", "nvfp4xnvfp4", held, **more))


def test_0_6_3_on_sm120_leads_to_what_is_so():
    found = told(in_0_6_3())
    said = " ".join(found.sentences)
    assert found.answer == "Not the tiles' size: one epilogue, finalize, by 1,024 B."
    assert "128×256×128 and 256×128×128, are not forbidden by shared memory: six of their eight" in said
    assert (
        "Only finalize fusion without swap misses: it needs 102,400 B at 3 stages against 101,376 B, 1,024 B "
        "too many, alignment padding that the automatic stage count leaves out." in said
    )
    assert "fusion none, swapped or not (98,304 B at 3 stages) or with finalize · swap (74,752 B at 2" in said
    assert (
        "With 2 stages instead of 3 it would need about 74,752 B and fit: the stage count is in the way"
        in said
    )
    assert "operands (73,728 B in 3 stages), their scales (9,216 B) and the epilogue (16,896 B)" in said
    assert "Accumulators take none of it: they live in registers." in said
    assert "Generated files are the search space, not the survivors: all 16 variants" in said
    assert "256×128 tile does 170.7 MAC for each byte of operands, 1.33 times the 128.0 of 128×128" in said
    assert "303.4 against 227.6 FLOP/B" in said
    assert "More surviving tiles do not mean more speed" in said


def test_the_next_size_up_is_weighed_by_the_same_arithmetic():
    said = " ".join(told(in_0_6_3()).sentences)
    assert "No version known here lists the next size up, 256×256×128: nothing offers it." in said
    assert "two stages of it need about 89,088 B, so shared memory is not what keeps it out" in said


def test_what_somebody_built_counts_more_than_arithmetic():
    built = known((256, 256, 128), "none", False, 2, 90_112)
    built = dataclasses.replace(built, spill_store_bytes=2_920)
    said = " ".join(told(in_0_6_3(), unshipped=[built], cutlass="4.2.1").sentences)
    assert "CUTLASS 4.2.1 can build it: 90,112 B at 2 stages, which fits and spills 2,920 B a thread." in said
    assert "same arithmetic" not in said


def test_a_size_that_other_versions_list_is_named_as_theirs():
    said = " ".join(told(in_0_6_3(), anywhere={(256, 256, 128): 3}).sentences)
    assert "256×256×128, is not in this version; three other versions list it, so its list omits it." in said


def test_dispatch_is_told_apart_from_shared_memory():
    big = Variant((256, 128, 256), "none", False)
    found = told(in_0_6_3(), listings=[listed(big, dispatched=False, instantiated=False, gemm2=(3, 4))])
    said = " ".join(found.sentences)
    assert (
        "also offers 256×128×256 (2 tactics), which no dispatch reaches: dispatch stands in the way" in said
    )


def test_what_the_library_holds_and_never_offers_is_named():
    big = Variant((256, 256, 128), "none", False)
    said = " ".join(told(in_0_6_3(), listings=[listed(big, candidate=False, gemm2=())]).sentences)
    assert "never offered by the tactic list, so that nothing can choose it: 256×256×128." in said


def test_where_all_fit_nothing_stands_in_the_way_but_spills_are_no_good_news():
    fitting = [variant for variant in in_0_6_3() if variant.fate is Fate.SURVIVED]
    assert told(fitting).answer == "Nothing stands in the way of the largest tiles it dispatches: all fit."
    spilling = [dataclasses.replace(variant, spill_store_bytes=2_920, tier="full") for variant in fitting]
    found = told(spilling)
    assert found.answer == "Not shared memory: registers. The largest tiles fit and spill heavily."
    assert "Fitting beside heavy spills is no good news." in " ".join(found.sentences)
    calm = told([dataclasses.replace(variant, spill_store_bytes=0, tier="full") for variant in fitting])
    assert "None of the six compiled in full spills registers." in calm.sentences


def test_where_none_fits_at_the_fewest_stages_it_is_shared_memory():
    tile = (256, 256, 256)
    held = [known(tile, f, False, 2, 160_000, parts_of(tile, f, 2, 160_000)) for f in ("none", "finalize")]
    found = told(held)
    assert found.answer == "Shared memory: no variant of the largest tiles fits."
    said = " ".join(found.sentences)
    assert "misses: it needs 160,000 B at 2 stages against 101,376 B, 58,624 B too many" in said
    assert "Two stages are the fewest that a pipeline may have" in said
    assert "leaves out" not in said


def test_on_blackwell_servers_accumulators_live_in_tensor_memory():
    found = why_not(Known("FlashInfer 0.7.4", "sm100", "nvfp4xnvfp4", in_0_6_3()))
    assert "they live in tensor memory." in " ".join(found.sentences)


def test_nothing_known_is_said_to_be_nothing_known():
    found = told([])
    assert found.answer == "Nobody has looked."
    assert "nothing can be said about larger ones" in found.sentences[0]


def test_what_was_only_tried_is_not_said_to_be_shipped():
    said = " ".join(told(in_0_6_3(), shipped=False).sentences)
    assert "was tried with" in said
    assert "Generated files" not in said and "No version known here" not in said


def test_a_stage_and_the_next_size_are_unknown_without_parts():
    bare = known((128, 256, 128), "none", False, 3, 98_304)
    assert stage_bytes(bare) is None and need_of_next(bare, (256, 256, 128)) is None


@given(st.lists(variants, max_size=30), st.booleans())
def test_any_evidence_makes_whole_sentences(found, shipped):
    said = told(found, shipped=shipped, listings=[listed(variant) for variant in found[:5]])
    for sentence in (said.answer, *said.sentences):
        assert sentence.endswith(".") and not sentence[0].islower()
        assert (
            "None " not in sentence.replace("None of", "") and "  " not in sentence and "--" not in sentence
        )
