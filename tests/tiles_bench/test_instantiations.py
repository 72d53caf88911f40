from hypothesis import given
from hypothesis import strategies as st

from tests.tiles_bench.conftest import macro, unit
from workers.bench.tiles import instantiations

Written = tuple[str, tuple[tuple[int, int, int], str, bool, str, str]]

tiles = st.tuples(*[st.sampled_from([32, 64, 128, 256])] * 3)
macros = st.builds(
    lambda tile, fusion, swap, output, inputs: (
        macro(tile, fusion=fusion, swap=swap, output=output, inputs=inputs),
        (tile, fusion.lower(), swap, {"half": "f16", "__nv_bfloat16": "bf16"}[output], inputs),
    ),
    tiles,
    st.sampled_from(["NONE", "FINALIZE"]),
    st.booleans(),
    st.sampled_from(["half", "__nv_bfloat16"]),
    st.sampled_from(["SafeFP4, SafeFP4", "__nv_fp8_e4m3, SafeFP4"]),
)
INPUTS = {"SafeFP4, SafeFP4": "nvfp4xnvfp4", "__nv_fp8_e4m3, SafeFP4": "mxfp8xmxfp4"}


@given(
    st.lists(macros, max_size=10), st.sampled_from(["", "// a comment\n", "/* INSTANTIATE\n */", "#endif\n"])
)
def test_every_macro_is_read_with_its_lines(written: list[Written], between: str) -> None:
    text = unit(*(between + one for one, _ in written))
    parsed = instantiations.parse("a.cu", text, "Sm120")
    assert parsed.text == text
    assert len(parsed.instantiations) == len(written)
    lines = text.split("\n")
    for found, (_, (tile, fusion, swap, output, inputs)) in zip(parsed.instantiations, written, strict=True):
        variant = found.variant
        assert (variant.tile, variant.fusion, variant.swap_ab) == (tile, fusion, swap)
        assert (variant.output, variant.inputs, variant.schedule) == (output, INPUTS[inputs], "auto")
        assert "INSTANTIATE" in lines[found.first_line - 1]
        assert lines[found.last_line - 1].rstrip().endswith(");")


@given(st.lists(macros, min_size=1, max_size=8), st.data())
def test_removal_keeps_the_others_where_they_were(written: list[Written], data: st.DataObject) -> None:
    text = unit(*(one for one, _ in written))
    whole = instantiations.parse("a.cu", text, "Sm120").instantiations
    removed = data.draw(st.lists(st.sampled_from(whole), unique=True))
    rest = instantiations.parse("a.cu", instantiations.without(text, removed), "Sm120").instantiations
    assert list(rest) == [one for one in whole if one not in removed]


@given(st.text(alphabet='INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(),;/*\n "', max_size=300))
def test_any_text_parses(text: str) -> None:
    instantiations.parse("a.cu", text, "Sm120")


def test_the_macro_of_before_0_5_3_is_read_and_means_swapped_operands() -> None:
    text = (
        "INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(Sm120, SafeFP4, SafeFP4, half,\n"
        "EpilogueOpDefault, NONE, 128, 256, 128, 1, 1, 1, false, false);\n"
    )
    (one,) = instantiations.parse("a.cu", text, "Sm120").instantiations
    assert str(one.variant.form) == "nvfp4xnvfp4 128x256x128 none swap_ab"


def test_a_schedule_names_its_epilogue_its_cluster_and_sm103() -> None:
    text = macro((128, 128, 128)).replace("false, false, false", "false, true, false")
    text = text.replace("void", "PtrArrayNoSmemWarpSpecialized")
    for tag, word in (("Sm100", "nosmem_dynamic"), ("Sm103", "sm103_nosmem_dynamic")):
        (one,) = instantiations.parse("a.cu", text.replace("Sm120", tag), "Sm103", "Sm100").instantiations
        assert one.variant.schedule == word


def test_input_types_can_be_chosen_and_all_that_is_written_is_counted() -> None:
    fp4, fp8 = macro((128, 128, 128)), macro((128, 128, 128), inputs="__nv_fp8_e4m3, SafeFP4")
    text = unit(fp4, fp8, "template void sm90_generic_mixed_moe_gemm_kernelLauncher<half>();\n")
    parsed = instantiations.parse("a.cu", text, "Sm120", inputs=("mxfp8xmxfp4",))
    assert [one.variant.inputs for one in parsed.instantiations] == ["mxfp8xmxfp4"]
    assert instantiations.written(text) == 3


def test_others_are_left_out() -> None:
    good = macro((128, 128, 128))
    texts = [
        good.replace("Sm120", "Sm100"),
        good.replace("SafeFP4, SafeFP4", "half, half"),
        good.replace("128, 128, 128", "128, N, 128"),
        good.replace("void, ", ""),
        "// " + good.replace("\n", " "),
        "/* " + good + " */",
    ]
    assert instantiations.parse("a.cu", unit(*texts), "Sm120").instantiations == ()
    named = instantiations.parse("a.cu", unit(good.replace("void", "cutlass::epilogue::NoSmem")), "Sm120")
    assert named.instantiations[0].variant.schedule == "NoSmem"
