"""What is taken out of a version's C++ to list its tactics."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.document import BenchError
from workers.bench.tiles import dispatch
from workers.bench.tiles.sources import KERNELS, Sources

HEAD = "template <typename T, typename W>\nstd::vector<Config>\nMoeGemmRunner<T, W>::"
RUNNER = (
    f"{HEAD}getConfigs(bool finalize) const {{ return getConfigs(sm_, finalize); }}\n"
    f"{HEAD}getConfigs(int sm, bool finalize) {{ if (sm) {{ return {{}}; }} return all; }}\n"
    f"{HEAD}getAmpereConfigs(int sm) {{ return {{}}; }}\n"
    f"{HEAD}getTmaWarpSpecializedConfigs(int sm, bool f) {{ /* }} */ return {{}}; }}\n"
    f"{HEAD}supportsTmaWarpSpecialized(int sm) {{ return true; }}\n"
    f"{HEAD}runGemm(Inputs inputs) {{ dispatchToArch(inputs); }}\n"
)
TACTICS = """
  getTactics(MoeGemmId gemm_id) override {
    return filterMxfp8Tactics(
        moe_gemm_runner_.getConfigs(gemm_id == MoeGemmId::GEMM_2 && mayHaveFinalizeFused()));
  }
  filterMxfp8Tactics(std::vector<cutlass_extensions::CutlassGemmConfig> configs) {
    if constexpr (use_mxfp8) {  // blocks have no scales there
      configs.erase(std::remove_if(configs.begin(), configs.end(),
                                   [](cutlass_extensions::CutlassGemmConfig const& config) {
                                     return !config.is_tma_warp_specialized;
                                   }),
                    configs.end());
    }
    return configs;
  }
  bool mayHaveFinalizeFused() const {
    return moe_gemm_runner_.supportsTmaWarpSpecialized() && moe_gemm_runner_.getSM() >= 90 &&
           use_fused_finalize_ && !use_sm90_mixed_input_gemm;
  }
"""
BINDING = """
    mAllProfiles = gemm1_tactics;
    mAllProfiles.insert(mAllProfiles.end(), gemm2_tactics.begin(), gemm2_tactics.end());
"""


@pytest.fixture
def tree(tmp_path: Path) -> Sources:
    texts = {
        f"{KERNELS}/moe_gemm/moe_gemm_template_dispatch.h": RUNNER,
        f"{KERNELS}/moe_gemm/moe_gemm_template_dispatch_tma_ws.h": '#include "cute/tensor.hpp"\nint table;\n',
        f"{KERNELS}/include/moe_kernels.h": TACTICS,
        f"{KERNELS}/include/moe_gemm_kernels.h": "template <bool IsMXFPX> class MoeGemmRunner;",
        "flashinfer/data/csrc/fused_moe/cutlass_backend/any_binding.cu": BINDING,
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Sources(tmp_path, "0.6.18", "4.5.0", "d" * 64, 1, 1, 1)


def test_the_program_holds_the_versions_own_functions_and_not_its_heavy_includes(tree: Sources) -> None:
    text = dispatch.program(tree, ["nvfp4xnvfp4", "fp8xfp8"])
    assert "int table;" in text
    assert "cute/tensor.hpp" not in text
    assert text.count("::getConfigs(") == 2
    assert "runGemm" not in text
    assert "#define TILEWATCH_FAMILIES(DO) DO(nvfp4xnvfp4) DO(fp8xfp8)" in text
    assert "#define TILEWATCH_RUNNER_KNOWS_MX" in text
    assert "#define TILEWATCH_FILTERS_MXFP8" in text


def test_a_runner_that_knows_no_mx_scaling_is_not_asked_about_it(tree: Sources) -> None:
    (tree.root / KERNELS / "include/moe_gemm_kernels.h").write_text("class MoeGemmRunner;")
    assert "mxfp8xmxfp8" not in dispatch.program(tree, ["fp8xfp8", "mxfp8xmxfp8"])


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("include/moe_kernels.h", "GEMM_2 &&", "GEMM_1 &&", "moe_kernels.h of flashinfer 0.6.18"),
        ("include/moe_kernels.h", "getSM() >= 90", "getSM() >= 100", "by another rule"),
        ("include/moe_kernels.h", "return !config", "return config", "another filterMxfp8Tactics"),
        ("moe_gemm/moe_gemm_template_dispatch.h", "getAmpereConfigs", "get", "defines no MoeGemmRunner::"),
    ],
)
def test_a_rule_that_is_not_the_known_one_is_refused(
    tree: Sources, name: str, old: str, new: str, said: str
) -> None:
    path = tree.root / KERNELS / name
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BenchError, match=said) as refused:
        dispatch.program(tree, ["nvfp4xnvfp4"])
    assert refused.value.code == "unknown_rule"


def test_another_order_of_ids_is_refused(tree: Sources) -> None:
    binding = next(tree.root.rglob("*_binding.cu"))
    binding.write_text(BINDING.replace("= gemm1_tactics", "= gemm2_tactics"))
    with pytest.raises(BenchError, match="numbers its tactics by another rule"):
        dispatch.program(tree, ["nvfp4xnvfp4"])


def test_before_0_5_3_both_gemms_share_a_list(tree: Sources) -> None:
    (tree.root / KERNELS / "include/moe_kernels.h").write_text(
        "getTactics() override {\n return moe_gemm_runner_.getConfigs();\n}"
    )
    binding = next(tree.root.rglob("*_binding.cu"))
    binding.write_text("mAllProfiles = mKernelRunner->getTactics();")
    assert "#define TILEWATCH_ONE_LIST" in dispatch.program(tree, ["nvfp4xnvfp4"])


def test_a_missing_file_is_named(tree: Sources) -> None:
    (tree.root / KERNELS / "include/moe_kernels.h").unlink()
    with pytest.raises(BenchError, match=r"moe_kernels\.h of flashinfer 0\.6\.18 is missing"):
        dispatch.program(tree, ["nvfp4xnvfp4"])


@given(st.lists(st.sampled_from(["/* a\n b */", "// c\n", "SHAPE_CASE(1)", "\n", "'"])))
def test_comments_become_blanks_and_nothing_moves(parts: list[str]) -> None:
    text = "".join(parts)
    without = dispatch.without_comments(text)
    assert [len(line) for line in without.split("\n")] == [len(line) for line in text.split("\n")]
    assert without.count("SHAPE_CASE(1)") == text.count("SHAPE_CASE(1)")
    assert "a\n b" not in without


def test_a_string_is_no_comment() -> None:
    assert dispatch.without_comments('throw("no // way"); // why') == 'throw("no // way");       '
