"""nvcc's front end: a CUDA of this machine where it serves, else packages unpacked into the cache.

`nvcc -ptx` runs the host preprocessor and cicc only. No driver, no GPU, no linker is needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import archive, children, pip
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import Cache

OLDEST = (12, 8)  # the first with FP4 types and sm_120
PINS = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
)
_PREFIX = "nvidia/cu13"
_FREE_BYTES = 500_000_000
_TRIAL = """\
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <cuda/std/utility>
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Toolchain:
    """Paths of nvcc and the host compiler, and their full versions, e.g. 13.0.88 and 12.2.0."""

    nvcc: Path
    version: str
    gxx: Path
    gxx_version: str

    def environment(self, scratch: Path) -> dict[str, str]:
        """All that nvcc sees: nothing of the caller's settings may change a verdict."""
        path = os.pathsep.join(
            dict.fromkeys((str(self.nvcc.parent), str(self.gxx.parent), "/usr/bin", "/bin"))
        )
        return {"PATH": path, "TMPDIR": str(scratch), "HOME": str(scratch), "LC_ALL": "C"}


def obtain(
    cache: Cache, arch: Arch, scratch: Path, environ: Mapping[str, str], before_download: Callable[[], None]
) -> Toolchain:
    gxx = shutil.which("g++", path=environ.get("PATH", os.defpath))
    if gxx is None:
        raise BenchError(
            "no_compiler",
            "g++ is missing: nvcc needs it to preprocess. On Debian and Ubuntu: apt-get install -y g++",
        )
    found = _run([gxx, "-dumpfullversion", "-dumpversion"], scratch, {"PATH": os.defpath, "LC_ALL": "C"})
    gxx_version = found.stdout.strip() or "unknown"
    for nvcc in _of_this_machine(environ):
        toolchain = _usable(nvcc, arch, Path(gxx), gxx_version, scratch)
        if toolchain is not None:
            return toolchain
    nvcc = _from_packages(cache, scratch, before_download)
    toolchain = _usable(nvcc, arch, Path(gxx), gxx_version, scratch)
    if toolchain is None:
        raise BenchError(
            "bad_toolchain",
            f"The nvcc unpacked at {nvcc} does not preprocess a small file with g++ {gxx_version}; "
            f"remove {nvcc.parents[1]} and try again, or set CUDA_HOME to a CUDA of 12.8 or later.",
        )
    return toolchain


def _of_this_machine(environ: Mapping[str, str]) -> list[Path]:
    candidates = []
    if home := environ.get("CUDA_HOME"):
        candidates.append(Path(home) / "bin" / "nvcc")
    if on_path := shutil.which("nvcc", path=environ.get("PATH", os.defpath)):
        candidates.append(Path(on_path))
    return [candidate.absolute() for candidate in candidates if os.access(candidate, os.X_OK)]


def _usable(nvcc: Path, arch: Arch, gxx: Path, gxx_version: str, scratch: Path) -> Toolchain | None:
    """None if it is too old, broken, or lacks a header: then another is taken."""
    toolchain = Toolchain(nvcc, "", gxx, gxx_version)
    env = toolchain.environment(scratch)
    told = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", _run([str(nvcc), "--version"], scratch, env).stdout)
    if told is None or (int(told[1]), int(told[2])) < OLDEST:
        return None
    trial = scratch / "trial.cu"
    trial.write_text(_TRIAL)
    target = f"arch={arch.compute},code={arch.compute}"
    options = ["-std=c++17", "-allow-unsupported-compiler", "-gencode", target]
    command = [str(nvcc), "-ccbin", str(gxx), *options, "-E", str(trial), "-o", os.devnull]
    if _run(command, scratch, env).returncode != 0:
        return None
    return dataclasses.replace(toolchain, version=".".join(told.groups()))


def _from_packages(cache: Cache, scratch: Path, before_download: Callable[[], None]) -> Path:
    key = hashlib.sha256(" ".join((*PINS, platform.machine())).encode()).hexdigest()[:16]
    place = cache.root / "toolchains" / key
    nvcc = place / "bin" / "nvcc"
    with cache.lock(f"toolchain-{key}"):
        if not place.is_dir():
            cache.need_free(_FREE_BYTES, "nvcc from packages")
            before_download()
            wheels, aside = scratch / "toolchain-wheels", scratch / "toolchain"
            wheels.mkdir()
            for wheel in pip.download(PINS, wheels, scratch):
                archive.unpack(wheel, aside, _wanted)
                wheel.unlink()
            root = aside / _PREFIX
            for tool in (*root.glob("bin/*"), *root.glob("nvvm/bin/*")):
                if tool.is_file():
                    tool.chmod(0o755)  # pip would set it; a zip need not carry it
            if not (root / "bin" / "nvcc").is_file() or not (root / "nvvm" / "bin" / "cicc").is_file():
                raise BenchError("broken_wheel", "The packages of nvcc lack bin/nvcc or nvvm/bin/cicc.")
            cache.publish(root, place)
    return nvcc


def _wanted(name: str) -> bool:
    return name.startswith(tuple(f"{_PREFIX}/{part}/" for part in ("bin", "include", "nvvm")))


def _run(command: list[str], scratch: Path, env: Mapping[str, str]) -> children.Ended:
    return children.run(command, folder=scratch, env=env, timeout=60)
