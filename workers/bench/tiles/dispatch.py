"""The program that lists a version's tactics: its source text, made of the version's own functions.

What decides which kernel a tactic launches is host code of the wheel: `cutlass_heuristic.cpp`, four members
of `MoeGemmRunner` in `moe_gemm_template_dispatch.h`, and `moe_gemm_template_dispatch_tma_ws.h` with its
switch over tiles (SHAPE_CASE) and its `are_tile_shapes_supported`. They are compiled as they stand; only the
includes that would bring in all of CUTLASS, and the launcher at their end, are replaced (`host/`). So neither
a comment nor an `#if` can mislead, and the answers are the version's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles.sources import COMMON, KERNELS, Sources

_DISPATCH = f"{KERNELS}/moe_gemm/moe_gemm_template_dispatch_tma_ws.h"
_RUNNER = f"{KERNELS}/moe_gemm/moe_gemm_template_dispatch.h"
_RUNNER_CLASS = f"{KERNELS}/include/moe_gemm_kernels.h"
_TACTICS = f"{KERNELS}/include/moe_kernels.h"
_BINDING = "flashinfer/data/csrc/fused_moe/cutlass_backend"
_FP4_TYPE = f"{KERNELS}/fp4_compat.h"
_MEMBERS = ("getConfigs", "getAmpereConfigs", "getTmaWarpSpecializedConfigs", "supportsTmaWarpSpecialized")

# A string, which may hold what looks like a comment, or a comment.
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)

# How the ids come about is repeated in host/tactics.h; a version that says otherwise is not understood.
_KNOWS_MX = "#define TILEWATCH_RUNNER_KNOWS_MX"
_FILTER = "filterMxfp8Tactics"
_GET_TACTICS = "moe_gemm_runner_.getConfigs(gemm_id==MoeGemmId::GEMM_2&&mayHaveFinalizeFused())"
_MAY_FINALIZE = (
    "returnmoe_gemm_runner_.supportsTmaWarpSpecialized()&&moe_gemm_runner_.getSM()>=90&&"
    "use_fused_finalize_&&!"
)
_MXFP8_FILTER = (
    "ifconstexpr(use_mxfp8){configs.erase(std::remove_if(configs.begin(),configs.end(),"
    "[](cutlass_extensions::CutlassGemmConfigconst&config){return!config.is_tma_warp_specialized;}),"
    "configs.end());}returnconfigs;"
)
# before 0.5.3
_GET_ONE_LIST = "getTactics()override{returnmoe_gemm_runner_.getConfigs();}"
_ONE_LIST = "mAllProfiles=mKernelRunner->getTactics();"
_ALL_PROFILES = (
    "mAllProfiles=gemm1_tactics;"
    "mAllProfiles.insert(mAllProfiles.end(),gemm2_tactics.begin(),gemm2_tactics.end());"
)


def program(sources: Sources, families: Collection[str]) -> str:
    """One translation unit, for these input types.

    BenchError `unknown_rule` where the sources are not as this module expects.
    """
    runner = without_comments(_read(sources, _RUNNER))
    members = []
    for name in _MEMBERS:
        found = definitions(runner, name)
        if not found:
            raise _unknown(sources, _RUNNER, f"defines no MoeGemmRunner::{name}")
        members += found
    dispatch = _INCLUDE.sub("", without_comments(_read(sources, _DISPATCH)))
    macros = _check_rules(sources)
    known = (name for name in families if name != "mxfp8xmxfp8" or _KNOWS_MX in macros)
    macros.append(f"#define TILEWATCH_FAMILIES(DO) {' '.join(f'DO({name})' for name in known)}")
    return "\n".join(
        [
            *macros,
            '#include "dispatch_prelude.h"',
            # exceptions name the place they arise at
            f'#line 1 "{_DISPATCH}"',
            dispatch,
            '#line 1 "tactics"',
            '#include "tensorrt_llm/kernels/cutlass_kernels/cutlass_heuristic.cpp"',
            *(f'#include "{name}"' for name in COMMON),
            "namespace tensorrt_llm::kernels::cutlass_kernels {",
            *members,
            "}",
            '#include "tactics.h"',
            "",
        ]
    )


def without_comments(text: str) -> str:
    """Blanks instead of comments; offsets and lines stay."""
    return _STRING_OR_COMMENT.sub(
        lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0]), text
    )


def definitions(text: str, member: str) -> list[str]:
    """Definitions of `MoeGemmRunner<…>::member`, whole, of a text without comments."""
    head = re.compile(
        rf"\btemplate\s*<[^{{}};]*?\bMoeGemmRunner\s*<[^<>{{}};()]*>\s*::\s*{member}\s*\([^(){{}};]*\)"
        rf"\s*(?:const\s*)?\{{"
    )
    found = []
    for match in head.finditer(text):
        end, depth = match.end(), 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if depth == 0:
            found.append(text[match.start() : end])
    return found


def _check_rules(sources: Sources) -> list[str]:
    """Macros for what differs between versions, once it is sure that the ids come about as expected."""
    tactics = _squeezed(_read(sources, _TACTICS))
    bindings = [_squeezed(_text(path)) for path in sorted((sources.root / _BINDING).glob("*_binding.cu"))]
    if _GET_ONE_LIST in tactics and any(_ONE_LIST in binding for binding in bindings):
        return ["#define TILEWATCH_ONE_LIST", "#define TILEWATCH_FP4 __nv_fp4_e2m1"]
    if _GET_TACTICS not in tactics or _MAY_FINALIZE not in tactics:
        raise _unknown(sources, _TACTICS, "makes its tactics by another rule")
    macros = []
    if _FILTER in tactics:
        if _MXFP8_FILTER not in tactics:
            raise _unknown(sources, _TACTICS, f"has another {_FILTER}")
        macros.append("#define TILEWATCH_FILTERS_MXFP8")
    if not any(_ALL_PROFILES in binding for binding in bindings):
        raise _unknown(sources, _BINDING, "numbers its tactics by another rule than GEMM1 ++ GEMM2")
    if "bool IsMXFPX" in _read(sources, _RUNNER_CLASS):
        macros.append(_KNOWS_MX)
    own = (sources.root / _FP4_TYPE).is_file()
    fp4 = "tensorrt_llm::kernels::cutlass_kernels::Fp4Type" if own else "__nv_fp4_e2m1"
    return [*macros, f"#define TILEWATCH_FP4 {fp4}"]


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", without_comments(text))


def _read(sources: Sources, name: str) -> str:
    path = sources.root / name
    if not path.is_file():
        raise _unknown(sources, name, "is missing")
    return _text(path)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _unknown(sources: Sources, name: str, what: str) -> BenchError:
    return BenchError("unknown_rule", f"{name.rpartition('/')[2]} of flashinfer {sources.version} {what}.")
