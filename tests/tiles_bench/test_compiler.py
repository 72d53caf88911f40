from hypothesis import given
from hypothesis import strategies as st

from tests.tiles_bench.conftest import macro, unit
from workers.bench.tiles import compiler, instantiations, survey, verdicts
from workers.bench.tiles.children import Ended

STDERR = """\
/c/a.hpp(12): warning #20012-D: something is ignored
/c/cute/atom.hpp(739): error: static assertion failed with "TMA requires equivalence."
    static_assert(x, "TMA requires equivalence.");
          detected during:
            instantiation of "auto f<T>(T) [with T=int]" at line 1135
            instantiation of class "A<B> [with B=cute::C<(128)>]" at line 33 of one.generated.cu
/c/builder.inl(101): error: static assertion failed with "Invalid tile shape N."
          detected during instantiation of class "B" at line 7 of ./two.generated.cu

one.generated.cu(40): error: identifier "x" is undefined
/c/other.hpp(3): error #20: expected a ";"

4 errors detected in the compilation of "survey.cu".
"""


def test_errors_lead_to_the_line_they_arose_from() -> None:
    found = compiler.diagnostics(STDERR, {"one.generated.cu", "two.generated.cu"})
    assert [diagnostic.place for diagnostic in found] == [
        ("one.generated.cu", 33),
        ("two.generated.cu", 7),
        ("one.generated.cu", 40),
        None,
    ]
    assert found[0].message == 'static assertion failed with "TMA requires equivalence."'
    assert "at line 33" in found[0].text and "Invalid tile" not in found[0].text


@given(st.text())
def test_any_stderr_parses(text: str) -> None:
    compiler.diagnostics(text, {"one.generated.cu"})
    assert compiler.first_complaint(Ended(-9, "", text, timed_out=False))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_batches_hold_every_unit_once_and_in_order(sizes: list[int]) -> None:
    units = [
        instantiations.parse(f"{i}.cu", unit(*[macro((128, 128, 128))] * size), "Sm120")
        for i, size in enumerate(sizes)
    ]
    planned = verdicts.batches(units)
    assert [part.unit for batch in planned for part in batch] == units
    assert all(planned)
    assert len(planned) <= -(-sum(sizes) // 48)


def test_long_logs_are_cut_and_say_so() -> None:
    assert survey.capped("short") == "short"
    cut = survey.capped("é" * 400_000)
    assert len(cut.encode()) <= 256 * 1024
    assert cut.endswith("of 800,000 bytes]\n")
