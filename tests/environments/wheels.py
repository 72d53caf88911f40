"""Tiny wheels, made here: packages that hold little but their versions."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str], requires: Sequence[str] = ()
) -> Path:
    """A wheel for any machine; `files` are its texts by path."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {each}\n" for each in requires]
    with zipfile.ZipFile(path, "w") as packed:
        for place, text in files.items():
            packed.writestr(place, text)
        packed.writestr(f"{stem}.dist-info/METADATA", "".join(metadata))
        packed.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def torch(folder: Path, cuda: str | None, requires: Sequence[str] = (), ballast: int = 0) -> None:
    """torch 2.13.0, built for that CUDA."""
    files = {
        "torch/__init__.py": "from torch import version\n__version__ = '2.13.0'\nbfloat16 = int32 = None\n",
        "torch/version.py": f"cuda = {cuda!r}\n",
    }
    if ballast:
        files["torch/lib.bin"] = "x" * ballast
    wheel(folder, "torch", "2.13.0", files, requires)


def cupti(folder: Path) -> None:
    wheel(folder, "cupti-python", "13.0.1", {"cupti/__init__.py": ""})


def flashinfer(
    folder: Path,
    version: str,
    requires: Sequence[str] = ("torch",),
    files: Mapping[str, str] | None = None,
    calls_itself: str = "",
) -> None:
    package = f"import torch\n__version__ = {calls_itself or version!r}\n"
    wheel(
        folder,
        "flashinfer-python",
        version,
        {"flashinfer/__init__.py": package, **(files or {})},
        requires,
    )
