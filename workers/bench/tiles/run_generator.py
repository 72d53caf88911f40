"""Runs in a child: calls a wheel's own kernel generator without importing the package around it.

The packages above the generator get empty stand-ins, since their real __init__ files import torch.
Called as: run_generator.py SOURCES OUTPUT MODULE_ARCH NVCC_VERSION
"""

import sys
import types
from pathlib import Path


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main() -> None:
    sources, output, arch, nvcc = sys.argv[1:]
    sys.dont_write_bytecode = True
    name = ""
    for part in ("flashinfer", "jit", "gemm", "cutlass"):
        name = f"{name}.{part}" if name else part
        package = types.ModuleType(name)
        package.__path__ = [str(Path(sources, *name.split(".")))]
        sys.modules[name] = package
    # Some versions ask here which CUDA will compile; the real module imports torch to find it.
    cpp_ext = types.ModuleType("flashinfer.jit.cpp_ext")
    vars(cpp_ext)["is_cuda_version_at_least"] = lambda wanted: _numbers(nvcc) >= _numbers(wanted)
    sys.modules[cpp_ext.__name__] = cpp_ext

    from flashinfer.jit.gemm.cutlass.generate_kernels import (  # type: ignore[import-not-found]
        generate_gemm_operations,
    )

    generate_gemm_operations(output, f"{arch};{arch}-real")


if __name__ == "__main__":
    main()
