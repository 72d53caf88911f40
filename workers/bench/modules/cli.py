"""`python -m workers.bench modules`: build FlashInfer's JIT modules into this Python's FlashInfer."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workers.bench import memory
from workers.bench.cases.modules import JitModule
from workers.bench.document import BenchError, Document, Measurement, Progress, Target, now
from workers.bench.modules import build, libraries, lock, table
from workers.bench.operators.stack import packages
from workers.bench.tiles import arches as known
from workers.bench.tiles import toolchain
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.deep import KERNEL_BYTES

_ARCH = re.compile(r"sm(?:8[0-9]|90|1[0-9]{2})")
#: Two in one name is what a document's target holds.
_MOST_ARCHES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arch",
        action="append",
        required=True,
        type=_arch,
        help="of the GPUs that will load the modules, e.g. sm90; may be given twice",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="MODULE", help="build this one, may be given again"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("tilewatch-cache"),
        metavar="DIR",
        help="where nvcc is put if this machine has none (default: %(default)s)",
    )
    parser.add_argument(
        "--no-keep", action="store_true", help="measure the build alone, and leave the environment as it is"
    )
    parser.add_argument("--host", help="name of this machine (default: its own)")


def _arch(text: str) -> str:
    if _ARCH.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no architecture such as sm90")
    return text


def run(args: argparse.Namespace) -> Document:
    arches = sorted(set(args.arch))
    if len(arches) > _MOST_ARCHES:
        raise BenchError("bad_arch", f"--arch: at most {_MOST_ARCHES}, got {', '.join(arches)}.")
    wanted = table.needed(arches, args.only)
    started_at, began = now(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="modules-") as folder:
        scratch = Path(folder)
        found = _toolchain(args, arches, scratch)
        _prepare(found, arches, scratch)
        torch, flashinfer = _libraries()
        measured, logs, costs = _build_all(
            torch, wanted, "_".join(arches), Progress(args.progress), keep=not args.no_keep
        )
    written = lock.text()
    return Document(
        kind="modules",
        command=_command(args, arches),
        started_at=started_at,
        finished_at=now(),
        target=Target("arch", "_".join(arches), host=args.host or socket.gethostname()),
        stack=_stack(torch, flashinfer, found),
        measurements=tuple(measured),
        logs=logs | ({lock.NAME: written} if written else {}),
        costs={
            **costs,
            "wall_seconds": round(time.monotonic() - began, 3),
            "environment_bytes": _bytes(Path(sys.prefix)),
        },
        notes=lock.notes(),
    )


def _toolchain(args: argparse.Namespace, arches: list[str], scratch: Path) -> toolchain.Toolchain:
    # any architecture of the survey's serves the trial of a compiler that must be of 12.8 or later
    trial = known.ARCHES.get(arches[0], known.ARCHES["sm90"])
    return toolchain.obtain(
        Cache(args.cache), trial, scratch, os.environ, lambda: print("fetching nvcc", file=sys.stderr)
    )


def _prepare(found: toolchain.Toolchain, arches: list[str], scratch: Path) -> None:
    """What FlashInfer reads of its environment when it is imported, and when it compiles."""
    home = libraries.cuda_home(found.nvcc)
    os.environ.update(libraries.search_path(sys.path, home, scratch, found.gxx, os.environ))
    os.environ.update(
        FLASHINFER_CUDA_ARCH_LIST=table.arch_list(arches),
        FLASHINFER_WORKSPACE_BASE=str(scratch),
        CUDA_HOME=str(home),
        MAX_JOBS=str(_jobs()),
        CUDA_VISIBLE_DEVICES="",
        # ninja is a program of this environment's
        PATH=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
        CXX=str(found.gxx),
        CC=str(found.gxx),
    )
    if shutil.which("ninja") is None:
        raise BenchError("no_ninja", "ninja is missing, which FlashInfer builds its modules with.")


def _jobs() -> int:
    """Compilers at a time: one a core that this process may use, as far as memory bears the largest."""
    cores, available = len(os.sched_getaffinity(0)), memory.available_bytes()
    return cores if available is None else max(1, min(cores, available // KERNEL_BYTES))


def _libraries() -> tuple[Any, Any]:
    try:
        return importlib.import_module("torch"), importlib.import_module("flashinfer")
    except Exception as error:
        raise BenchError(
            "no_flashinfer",
            f"This Python cannot import torch and flashinfer: {type(error).__name__}: {error}"[:400],
        ) from None


def _build_all(
    torch: Any, wanted: list[table.Module], arch: str, progress: Progress, *, keep: bool
) -> tuple[list[Measurement], dict[str, str], dict[str, int | float]]:
    measured: list[Measurement] = []
    logs: dict[str, str] = {}
    cpu_seconds, module_bytes = 0.0, 0
    for number, module in enumerate(wanted):
        progress.step(number, len(wanted), f"building {module.name}")
        built = build.build(torch, module, keep=keep)
        measured += build.measurements(JitModule(module.name, arch), built)
        cpu_seconds += built.cpu_seconds
        module_bytes += built.size
        if built.log:
            logs[module.name] = built.log
    progress.step(len(wanted), len(wanted), "all modules are built")
    return measured, logs, {"cpu_seconds": round(cpu_seconds, 3), "module_bytes": module_bytes}


def _stack(torch: Any, flashinfer: Any, found: toolchain.Toolchain) -> dict[str, str]:
    return packages() | {
        "flashinfer": str(flashinfer.__version__),
        "torch": str(torch.__version__),
        "nvcc": found.version,
        "gxx": found.gxx_version,
        "python": platform.python_version(),
    }


def _bytes(folder: Path) -> int:
    """On disk, of all files of this environment: what it shares with its base is no part of it."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def _command(args: argparse.Namespace, arches: list[str]) -> tuple[str, ...]:
    chosen = (word for arch in arches for word in ("--arch", arch))
    only = (word for name in args.only for word in ("--only", name))
    kept = ("--no-keep",) if args.no_keep else ()
    return ("python", "-m", "workers.bench", "modules", *chosen, *only, *kept)
