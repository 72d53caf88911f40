"""Headers and libraries that a module is compiled and linked with, where no toolkit is complete."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from workers.bench.document import BenchError

#: What FlashInfer's modules link: -lcudart and so on.
_LINKED = ("cudart", "cuda", "cublas", "cublasLt", "nvrtc", "curand")


def cuda_home(nvcc: Path) -> Path:
    """The toolkit of an nvcc, by its own word: on PATH it may be a link or a script. Raises BenchError."""
    said = subprocess.run(
        [str(nvcc), "-dryrun", "-E", "-x", "cu", os.devnull], capture_output=True, text=True, check=False
    )
    for line in said.stderr.splitlines():
        if line.startswith("#$ TOP="):
            return Path(line.removeprefix("#$ TOP=").strip()).resolve()
    raise BenchError("bad_toolchain", f"{nvcc} does not say where its toolkit is; set CUDA_HOME.")


def search_path(
    paths: Iterable[str], home: Path, scratch: Path, gxx: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Variables by which compiler and linker find what a toolkit without its libraries lacks.

    The wheels of torch bring libcublas.so.13 and the like, which no -lcublas finds; links to them do. libcuda
    belongs to the driver: at link time a stub does. All of it comes after what the toolkit has itself.
    """
    roots = [Path(path) / "nvidia" for path in paths]
    headers = [place for root in roots for place in sorted(root.glob("*/include"))]
    folders = [place for root in roots for place in sorted(root.glob("*/lib"))]
    links = scratch / "lib"
    links.mkdir(exist_ok=True)
    places = [*folders, home / "lib64", home / "lib64" / "stubs", home / "targets" / "x86_64-linux" / "lib"]
    places += [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64")]
    for name in _LINKED:
        found = next((each for place in places for each in sorted(place.glob(f"lib{name}.so*"))), None)
        if found is not None:
            (links / f"lib{name}.so").symlink_to(found)
        elif name == "cuda":
            _stub(gxx, links / "libcuda.so")
    return {
        "CPLUS_INCLUDE_PATH": _joined([str(place) for place in headers], environ.get("CPLUS_INCLUDE_PATH")),
        "LIBRARY_PATH": _joined([str(links)], environ.get("LIBRARY_PATH")),
        "FLASHINFER_EXTRA_LDFLAGS": " ".join(shlex.quote(_runpath(place)) for place in folders),
    }


def _runpath(folder: Path) -> str:
    """So that a module finds at run time what it was linked with, should torch not have loaded it.

    Relative within this environment, which is renamed when it is whole: from flashinfer/data/aot/NAME/. ninja
    reads $$ as $, and the quotes keep the shell from reading it.
    """
    site = next((Path(path) for path in sys.path if folder.is_relative_to(path)), None)
    if site is not None and site.is_relative_to(sys.prefix):
        return f"-Wl,-rpath,'$$ORIGIN/../../../../{folder.relative_to(site)}'"
    return f"-Wl,-rpath,'{folder}'"


def _stub(gxx: Path, library: Path) -> None:
    """A library without a symbol, of the driver's name: shared objects are linked without asking for them."""
    command = [str(gxx), "-shared", "-x", "c", os.devnull, "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)


def _joined(ours: list[str], given: str | None) -> str:
    return os.pathsep.join([*ours, *([given] if given else [])])
