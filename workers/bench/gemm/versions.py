"""Versions of torch and of what it computes with, as torch tells them."""

from __future__ import annotations

import platform
import re
from typing import Any


def torch_stack(torch: Any, device: str) -> dict[str, str]:
    """{"torch", "python"}, and on CPU the libraries torch was built with: mkl, onednn, openmp, blas."""
    stack = {"torch": str(torch.__version__), "python": platform.python_version()}
    return stack if device == "cuda" else {**stack, **cpu_libraries(torch.__config__.show())}


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
