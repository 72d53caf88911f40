"""Which JIT modules operators, experts and decoder need: our name → the library's function describing it.

Read in the sources of 0.5.3, 0.6.3, 0.6.9, 0.6.13 and 0.6.18.post1. A release that lacks a function does
not have the module; the function itself may decline an architecture.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from workers.bench.document import BenchError

BLACKWELL = ("sm100", "sm103")
GEFORCE = ("sm120", "sm121")
HOPPER = ("sm90",)
FP8 = ("sm89", *HOPPER, *BLACKWELL, *GEFORCE)


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """An argument that the library holds: what the mapping `name` of the module `place` has by `key`."""

    place: str
    name: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Module:
    """`functions` of the Python module `place`: the first that a release has is asked. `arches` need it;
    empty: all. `arguments` of the word "bf16" or "int32" are the dtypes of torch. What is `slow` takes hours
    to build, or asks the network what there is, and is built only where it is named."""

    name: str
    place: str
    functions: tuple[str, ...]
    arches: tuple[str, ...] = ()
    arguments: tuple[Any, ...] = ()
    slow: bool = False


_ATTENTION = ("bf16", "bf16", "bf16", "int32", 128, 128, 0, False, False)
_GEMM, _FP4 = "flashinfer.jit.gemm.core", "flashinfer.jit.fp4_quantization"
_MODULES = "flashinfer.jit.attention.modules"
_MOE, _COMM = "flashinfer.jit.fused_moe", "flashinfer.jit.comm"
_LATENT = ("bf16", "bf16", "bf16", "int32", 512, 64, False)


def _sinks(windowed: bool) -> tuple[Any, ...]:
    """What BatchAttentionWithAttentionSinkWrapper asks for by fa2 at gpt-oss's heads of 64: a module by a
    name of its own, for layers with a window and for those without."""
    uri = f"batch_prefill_attention_sink_bf16_swa_{windowed}_fa2"
    decl = Held("flashinfer.jit.attention.variants", "attention_sink_decl", "fa2")
    return (
        "fa2", uri, "bf16", "bf16", "bf16", "int32", 64, 64,
        ("sink",), ("float",), ("sm_scale",), ("double",), "AttentionSink", decl, 0, windowed,
    )  # fmt: skip


TABLE = (
    Module("norm", "flashinfer.jit.norm", ("gen_norm_module",)),
    Module("silu_and_mul", "flashinfer.jit.activation", ("gen_act_and_mul_module",), (), ("silu",)),
    Module("rope", "flashinfer.jit.rope", ("gen_rope_module",)),
    Module("sampling", "flashinfer.jit.sampling", ("gen_sampling_module",)),
    Module("topk", "flashinfer.jit.topk", ("gen_topk_module",)),
    Module("decode", _MODULES, ("gen_batch_decode_module",), (), _ATTENTION),
    Module("prefill_fa2", _MODULES, ("gen_batch_prefill_module",), (), ("fa2", *_ATTENTION, False)),
    Module("prefill_fa3", _MODULES, ("gen_batch_prefill_module",), HOPPER, ("fa3", *_ATTENTION, False)),
    Module("page", "flashinfer.jit.page", ("gen_page_module",)),
    Module("sinks", _MODULES, ("gen_customize_batch_prefill_module",), (), _sinks(False)),
    Module("sinks_window", _MODULES, ("gen_customize_batch_prefill_module",), (), _sinks(True)),
    Module("mla_fa2", _MODULES, ("gen_batch_mla_module",), (), ("fa2", *_LATENT)),
    Module("mla_fa3", _MODULES, ("gen_batch_mla_module",), HOPPER, ("fa3", *_LATENT)),
    Module("gemm", _GEMM, ("gen_gemm_module",)),
    Module("mm_bf16_cublaslt", _GEMM, ("gen_mm_bf16_cublaslt_module",)),
    Module("tinygemm", "flashinfer.jit.tinygemm2", ("gen_tinygemm2_module",),
           (*HOPPER, *BLACKWELL, *GEFORCE)),
    Module("tinygemm_sm100", "flashinfer.jit.tinygemm2", ("gen_tinygemm2_sm100_module",), BLACKWELL),
    Module("mxfp8_quantization", "flashinfer.jit.fp8_quantization",
           ("gen_mxfp8_quantization_sm100_module",), FP8),
    # Since 0.6.9 the library takes its module for the family of SM12x, from CUDA 12.9 on.
    Module("fp4_quant_sm90", _FP4, ("gen_fp4_quantization_sm90_module",), HOPPER),
    Module("fp4_quant_sm100", _FP4, ("gen_fp4_quantization_sm100_module",), ("sm100",)),
    Module("fp4_quant_sm103", _FP4, ("gen_fp4_quantization_sm103_module",), ("sm103",)),
    Module("fp4_quant_sm120", _FP4,
           ("gen_fp4_quantization_sm120f_module", "gen_fp4_quantization_sm120_module"), ("sm120",)),
    Module("fp4_quant_sm121", _FP4,
           ("gen_fp4_quantization_sm120f_module", "gen_fp4_quantization_sm121_module"), ("sm121",)),
    Module("gemm_sm90", _GEMM, ("gen_gemm_sm90_module",), HOPPER),
    Module("fp8_block_sm90", "flashinfer.jit.gemm.fp8_blockscale",
           ("gen_fp8_blockscale_gemm_sm90_module",), HOPPER),
    Module("gemm_sm100", _GEMM, ("gen_gemm_sm100_module",), BLACKWELL),
    Module("gemm_fp4_sm100", _GEMM, ("gen_gemm_sm100_module_cutlass_fp4",), BLACKWELL),
    Module("gemm_fp4_sm103", _GEMM, ("gen_gemm_sm103_module_cutlass_fp4",), ("sm103",)),
    Module("gemm_fp8_sm100", _GEMM, ("gen_gemm_sm100_module_cutlass_fp8",), BLACKWELL),
    Module("gemm_bf16_sm100", _GEMM, ("gen_gemm_sm100_module_cutlass_bf16",), BLACKWELL),
    Module("gemm_mxfp8_sm100", _GEMM, ("gen_gemm_sm100_module_cutlass_mxfp8",), BLACKWELL),
    Module("tgv_bf16", _GEMM, ("gen_tgv_gemm_sm10x_module",), BLACKWELL, ("bf16",)),
    Module("gemm_sm120", _GEMM, ("gen_gemm_sm120_module",), GEFORCE),
    Module("gemm_fp4_sm120", _GEMM, ("gen_gemm_sm120_module_cutlass_fp4",), GEFORCE),
    Module("gemm_mxfp8_sm120", _GEMM, ("gen_gemm_sm120_module_cutlass_mxfp8",), GEFORCE),
    Module("vllm_comm", _COMM, ("gen_vllm_comm_module",)),
    Module("trtllm_comm", _COMM, ("gen_trtllm_comm_module",), (*HOPPER, *BLACKWELL, *GEFORCE)),
    Module("fused_moe_sm90", _MOE, ("gen_cutlass_fused_moe_sm90_module",), HOPPER, slow=True),
    Module("fused_moe_sm100", _MOE, ("gen_cutlass_fused_moe_sm100_module",), ("sm100",), slow=True),
    Module("fused_moe_sm103", _MOE, ("gen_cutlass_fused_moe_sm103_module",), ("sm103",), slow=True),
    Module("fused_moe_sm120", _MOE, ("gen_cutlass_fused_moe_sm120_module",), GEFORCE, slow=True),
    Module("trtllm_gen_moe", _MOE, ("gen_trtllm_gen_fused_moe_sm100_module",), BLACKWELL, slow=True),
)  # fmt: skip


class AbsentError(Exception):
    """This release does not have the module, or not for these GPUs; in words."""


def needed(arches: Iterable[str], only: Sequence[str] = ()) -> list[Module]:
    """The modules that these architectures need, without slow ones; or those of `only`. Raises BenchError."""
    asked = set(arches)
    found = [module for module in TABLE if not module.arches or asked & set(module.arches)]
    unknown = sorted(set(only) - {module.name for module in found})
    if unknown:
        names = ", ".join(module.name for module in found)
        raise BenchError("unknown_module", f"--only {unknown[0][:40]}: expected one of {names}.")
    return [module for module in found if (module.name in only if only else not module.slow)]


def describe(torch: Any, module: Module) -> Any:
    """The library's own description of a module, its JitSpec. Raises AbsentError; the library's errors."""
    try:
        place = importlib.import_module(module.place)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("flashinfer"):
            raise
        raise AbsentError(f"This FlashInfer has no {module.place}.") from None
    function = next((getattr(place, name) for name in module.functions if hasattr(place, name)), None)
    if function is None:
        raise AbsentError(f"This FlashInfer has no {module.place}.{module.functions[-1]}.")
    try:
        return function(*(_argument(torch, each) for each in module.arguments))
    except RuntimeError as error:
        if "No supported CUDA architectures" not in str(error):
            raise
        raise AbsentError(str(error)) from None


def _argument(torch: Any, told: Any) -> Any:
    if isinstance(told, Held):
        return getattr(importlib.import_module(told.place), told.name)[told.key]
    return {"bf16": torch.bfloat16, "int32": torch.int32}.get(told, told)


def arch_list(arches: Iterable[str]) -> str:
    """FLASHINFER_CUDA_ARCH_LIST: "9.0a 12.0a" of sm90 and sm120. From SM90 on the architecture's own features
    are asked for, without which FlashInfer's kernels do not compile."""
    words = []
    for arch in sorted(arches):
        major, minor = arch[2:-1], arch[-1]
        words.append(f"{major}.{minor}{'a' if int(major) >= 9 else ''}")
    return " ".join(words)
