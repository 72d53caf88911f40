"""Build the environment of a recipe, and the base that it lies on where that is missing.

    python -m workers.builder FOLDER RECIPE [--wheels FOLDER | --extra-index URL] [--arch sm90 … --out FILE]

runs as a child of the worker, so that a build is watched, logged and ended like any other work. Each is built
aside and renamed when whole: installed, checked, its lock written and its JIT modules built ahead.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from workers import environments, lockfile, sharing
from workers.bench.document import BenchError
from workers.bench.modules import libraries
from workers.bench.tiles import arches, toolchain
from workers.bench.tiles.cache import Cache
from workers.lease import only_one

CUDA_CHECK = """
import sys, torch
found = (torch.version.cuda or "no CUDA").split(".")[0]
if found != sys.argv[1]:
    built = f"is a build for {'CUDA ' + found if torch.version.cuda else found}"
    sys.exit(f"ERROR: torch {torch.__version__} {built}, not for CUDA {sys.argv[1]}")
"""
#: The last line is what a library calls itself when it is imported.
IMPORT_CHECK = """
import importlib, sys
name, = sys.argv[1:]
try:
    print(importlib.import_module(name).__version__)
except Exception as error:
    sys.exit(f"ERROR: {name} cannot be imported: {type(error).__name__}: {error}".splitlines()[0])
"""
MODULES = {"torch": "torch", "flashinfer": "flashinfer", "sgl-kernel": "sgl_kernel", "aiperf": "aiperf"}


class FailedError(Exception):
    """A step that failed and has said why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Where packages come from; the architectures that JIT modules are built for; where these are told of."""

    wheels: Path | None = None
    extra_index: str | None = None
    arches: tuple[str, ...] = ()
    out: Path | None = None
    progress: Path | None = None
    host: str | None = None
    #: a folder with a wheel that no index has
    links: Path | None = None


def build(root: Path, versions: Mapping[str, str], options: Options) -> None:
    """Leave the environment of a recipe in `root`. Raises FailedError, RecipeError, BenchError."""
    folder = environments.location(root, versions)
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_one(environments.build_lock(folder), wait=True))
        if environments.whole(folder):
            return
        base = environments.base_versions(versions)
        below = None
        if base is not None:
            build(root, base, options)
            below = environments.location(root, base)
            stack.enter_context(environments.in_use(below))
        aside = folder.with_name(folder.name + ".building")
        shutil.rmtree(aside, ignore_errors=True)
        root.mkdir(parents=True, exist_ok=True)
        try:
            _fill(aside, versions, below, options)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


def _fill(aside: Path, versions: Mapping[str, str], below: Path | None, options: Options) -> None:
    # our own pip installs into it, which is quicker than giving each its own
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(aside)], check=True)
    python = environments.python_of(aside)
    if below is not None:
        (aside / environments.BASE).write_text(below.name)
        # unlike a bare path this also heeds the .pth files of the base
        line = f"import site; site.addsitedir({str(_packages(below))!r})\n"
        (_packages(aside) / "zz_base.pth").write_text(line)
    reports = _install(python, versions, options)
    if "cuda" in versions:
        # an index or a folder may hold another build of the same version
        _run([str(python), "-c", CUDA_CHECK, versions["cuda"]])
    for name in sorted(MODULES.keys() & versions.keys()):
        _check(python, name, versions[name])
    lock = lockfile.make(
        versions,
        lockfile.installed(python),
        lockfile.wheels(reports),
        None if below is None else lockfile.read(below),
        "" if below is None else below.name,
    )
    for report in reports:
        report.unlink()
    (aside / lockfile.NAME).write_text(json.dumps(lock, indent=1) + "\n")
    finished = ((each, lockfile.read(each)) for each in environments.built(aside.parent))
    sharing.share(_packages(aside), lock, ((_packages(each), other) for each, other in finished if other))
    if "flashinfer" in versions and options.arches:
        _modules(aside, options)


def _check(python: Path, name: str, wanted: str) -> None:
    """Can it be imported, and is it the version that was asked for?"""
    command = [str(python), "-c", IMPORT_CHECK, MODULES[name]]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode != 0:
        raise FailedError
    found = told.stdout.strip().rpartition("\n")[2]
    with contextlib.suppress(InvalidVersion):
        # a local version such as 2.13.0+cpu is a build of that release
        if Version(Version(found).public) == Version(Version(wanted).public):
            return
    print(
        f"ERROR: {name} {wanted} was asked for, and what was installed calls itself {found}", file=sys.stderr
    )
    raise FailedError


def _packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def _install(python: Path, versions: Mapping[str, str], options: Options) -> list[Path]:
    """pip's reports of what it installed."""
    wanted = environments.requirements(versions)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    install += ["--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
    if options.wheels:
        install += ["--no-index", "--find-links", str(options.wheels)]
    if options.links:
        install += ["--find-links", str(options.links)]
    steps = [[*install, *wanted]]
    if options.extra_index:
        # Only for what the recipe names, since the index may be out of reach and each package asks it
        # anew; then the ordinary index must do, and brings the rest in any case.
        hurry = ["--extra-index-url", options.extra_index, "--retries", "1", "--timeout", "30"]
        steps.insert(0, [*install, "--no-deps", *hurry, *wanted])
    reports = []
    for number, step in enumerate(steps):
        report = python.parents[1] / f"report-{number}.json"
        _run([*step, "--report", str(report)])
        reports.append(report)
    return reports


def _modules(aside: Path, options: Options) -> None:
    """Build the JIT modules ahead, by the environment's own Python. Raises FailedError, BenchError."""
    cache = Cache(aside.parent.parent / "cache")
    with tempfile.TemporaryDirectory(prefix="modules-") as scratch:
        # it may have to be fetched, by the pip that the environment lacks
        found = toolchain.obtain(
            cache, arches.find(options.arches[0]), Path(scratch), os.environ, lambda: print("fetching nvcc")
        )
        told = ("--out", str(options.out)) if options.out else ("--out", os.devnull)
        command = [str(environments.python_of(aside)), "-m", "workers.bench", "modules", *told]
        command += ["--cache", str(cache.root)]
        command += [word for arch in options.arches for word in ("--arch", arch)]
        command += ["--progress", str(options.progress)] if options.progress else []
        command += ["--host", options.host] if options.host else []
        _run(command, {"CUDA_HOME": str(libraries.cuda_home(found.nvcc)), "TMPDIR": scratch})


def _run(command: list[str], extra: Mapping[str, str] | None = None) -> None:
    sys.stdout.flush()
    if subprocess.run(command, env={**os.environ, **(extra or {})}, check=False).returncode != 0:
        raise FailedError


def main() -> int:
    parser = argparse.ArgumentParser(prog="workers.builder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("recipe", type=json.loads)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--extra-index")
    parser.add_argument("--arch", action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--progress", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--links", type=Path)
    asked = parser.parse_args()
    options = Options(
        asked.wheels,
        asked.extra_index,
        tuple(asked.arch),
        asked.out,
        asked.progress,
        asked.host,
        asked.links,
    )
    try:
        build(asked.folder, asked.recipe, options)
    except FailedError:
        return 1
    except BenchError as error:
        print(f"ERROR: {error.sentence}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
