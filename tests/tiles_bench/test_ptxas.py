from hypothesis import given
from hypothesis import strategies as st

from workers.bench.tiles import ptxas
from workers.bench.tiles.ptxas import Entry

OUTPUT = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_Z5plainv' for 'sm_120a'
ptxas info    : Function properties for _Z5plainv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers
ptxas info    : Compile time = 1.5 ms
ptxas info    : Compiling entry function '_Z5heavyv' for 'sm_120a'
ptxas info    : Function properties for _Z6helperv
    96 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for _Z5heavyv
    24 bytes stack frame, 64 bytes spill stores, 92 bytes spill loads
ptxas info    : Used 168 registers, used 8 barriers, 120 bytes cumulative stack size
ptxas info    : Compiling entry function '_Z4lostv' for 'sm_120a'
"""


def test_figures_go_to_the_kernel_that_ptxas_names() -> None:
    assert ptxas.parse(OUTPUT) == [Entry("_Z5plainv", 24, 0, 0, 0), Entry("_Z5heavyv", 168, 120, 64, 92)]


@given(st.text())
def test_any_output_parses(text: str) -> None:
    ptxas.parse(text)


_NAMES = st.from_regex(r"_Z[0-9a-zA-Z_]{1,30}", fullmatch=True)
_COUNTS = st.integers(0, 100_000)


@given(st.lists(st.builds(Entry, _NAMES, _COUNTS, _COUNTS, _COUNTS, _COUNTS), unique_by=lambda e: e.name))
def test_what_is_written_is_read(entries: list[Entry]) -> None:
    text = "".join(
        f"ptxas info    : Compiling entry function '{entry.name}' for 'sm_90a'\n"
        f"ptxas info    : Function properties for {entry.name}\n"
        f"    {entry.stack_bytes} bytes stack frame, {entry.spill_store_bytes} bytes spill stores, "
        f"{entry.spill_load_bytes} bytes spill loads\n"
        f"ptxas info    : Used {entry.registers} registers, used 8 barriers\n"
        for entry in entries
    )
    assert ptxas.parse(text) == entries
