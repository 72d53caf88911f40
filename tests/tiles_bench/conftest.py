"""Wheels of our own making, small enough to survey in seconds, with the layout of FlashInfer's."""

import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from workers.bench.document import BenchError
from workers.bench.tiles import arches, toolchain
from workers.bench.tiles.cache import Cache

MINI = Path(__file__).parent / "mini"
DATA = "flashinfer/data"
LAUNCHER = "tensorrt_llm/kernels/cutlass_kernels/moe_gemm/launchers/moe_gemm_tma_ws_launcher.inl"

GENERATOR = """
import os
from ...cpp_ext import is_cuda_version_at_least

UNITS = {units!r}

def generate_gemm_operations(output_dir, architectures):
    assert architectures == "120;120-real" and is_cuda_version_at_least("12.8")
    folder = os.path.join(output_dir, "gemm_grouped", "120")
    os.makedirs(folder)
    for name, text in UNITS.items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
"""
MODULES = """
import torch  # the survey must not run this file

def gen_cutlass_fused_moe_sm120_module(use_fast_build=False):
    return ["-DENABLE_FP4", "-DMINI"]
"""
VERSION_H = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 9\n#define CUTLASS_PATCH 1\n"


def macro(
    tile: tuple[int, int, int],
    *,
    fusion: str = "NONE",
    swap: bool = False,
    output: str = "half",
    inputs: str = "SafeFP4, SafeFP4",
) -> str:
    m, n, k = tile
    is_mx = "true" if "fp8" in inputs else "false"
    return (
        f"INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(Sm120, {inputs}, {output},\n"
        f"        void, EpilogueOpDefault, {fusion},\n        {m}, {n}, {k}, 1, 1, 1,\n"
        f"        {is_mx}, false, false, {str(swap).lower()});\n"
    )


def unit(*macros: str) -> str:
    opening = f'#include "{LAUNCHER}"\nnamespace tensorrt_llm::kernels::cutlass_kernels_oss {{\n'
    return opening + "\n".join(macros) + "}\n"


def wheel_files(units: Mapping[str, str], version: str = "0.6.3") -> dict[str, bytes]:
    texts = {
        f"flashinfer_python-{version}.dist-info/METADATA": f"Name: flashinfer-python\nVersion: {version}\n\n",
        "flashinfer/jit/gemm/cutlass/generate_kernels.py": GENERATOR.format(units=dict(units)),
        "flashinfer/jit/fused_moe.py": MODULES,
        f"{DATA}/csrc/nv_internal/{LAUNCHER}": (MINI / "launcher.inl").read_text(),
        f"{DATA}/cutlass/include/cutlass/version.h": VERSION_H,
        f"{DATA}/cutlass/include/cutlass/device_kernel.h": (MINI / "device_kernel.h").read_text(),
        f"{DATA}/cutlass/include/cutlass/epilogue/dispatch_policy.hpp": (
            MINI / "dispatch_policy.hpp"
        ).read_text(),
        f"{DATA}/cutlass/include/cutlass/numeric_types.h": (MINI / "numeric_types.h").read_text(),
        f"{DATA}/cutlass/include/cute/tensor.hpp": (MINI / "tensor.hpp").read_text(),
    }
    return {name: text.encode() for name, text in texts.items()}


def write_wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """make_wheel(units, version="0.6.3", without=names) -> path of the wheel"""

    def make(units: Mapping[str, str], version: str = "0.6.3", without: tuple[str, ...] = ()) -> Path:
        folder = tmp_path / "wheels"
        folder.mkdir(exist_ok=True)
        files = wheel_files(units, version)
        for name in without:
            del files[next(full for full in files if full.endswith(name))]
        return write_wheel(folder / f"flashinfer_python-{version}-py3-none-any.whl", files)

    return make


@pytest.fixture(scope="session")
def tools_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache whose toolchain is ready; skips where there is neither nvcc nor a network, or no g++."""
    root = tmp_path_factory.mktemp("tools")
    cache = Cache(root)
    try:
        with cache.scratch() as scratch:
            toolchain.obtain(cache, arches.find("sm120"), scratch, os.environ, lambda: None)
    except BenchError as error:
        pytest.skip(f"no toolchain: {error.sentence}")
    return root


@pytest.fixture
def cache_folder(tools_cache: Path, tmp_path: Path) -> Iterator[Path]:
    """An empty cache but for the toolchain."""
    root = tmp_path / "cache"
    root.mkdir()
    (root / "toolchains").symlink_to(tools_cache / "toolchains")
    yield root
    shutil.rmtree(root, ignore_errors=True)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)
