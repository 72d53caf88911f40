"""What counts as the same text for the compiler, with units of our own and a preprocessor's output."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tests.tiles_bench.conftest import macro, unit
from workers.bench.tiles import content, instantiations
from workers.bench.tiles.content import Content
from workers.bench.tiles.instantiations import Unit

SMALL, WIDE = (128, 128, 128), (128, 256, 128)
ONE = instantiations.parse("one.cu", unit(macro(SMALL), macro(WIDE)), "Sm120")
TWO = instantiations.parse("two.cu", unit(macro(SMALL)), "Sm120")


def preprocessed(units: tuple[Unit, ...] = (ONE, TWO), header: str = "struct A {};") -> str:
    """As g++ -E writes it; each instantiation becomes one line of its own."""
    lines = ['# 1 "survey.cu"', '# 1 "/cuda/runtime.h" 1 3', "int cuda;", ""]
    for number, each in enumerate(units):
        lines.append(f'# 1 "{each.name}" 1')
        if number == 0:
            lines += ['# 1 "/wheel/launcher.inl" 1', header, f'# 2 "{each.name}" 2']
        else:
            lines.append("")
        lines.append("namespace n {")
        for one in each.instantiations:
            lines += [f'# {one.first_line} "{each.name}"', f"template void run<{one.variant.tile}>();"]
        lines += [f'# {each.text.count(chr(10))} "{each.name}"', "}"]
    return "\n".join(lines)


def keys(text: str, units: tuple[Unit, ...] = (ONE, TWO), compilers: str = "13.0") -> dict[str, str]:
    found = content.split(text, units, compilers)
    return {each.name: found[each.name].unit_key(each) for each in units}


def test_a_header_concerns_every_unit_that_may_have_read_it() -> None:
    before, after = keys(preprocessed()), keys(preprocessed(header="struct A { int a; };"))
    assert all(before[name] != after[name] for name in before)


def test_a_unit_concerns_itself_only() -> None:
    changed = preprocessed().replace("run<(128, 256, 128)>", "run<(256, 128, 128)>")
    before, after = keys(preprocessed()), keys(changed)
    assert before["one.cu"] != after["one.cu"]
    assert before["two.cu"] == after["two.cu"]


def test_what_a_unit_defines_counts_even_where_the_text_does_not_show_it() -> None:
    defining = instantiations.parse("two.cu", "#define FEWER \\\n 1\n" + TWO.text, "Sm120")
    more = instantiations.parse("two.cu", "#define FEWER \\\n 2\n" + TWO.text, "Sm120")
    plain, one, two = (keys(preprocessed(), (ONE, each))["two.cu"] for each in (TWO, defining, more))
    assert len({plain, one, two}) == 3


def test_another_compiler_is_another_verdict() -> None:
    before, after = keys(preprocessed()), keys(preprocessed(), compilers="13.1")
    assert all(before[name] != after[name] for name in before)


def test_moved_lines_and_other_folders_change_nothing() -> None:
    moved = preprocessed().replace("/wheel/", "/elsewhere/").replace("int cuda;", "\n\nint cuda;\n")
    assert keys(moved) == keys(preprocessed())


def test_the_same_kernel_among_other_neighbours_is_the_same() -> None:
    found = content.split(preprocessed(), (ONE, TWO), "13.0")
    small, wide = ONE.instantiations
    (other,) = TWO.instantiations
    assert found["one.cu"].kernel_key(ONE, small) == found["two.cu"].kernel_key(TWO, other)
    assert found["one.cu"].kernel_key(ONE, small) != found["one.cu"].kernel_key(ONE, wide)


def test_a_unit_of_which_more_is_surveyed_is_another() -> None:
    fewer = dataclasses.replace(ONE, instantiations=ONE.instantiations[:1])
    assert keys(preprocessed(), (fewer, TWO))["one.cu"] != keys(preprocessed())["one.cu"]


@given(st.text())
def test_any_text_splits(text: str) -> None:
    found = content.split(text, (ONE, TWO), "13.0")
    assert all(isinstance(each, Content) for each in found.values())
    assert len(found["one.cu"].instantiations) == 2


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="#"), min_size=1))
def test_whatever_is_added_to_a_header_makes_another_key_unless_it_is_blank(more: str) -> None:
    lines = [line for line in more.split("\n") if line and not line.isspace()]
    same = keys(preprocessed(header="struct A {};\n" + more)) == keys(preprocessed())
    assert same == (not lines)
