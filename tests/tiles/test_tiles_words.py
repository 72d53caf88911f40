"""The sentences of the tile room, from verdicts alone."""

from __future__ import annotations

import dataclasses
import typing

from hypothesis import given
from hypothesis import strategies as st

from benchapp.tiles import headline, reasons, words
from benchapp.tiles.fates import Fate, Variant
from benchapp.tiles.models import Stage
from tests.tiles.surveys import IN_0_6_3, LIMIT
from workers.bench.document import Reason


def known(tile, fusion, swap, stages, need, parts=None):
    fits = need <= LIMIT
    return Variant(
        tile,
        fusion,
        swap,
        stage="fits" if fits else "compiled",
        failed_stage="" if fits else "fits",
        reason="" if fits else "smem_overflow",
        tier="types",
        stages=stages,
        need_bytes=need,
        limit_bytes=LIMIT,
        parts=parts or {},
    )


def in_0_6_3():
    return [known(*row) for row in IN_0_6_3]


def test_it_says_that_an_epilogue_overflows_and_not_the_tile():
    said = headline.summary("0.6.3", "sm120", in_0_6_3())
    assert said.headline == "In 0.6.3, 14 of 16 variants fit; two miss by 1,024 B."
    assert said.because == (
        "Shared memory does not forbid 128×256×128 and 256×128×128: both fit with fusion none, swapped "
        "or not (98,304 B at 3 stages) or with finalize · swap (74,752 B at 2 stages).",
        "Only finalize fusion without swap overflows.",
    )
    assert said.beware[0].startswith("No variant is known to have run on a GPU: the ladder ends at “fits”")
    assert said.beware[1].startswith("More survivors do not mean more speed")


def test_padding_is_named_where_the_parts_show_it():
    parts = {"mainloop": 82_944, "epilogue": 17_408, "padding": 2_048}
    variants = [
        dataclasses.replace(one, parts=parts if one.fate is Fate.OVERFLOW else {}) for one in in_0_6_3()
    ]
    said = headline.summary("0.6.3", "sm120", variants)
    assert said.because[-1] == (
        "Only finalize fusion without swap overflows, by alignment padding that the automatic stage "
        "count leaves out."
    )


def test_where_all_fit_it_names_the_tightest():
    said = headline.summary("1.0", "sm120", [v for v in in_0_6_3() if v.fate is Fate.SURVIVED])
    assert said.headline == "In 1.0, all 14 variants fit."
    assert said.because == ("The tightest, 128×256×128 none, leaves 3,072 B of 101,376 B.",)


def test_a_tile_without_a_fitting_variant_is_not_excused():
    said = headline.summary(
        "1.0", "sm120", [known((256, 256, 128), fusion, False, 2, 110_592) for fusion in ("none", "finalize")]
    )
    assert said.headline == "In 1.0, none of 2 variants is known to fit; two miss by 9,216 B."
    assert said.because == ("No variant of 256×256×128 fits; the smallest is over by 9,216 B.",)


def test_other_fates_are_counted_apart():
    tile = (128, 128, 512)
    variants = [
        *in_0_6_3(),
        Variant(tile, "none", False, stage="candidate", failed_stage="dispatched", reason="no_dispatch"),
        Variant(tile, "none", True, stage="candidate", failed_stage="dispatched", reason="no_dispatch"),
        Variant(
            (64, 64, 64), "none", False, stage="dispatched", failed_stage="compiled", reason="compile_error"
        ),
        Variant((64, 128, 64), "none", False, stage="dispatched"),
    ]
    said = headline.summary("0.6.8", "sm120", variants)
    assert said.headline == (
        "In 0.6.8, 14 of 20 variants fit; two miss by 1,024 B; one does not compile; "
        "two are candidates that are never dispatched; one is not tested that far."
    )
    assert "The tactic list offers 128×128×512, but no dispatch reaches it" in " ".join(said.because)


def test_a_gpu_moves_the_end_of_the_ladder():
    correct = dataclasses.replace(in_0_6_3()[0], stage="correct", tier="")
    failed = dataclasses.replace(in_0_6_3()[1], failed_stage="initialised", reason="init_failed")
    said = headline.summary("0.6.3", "sm120", [correct, failed])
    assert said.headline == "In 0.6.3, all 2 variants fit; one fails on the GPU."
    assert said.beware[0] == "Two went on to a GPU; one computed a correct result there."


def test_nothing_known_reads_as_nothing_known():
    for variants in ([], [Variant((128, 128, 128), "none", False)]):
        said = headline.summary("0.7.0", "sm120", variants)
        assert said.headline == "Nothing is known about FlashInfer 0.7.0 on SM120 yet: no survey has looked."
        assert not said.beware


def test_a_cell_says_rung_margin_stages_and_tier():
    assert words.cell(known((128, 256, 128), "finalize", False, 3, 102_400)) == (
        "does not fit, short by 1,024 B, 3 stages, types tier"
    )
    assert (
        words.cell(known((128, 256, 128), "none", False, 1, 98_304))
        == "fits, 3,072 B to spare, 1 stage, types tier"
    )
    assert words.cell(Variant((1, 1, 1), "none", False)) == "not tested"


def test_an_upgrade_is_told_by_what_was_lost_and_won():
    before = {"a": Fate.SURVIVED, "b": Fate.OVERFLOW, "c": Fate.SURVIVED, "d": Fate.OVERFLOW}
    after = {"a": Fate.INCORRECT, "b": Fate.SURVIVED, "d": Fate.COMPILE_ERROR, "e": Fate.SURVIVED}
    said = headline.changes(before, after, "0.6.3")
    assert said == "Since 0.6.3: one lost, one won, one new, one gone, one failing in another way (lost: a)."
    assert headline.changes(before, before, "0.6.3") == ""


variants = st.builds(
    Variant,
    tile=st.tuples(*[st.sampled_from((64, 128, 256))] * 3),
    fusion=st.sampled_from(("none", "finalize")),
    swap_ab=st.booleans(),
    stage=st.sampled_from(("", *Stage.values)),
    failed_stage=st.sampled_from(("", *Stage.values)),
    reason=st.sampled_from(("", *typing.get_args(Reason))),
    tier=st.sampled_from(("", "types", "full")),
    stages=st.none() | st.integers(0, 12),
    need_bytes=st.none() | st.integers(0, 300_000),
    limit_bytes=st.none() | st.just(LIMIT),
)


@given(st.lists(variants, max_size=30))
def test_any_evidence_makes_whole_sentences(found):
    said = headline.summary("0.6.3", "sm120", found)
    for sentence in (said.headline, *said.because, *said.beware):
        assert sentence.endswith(".") and not sentence[0].islower()
        assert "None" not in sentence and "  " not in sentence and "--" not in sentence
    for one in found:
        assert words.cell(one) and all(line.endswith(".") for line in reasons.explain(one, found))


@given(st.lists(variants, min_size=1, max_size=30))
def test_every_variant_has_exactly_one_fate_and_survivors_got_as_far_as_fits(found):
    for one in found:
        if one.fate is Fate.SURVIVED:
            assert one.reached("fits") and not one.failed_stage and not one.reason


def test_a_wrong_result_is_said_to_be_unusable():
    wrong = dataclasses.replace(in_0_6_3()[0], stage="ran", failed_stage="correct", reason="incorrect")
    said = headline.summary("0.6.3", "sm120", [wrong, *in_0_6_3()[1:]])
    assert "one computes a wrong result" in said.headline
    assert "Wrong on the GPU, and not to be used: 128×128×128 none." in said.because
    assert "One went on to a GPU; none computed a correct result there." in said.beware
    assert reasons.explain(wrong, [])[0].startswith("It runs, but disagrees with the reference")
