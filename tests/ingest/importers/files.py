"""Files as FlashInfer and cutlass_profiler write them, made up for these tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GPU = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
METADATA = {
    "flashinfer_version": "0.6.3",
    "cuda_version": "13.0",
    "cublas_version": "13.2.1",
    "cudnn_version": "91900",
    "cutlass_dsl_version": "unknown",
    "gpu": GPU,
}
#: (tokens, width), FC1 weights, bias, FC2 weights, bias of an NVFP4 model: hidden 6144, 256 experts
SHAPES = "(({tokens}, 3072), (256, 4096, 384), (0,), (256, 6144, 128), (0,))"
EXTRAS = (
    "(torch.uint8, torch.int64, {output}, 8, 1, 1, 1, False, False, False, False, False, False, True, 3,"
    " False, {fused})"
)


def key(gemm: int = 1, tokens: int = 16, *, shapes: str = SHAPES) -> str:
    return f"('trtllm::fused_moe::gemm{gemm}', 'MoERunner', {shapes.format(tokens=tokens)})"


def new_key(gemm: int = 1, tokens: int = 16, *, output: str = "torch.bfloat16", fused: bool = True) -> str:
    return f"{key(gemm, tokens)[:-1]}, {EXTRAS.format(output=output, fused=fused)})"


def autotuner(entries: dict[str, Any], metadata: dict[str, Any] | None = METADATA) -> bytes:
    return json.dumps({"_metadata": metadata, **entries} if metadata else entries).encode()


def blocklist(invalid: dict[str, Any], metadata: dict[str, Any] = METADATA) -> bytes:
    return json.dumps({"_metadata": metadata, "invalid_tactics": invalid}).encode()


RUNNER = (
    "<flashinfer.fused_moe.core.get_cutlass_fused_moe_module.<locals>.MoERunner object at 0x7c70ccce8350>"
)
INIT = (
    "[TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm."
    " Error: Error Internal"
)


def skip(tactic: int | str, why: str = INIT, *, runner: str = RUNNER) -> str:
    return (
        "(Worker_TP0 pid=4711) 2026-02-03 04:05:06,789 - WARNING - autotuner.py:496 - flashinfer.jit:"
        f" [Autotuner]: Skipping tactic {runner} {tactic}, due to failure while profiling: {why}"
    )


TRACE = (
    "(Worker_TP0 pid=4711) 2  0x7c6dd11ca0ad /home/me/.cache/flashinfer/{version}/{arch}/cached_ops/"
    "fused_moe_120/fused_moe_120.so(+0x9080ad) [0x7c6dd11ca0ad]"
)

UNIT = "cutlass_kernel_file_gemm_grouped_sm120_M{m}_BS_group{group}.generated"
_MACRO = (
    "INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(Sm120, SafeFP4, SafeFP4, {output}, void, EpilogueOpDefault,"
    " {fusion}, {m}, {n}, {k}, 1, 1, 1, false, false, false, {swap});\n"
)


def unit(m: int, n: int, k: int) -> str:
    """A generated file: both fusions, swapped or not, one output type."""
    return "#pragma once\nnamespace x\n{\n" + "".join(
        _MACRO.format(output="__nv_bfloat16", fusion=fusion, m=m, n=n, k=k, swap=swap)
        for fusion in ("NONE", "FINALIZE")
        for swap in ("false", "true")
    ) + "}\n"  # fmt: skip


def cache(root: Path, version: str = "0.6.3", arch: str = "120a", *, prefix: str = "") -> Path:
    """A cache of two units, of which M128's was built; returns the folder <version>/<arch>."""
    space = root / ".cache" / "flashinfer" / version / arch
    sources = space / "generated" / "cutlass_instantiations" / "120" / "gemm_grouped" / "120"
    sources.mkdir(parents=True)
    (sources / f"{UNIT.format(m=128, group=0)}.cu").write_text(unit(128, 128, 128))
    (sources / f"{UNIT.format(m=256, group=0)}.cu").write_text(unit(256, 128, 128))
    objects = space / "cached_ops" / "fused_moe_120"
    objects.mkdir(parents=True)
    built = objects / f"{prefix}{UNIT.format(m=128, group=0)}.cuda.o"
    built.write_bytes(b"\x7fELF" * 100)
    (objects / f"{prefix}{UNIT.format(m=256, group=0)}.cuda.o").write_bytes(b"\x7fELF")
    (objects / "build.ninja").write_text("ninja_required_version = 1.3\n")
    (space / "cached_ops" / ".ninja_log").write_text(
        f"# ninja log v5\n0\t41250\t1760000000000000000\t{built}\tdeadbeef\n0\t10\tbroken line\n"
    )
    return space


HEADER = (
    "Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,"
    "Bytes,Flops,Runtime,GB/s,GFLOPs"
)
NVFP4 = (
    "cutlass3x_sm120_bstensorop_gemm_ue4m3xe2m1_ue4m3xe2m1_f32_void_bf16_{tile}_1x1x1_0_tnn_align32"
    "_{schedule}"
)


def operation(tile: str = "128x128x128", schedule: str = "pingpong_o_vs16") -> str:
    return NVFP4.format(tile=tile, schedule=schedule)


def profiled(*rows: tuple[str, str, str], header: str = HEADER) -> bytes:
    """Rows of (operation, disposition, status), each of its own problem."""
    lines = [
        f"{number},CUTLASS,block_scaled_gemm,{name},{disposition},{status},universal,1024,4096,6144,1,2,0.5,3,9999"
        for number, (name, disposition, status) in enumerate(rows, 1)
    ]
    return "\n".join([header, *lines, ""]).encode()
