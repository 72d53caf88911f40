import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.document import BenchError
from workers.bench.tiles import arches, children
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.instantiations import Form, Variant
from workers.bench.tiles.mm_fp4 import findings, sources, survey, tactics, units
from workers.bench.tiles.mm_fp4.tactics import Offer, Tactic
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.sources import Sources
from workers.bench.tiles.toolchain import Toolchain
from workers.bench.tiles.verdicts import UnitVerdict

MINI = Path(__file__).parent / "mini_mm_fp4"
INPUTS = "nvfp4xnvfp4"
SM120 = arches.find("sm120")


def form(m: int, n: int, k: int, *, swap: bool = False, schedule: str = "auto") -> Form:
    return Form(INPUTS, (m, n, k), (1, 1, 1), "none", swap, schedule)


@pytest.fixture
def tree(tmp_path: Path) -> Sources:
    root = tmp_path / "wheel"
    headers, templates = root / sources.HEADERS, root / sources.TEMPLATES
    headers.mkdir(parents=True)
    templates.mkdir(parents=True)
    for header in MINI.glob("*.h"):
        shutil.copy(header, headers)
    shutil.copy(MINI / "fp4_gemm_cutlass_sm120.jinja", templates)
    (root / sources.MODULES).parent.mkdir(parents=True)
    shutil.copy(MINI / "core.py.txt", root / sources.MODULES)
    return Sources(root, "0.6.9", "4.5.0", "d" * 64, 1, 1, 1)


@pytest.fixture
def module(tree: Sources) -> sources.Module:
    found = sources.module(tree.root, "sm120")
    assert found is not None
    return found


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def toolchain() -> Toolchain:
    """Only its g++ is used here."""
    gxx = shutil.which("g++")
    if gxx is None:
        pytest.skip("g++ is missing: apt-get install -y g++")
    return Toolchain(Path("/nowhere/nvcc"), "13.0.88", Path(gxx), "12.2.0")


@pytest.fixture
def ask(
    cache: Cache, tree: Sources, module: sources.Module, toolchain: Toolchain, tmp_path: Path
) -> Callable[[], Offer]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return lambda: tactics.ask(cache, tree, module, toolchain, scratch)


def test_the_runner_itself_tells_its_tactics_and_where_they_lead(ask: Callable[[], Offer]) -> None:
    offer = ask()
    refused, plain, swapped, stream_k = offer.tactics
    assert [tactic.id for tactic in offer.tactics] == [0, 1, 2, 3]
    assert refused.refused == "Config is invalid for FP4 GEMM."
    assert refused.forms == (form(128, 256, 128),), "what its name promises, K in bytes"
    assert (plain.name, plain.forms) == ("CtaShape128x128x64B", (form(128, 128, 128),))
    assert swapped.forms == (form(128, 128, 128, swap=True),)
    assert stream_k.forms == (form(128, 128, 128, swap=True, schedule="stream_k"),)


def test_the_switch_is_asked_beyond_the_list(ask: Callable[[], Offer]) -> None:
    reached = ask().reached
    assert form(256, 128, 128) in reached and form(256, 128, 128, swap=True) not in reached
    assert not any(one.tile == (128, 256, 128) for one in reached)


def test_asked_once_the_answer_is_kept(ask: Callable[[], Offer], monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask()
    monkeypatch.setattr(children, "run", None)
    assert ask() == first


@pytest.mark.parametrize(
    ("header", "old", "new", "said"),
    [
        ("fp4_gemm_cutlass_template_sm120.h", "getConfigs()", "otherConfigs()", "does not tell its tactics"),
        ("fp4_gemm_template_sm120.h", "#ifndef", "#ifdef", "no include guard"),
    ],
)
def test_code_that_changed_its_shape_is_said_in_a_sentence(
    ask: Callable[[], Offer], tree: Sources, header: str, old: str, new: str, said: str
) -> None:
    path = tree.root / sources.HEADERS / header
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BenchError, match=said) as raised:
        ask()
    assert raised.value.code == "tactics_not_understood"
    assert "flashinfer 0.6.9" in raised.value.sentence and str(tree.root) not in raised.value.sentence


def test_the_versions_own_function_writes_the_units(
    cache: Cache, tree: Sources, module: sources.Module, tmp_path: Path
) -> None:
    rendered = units.render(cache, tree, module, tmp_path)
    assert [unit.name for unit in rendered.units] == [
        f"fp4_gemm_cutlass_{output}_{tile}.cu"
        for output in ("__nv_bfloat16", "half")
        for tile in ("128_128_128", "256_128_128")
    ]
    assert rendered.defines == ("-DENABLE_FP4",) and rendered.counts_stages
    last = rendered.units[-1]
    assert "INSTANTIATE_FP4_GEMM_KERNEL_LAUNCHER(half, 256, 128, 128, 1, 1, 1, _1SM, true)" in last.text
    assert [
        (one.variant.swap_ab, one.variant.schedule, one.first_line, one.last_line)
        for one in last.instantiations
    ] == [(True, "auto", 6, 6), (True, "stream_k", 6, 6), (False, "auto", 7, 8), (False, "stream_k", 7, 8)]
    assert {one.variant.output for one in last.instantiations} == {"f16"}


def test_a_template_with_logic_in_it_is_not_guessed_at(
    cache: Cache, tree: Sources, module: sources.Module, tmp_path: Path
) -> None:
    template = tree.root / sources.TEMPLATES / "fp4_gemm_cutlass_sm120.jinja"
    template.write_text(template.read_text() + "{% if swap %}")
    with pytest.raises(BenchError, match="more in it than names") as raised:
        units.render(cache, tree, module, tmp_path)
    assert raised.value.code == "generator_failed"


@pytest.mark.parametrize(
    "line", ["INSTANTIATE_FP4(half, 128, 128)", "INSTANTIATE_FP4(float, 1, 1, 1, 1, 1, 1, _1SM)", ""]
)
def test_what_cannot_be_read_is_not_passed_over(module: sources.Module, line: str) -> None:
    with pytest.raises(BenchError, match=r"unit\.cu instantiates"):
        units.parse("unit.cu", line, module, stream_k=False)


SIZES = st.integers(1, 1024)


@given(
    st.lists(
        st.tuples(SIZES, SIZES, SIZES, st.sampled_from([1, 2, 4]), st.booleans(), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_every_instantiation_is_read_with_its_line(rows: list[tuple[int, int, int, int, bool, bool]]) -> None:
    paired = sources.Module("", "", (), pairs=True)
    lines = [
        f"INSTANTIATE_X({'half' if f16 else '__nv_bfloat16'}, {m}, {n}, {k}, {over}, 1, 1, _{1 + two}SM)"
        for m, n, k, over, two, f16 in rows
    ]
    unit = units.parse("unit.cu", "// first\n" + "\n".join(lines), paired, stream_k=False)
    assert [one.first_line for one in unit.instantiations] == list(range(2, len(rows) + 2))
    for (m, n, k, over, two, f16), one in zip(rows, unit.instantiations, strict=True):
        assert one.variant == Variant(
            INPUTS, "f16" if f16 else "bf16", (m, n, k), (over, 1, 1), "none", False, "2sm" if two else "1sm"
        )


@given(st.lists(st.integers(0, 9) | st.none(), min_size=1, max_size=10))
def test_enumerators_count_as_the_compiler_does(gaps: list[int | None]) -> None:
    entries, expected, value = [], {}, -1
    for place, gap in enumerate(gaps):
        value += 1 if gap is None else gap + 1
        entries.append(f"  // {place}, a comment\n  Name{place}" + ("" if gap is None else f" = {value}"))
        expected[value] = f"Name{place}"
    header = "enum class Other { A };\nenum class Wanted : int {\n" + ",\n".join(entries) + "\n};"
    assert tactics.enumerators(header, "Wanted") == expected
    assert tactics.enumerators(header, "Want") == {}


def test_units_of_another_text_are_compiled_apart(module: sources.Module) -> None:
    line = "INSTANTIATE_FP4({}, 128, 128, 256, 1, 1, 1, _1SM)\n"
    generic, other, store256 = (
        units.parse(name, opening + line.format(output), module, stream_k=False)
        for name, opening, output in (
            ("a.cu", "#include <a>\n", "half"),
            ("b.cu", "#include <a>\n", "__nv_bfloat16"),
            ("c.cu", f"#define X\n// {sources.STORE256}\n", "half"),
        )
    )
    assert survey.groups([generic, store256, other]) == [[generic, other], [store256]]


def test_clusters_chosen_at_run_time_are_not_looked_for_in_the_types() -> None:
    paired = sources.Module("", "", (), pairs=True)
    text = (
        "INSTANTIATE_X(half, 128, 64, 128, 4, 2, 1, _2SM)\nINSTANTIATE_X(half, 128, 64, 128, 1, 4, 1, _1SM)\n"
    )
    unit = survey.as_compiled(units.parse("unit.cu", text, paired, stream_k=False))
    assert [one.variant.cluster for one in unit.instantiations] == [(2, 1, 1), (1, 1, 1)]


def kernel(need: int) -> Kernel:
    return Kernel(
        INPUTS, "f16", (128, 128, 128), (1, 1, 1), "none", False, "auto", 2, 384, need, {"storage": need}, ""
    )


@pytest.fixture
def rendered(module: sources.Module) -> units.Rendered:
    text = "".join(f"INSTANTIATE_X(half, {m}, 128, 128, 1, 1, 1, _1SM)\n" for m in (128, 256))
    return units.Rendered((units.parse("unit.cu", text, module, stream_k=False),), (), counts_stages=False)


def test_three_lists_that_disagree_are_told_apart(rendered: units.Rendered) -> None:
    offer = Offer(
        (Tactic(0, "A", (form(128, 128, 128),)), Tactic(1, "B", (form(64, 128, 128),), "no such tile")),
        frozenset({form(128, 128, 128)}),
    )
    listed = findings.listings(offer, rendered.units)
    assert [
        (one.tile[0], one.candidate, one.dispatched, one.instantiated, one.tactics) for one in listed
    ] == [
        (128, True, True, True, ((1, 0),)),
        (64, True, False, False, ((1, 1),)),
        (256, False, False, True, ()),
    ]
    verdict = UnitVerdict([kernel(101_376), kernel(101_377)], [None, None], "")
    found = findings.evidence(offer, rendered, {"unit.cu": verdict}, SM120, "4.5.0")
    said = {(one.tile[0], one.stage): (one.reason, one.detail) for one in found}
    assert said[128, "candidate"] == (None, "tactic 0, which the list calls A")
    assert said[128, "fits"] == (None, None)
    assert said[64, "dispatched"][1] == (
        "The switch throws: no such tile and no unit of the module instantiates it."
    )
    assert said[256, "candidate"][0] == "no_candidate" and said[256, "dispatched"][0] == "no_dispatch"
    assert said[256, "fits"] == ("smem_overflow", "1 B more than a block of sm120 can have")
    assert (64, "compiled") not in said


def test_the_log_names_every_tactic_and_what_has_none(rendered: units.Rendered) -> None:
    offer = Offer((Tactic(0, "A", (form(128, 128, 128),)),), frozenset({form(128, 128, 128)}))
    log = findings.log(offer, findings.listings(offer, rendered.units))
    assert log == "   0 A: nvfp4xnvfp4 128x128x128 none\n   - no tactic: nvfp4xnvfp4 256x128x128 none\n"


def test_before_its_own_module_sm103_has_the_one_of_sm100(tree: Sources) -> None:
    assert sources.module(tree.root, "sm103") is None
    headers = tree.root / sources.HEADERS
    (headers / "fp4_gemm_cutlass_template.h").touch()
    first, own = (sources.module(tree.root, arch) for arch in ("sm103", "sm100"))
    assert first is not None and first == own
    (headers / "fp4_gemm_cutlass_template_sm103.h").touch()
    assert sources.module(tree.root, "sm103") != first
    assert sources.module(tree.root, "sm90") is None


def test_sources_of_another_shape_leave_mm_fp4_out_and_say_so(
    cache: Cache, tree: Sources, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tree.root / sources.MODULES).write_text("import torch\n")
    said: list[str] = []
    part = survey.run(cache, tree, SM120, toolchain, tmp_path, 1, lambda done, message: said.append(message))
    assert part.evidence == () and part.listings == ()
    assert "gen_gemm_sm120_module_cutlass_fp4 of flashinfer 0.6.9 failed" in part.logs[findings.TACTICS_LOG]
    assert said and said[0].startswith("mm_fp4 is left out: ")


def test_a_wheel_without_the_backend_has_nothing_to_say(
    cache: Cache, tree: Sources, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tree.root / sources.HEADERS / "fp4_gemm_cutlass_template_sm120.h").unlink()
    part = survey.run(cache, tree, SM120, toolchain, tmp_path, 1, lambda done, message: None)
    assert part == survey.Part()
