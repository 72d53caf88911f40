"""The versions at work in this process, as its packages and loaded libraries tell them."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: word of the stack → the distribution that brings it
_DISTRIBUTIONS = {
    "flashinfer": "flashinfer-python",
    "cutlass-dsl": "nvidia-cutlass-dsl",
    "tvm-ffi": "apache-tvm-ffi",
    "cudnn-frontend": "nvidia-cudnn-frontend",
    "sgl-kernel": "sgl-kernel",
    "cupti": "cupti-python",
    "triton": "triton",
}
_CUTLASS_HEADER = "data/cutlass/include/cutlass/version.h"


def observed(torch: Any, device: str) -> dict[str, str]:
    """Words of the stack → versions; what this Python does not have, or does not tell, is left out."""
    found = {"torch": str(torch.__version__), "python": platform.python_version()}
    if device != "cuda":
        return {**found, **cpu_libraries(torch.__config__.show())}
    found |= packages() | _of_torch(torch)
    cutlass = bundled_cutlass("flashinfer")
    return found if cutlass is None else {**found, "cutlass": cutlass}


def packages() -> dict[str, str]:
    """Of the packages beside torch that this Python can import from."""
    found = {word: installed([name]) for word, name in _DISTRIBUTIONS.items()}
    return {word: version for word, version in found.items() if version is not None}


def _of_torch(torch: Any) -> dict[str, str]:
    """Of the libraries torch has loaded: toolkit, cudnn, nccl, cublas."""
    found = {"toolkit": str(torch.version.cuda)}
    cudnn = torch.backends.cudnn.version()
    if cudnn:
        found["cudnn"] = f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"
    with contextlib.suppress(AttributeError, RuntimeError):  # a torch without NCCL has no such function
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    cublas = loaded_cublas(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    if cublas is None:
        major = found["toolkit"].split(".")[0]
        cublas = installed(("nvidia-cublas", f"nvidia-cublas-cu{major}"))
    return found if cublas is None else {**found, "cublas": cublas}


def installed(distributions: Iterable[str]) -> str | None:
    """Version of the first of `distributions` that this Python can import from."""
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def bundled_cutlass(package: str) -> str | None:
    """Version of the CUTLASS headers that `package` carries and compiles with."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        with contextlib.suppress(OSError):
            return cutlass_version((Path(folder) / _CUTLASS_HEADER).read_text(encoding="utf-8"))
    return None


def cutlass_version(header: str) -> str | None:
    """ "4.2.1" from the text of cutlass/version.h."""
    parts = [re.search(rf"#define CUTLASS_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part[1] for part in parts if part) if all(parts) else None


def loaded_cublas(maps: str) -> str | None:
    """Version that the cuBLAS in this process's memory tells; None before anything has loaded it."""
    match = re.search(r"(/\S*/libcublas\.so\S*)", maps)
    if match is None:
        return None
    value, parts = ctypes.c_int(), []
    try:
        tell = ctypes.CDLL(match[1]).cublasGetProperty
    except (OSError, AttributeError):
        return None
    for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL of libraryPropertyType
        if tell(part, ctypes.byref(value)):
            return None
        parts.append(str(value.value))
    return ".".join(parts)


def cpu_libraries(config: str) -> dict[str, str]:
    """Library versions from the text of `torch.__config__.show()`; what it does not name is left out."""
    patterns = {
        "mkl": r"Math Kernel Library Version ([\d.]+)",
        "onednn": r"MKL-DNN v([\d.]+)",
        "openmp": r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)",
        "blas": r"BLAS_INFO=(\w+)",
    }
    found = {name: re.search(pattern, config) for name, pattern in patterns.items()}
    return {name: match.group(1) for name, match in found.items() if match}
