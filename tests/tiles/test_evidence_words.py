"""Findings in words and the bar of a budget: pure maths and text, any input."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.tiles import findings_words as says
from benchapp.tiles.budget import BAR_WIDTH, budget
from benchapp.tiles.models import Evidence, Listing, Stage
from workers.bench.document import Reason

LIMIT = 101_376
#: 128x256x128 finalize of FlashInfer 0.6.3
PARTS = {
    "operand_a": 24_576,
    "operand_b": 49_152,
    "scales_a": 3_072,
    "scales_b": 6_144,
    "epilogue": 16_896,
    "pipelines": 224,
    "scheduler": 128,
    "tensor_maps": 896,
    "padding": 1_312,
}
NEED = 102_400


def fits(need=NEED, predicted=None, stages=3, predicted_stages=3, parts=PARTS):
    return Evidence(
        stage="fits",
        passed=need <= LIMIT,
        source="compiler",
        tier="types",
        stages=stages,
        need_bytes=need,
        limit_bytes=LIMIT,
        parts=parts,
        predicted_bytes=predicted,
        predicted_stages=predicted_stages,
    )


def compiled(**figures):
    return Evidence(stage="compiled", passed=True, source="compiler", **{"tier": "full", **figures})


def test_a_predictor_that_forgets_padding_is_caught():
    said, wrong = says.prediction(fits(predicted=101_376))
    assert wrong
    assert said == (
        "CUTLASS's stage arithmetic counts 3 stages and 101,376 B; the compiler finds 102,400 B: "
        "1,024 B of padding it leaves out. By its own count the tile fits, so it takes one stage too many."
    )


def test_a_predictor_that_is_off_but_answers_rightly_is_no_alarm():
    said, wrong = says.prediction(fits(need=98_304, predicted=98_000))
    assert not wrong and said.endswith("98,304 B: 304 B of padding it leaves out.")
    said, wrong = says.prediction(fits(need=98_304, predicted=98_304))
    assert not wrong and said.endswith("98,304 B, exactly what the compiler finds.")
    said, wrong = says.prediction(fits(need=98_304, predicted=99_304))
    assert not wrong and said.endswith("98,304 B: 1,000 B less.")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (1_312, "1,312 B of padding it leaves out"),
        (1_313, "1,313 B it leaves out, 1,312 B of them padding."),
    ],
)
def test_what_a_predictor_leaves_out_is_named_as_far_as_the_parts_tell(missing, said):
    assert said in says.prediction(fits(predicted=NEED - missing))[0]


def test_a_wrong_stage_count_is_always_wrong():
    said, wrong = says.prediction(fits(need=74_752, stages=2, predicted=99_000))
    assert wrong and "counts 3 stages and 99,000 B; the compiler finds 2 stages and 74,752 B." in said


def test_without_a_prediction_nothing_is_said():
    assert says.prediction(fits()) == ("", False)


def test_one_stage_less_is_told_of_what_overflows_only():
    assert says.one_stage_less(NEED, LIMIT, 3, 27_648) == (
        "By its parts, with 2 stages it would need about 74,752 B and fit with 26,624 B to spare."
    )
    assert says.one_stage_less(LIMIT, LIMIT, 3, 27_648) == ""
    assert "still be short by 48,624 B" in says.one_stage_less(250_000, LIMIT, 2, 100_000)
    assert says.one_stage_less(NEED, LIMIT, 1, 80_000) == ""


def test_spills_beside_a_fit_are_not_good_news():
    said, look = says.spills(compiled(spill_store_bytes=3028, spill_load_bytes=2440), fits=True)
    assert said.startswith("Fits, with 3,028 B of spill stores and 2,440 B of spill loads a thread.")
    assert "not good news" in said and look == "uncertain"
    said, look = says.spills(compiled(spill_store_bytes=64, spill_load_bytes=64), fits=True)
    assert "the worth of 16 registers" in said and look == "uncertain"


def test_no_spills_and_not_measured_are_told_apart():
    assert says.spills(compiled(spill_store_bytes=0, spill_load_bytes=0), fits=True)[1] == "survived"
    said, look = says.spills(compiled(tier="types"), fits=True)
    assert said.startswith("Spills not measured yet (types tier)") and look == "untested"
    assert says.spills(None, fits=False) == ("", "")
    failed = Evidence(stage="compiled", passed=False, reason="compile_error", source="compiler", tier="types")
    assert says.spills(failed, fits=False) == ("", "")


def test_registers_at_the_launch_bounds_say_nothing():
    assert says.register_cap(384) == 168
    assert "spills are the signal" in says.registers(compiled(registers=168, threads=384))
    assert says.registers(compiled(registers=96, threads=384)) == "96 registers a thread."
    assert says.registers(compiled()) == ""


@given(st.integers(1, 4096))
def test_a_block_at_its_register_cap_fits_an_sm(threads):
    cap = says.register_cap(threads)
    assert cap * threads <= says.REGISTERS_OF_SM and cap <= says.MOST_REGISTERS


def test_the_first_static_assertion_is_quoted_and_explained():
    detail = (
        'static assertion failed with "Specialization requires Stages set to value 2 or more."\n'
        '  detected during: static assertion failed with "another"'
    )
    message = says.assertion(detail)
    assert message == "Specialization requires Stages set to value 2 or more."
    assert says.meaning(message) == "fewer than two pipeline stages fit into shared memory"
    assert says.assertion("\n no member named 'x'\nmore") == "no member named 'x'"
    assert says.meaning("never seen") == ""


@given(st.text())
def test_any_compiler_output_gives_a_short_line(detail):
    assert len(says.assertion(detail)) <= 300


def test_every_reason_has_words():
    assert set(says.FAILED) == set(typing.get_args(Reason))
    assert set(says.PASSED) == set(Stage)


def test_the_bar_is_split_into_stages_and_ends_at_the_need():
    bar = budget(NEED, LIMIT, PARTS, stages=3, predicted_bytes=101_376, predicted_stages=3)
    assert [(part.look, part.bytes) for part in bar.segments] == [
        ("operands", 73_728),
        ("scales", 9_216),
        ("epilogue", 16_896),
        ("rest", 1_248),
        ("padding", 1_312),
    ]
    assert bar.ticks == (240.0, 480.0)
    assert (bar.stages, bar.stage_bytes) == (3, 27_648)
    assert bar.over.bytes == 1_024 and bar.predicted.x == bar.limit_x


def test_what_does_not_divide_by_its_stages_is_left_whole():
    bar = budget(NEED, LIMIT, PARTS, stages=5)
    assert bar.ticks == () and bar.stages is None and bar.stage_bytes is None


sizes = st.integers(1, 10**6)


@given(
    st.dictionaries(st.sampled_from([*PARTS, "unheard_of"]), sizes, max_size=6),
    st.integers(0, 1000),
    sizes,
    st.none() | sizes,
    st.integers(0, 40),
)
def test_any_parts_make_a_bar_without_gaps_inside_the_drawing(parts, more, limit, predicted, stages):
    need = sum(parts.values()) + more
    bar = budget(need, limit, parts, stages=stages, predicted_bytes=predicted)
    if not need:
        assert bar is None
        return
    drawn = [part.bytes for part in bar.segments]
    assert sum(drawn) == need
    at = 0.0
    for part in bar.segments:
        assert part.x == pytest.approx(at, abs=0.6)
        at = part.x + part.width
    assert at <= BAR_WIDTH + 0.6 and bar.limit_x <= BAR_WIDTH
    assert [tick for tick in bar.ticks if not 0 <= tick <= BAR_WIDTH] == []


@pytest.mark.parametrize(("need", "limit"), [(None, LIMIT), (NEED, None), (0, LIMIT)])
def test_without_need_or_limit_there_is_no_bar(need, limit):
    assert budget(need, limit, {}) is None


def test_tactic_ids_name_their_gemm_where_there_are_two():
    grouped = Listing(family="moe_grouped_gemm", gemm1_tactics=[3], gemm2_tactics=[11, 15])
    assert says.tactics(grouped) == "GEMM1 3 · GEMM2 11, 15"
    assert says.tactics(Listing(family="mm_fp4", gemm1_tactics=[0, 4])) == "tactic 0, 4"
    assert says.tactics(Listing(family="moe_grouped_gemm")) == ""
