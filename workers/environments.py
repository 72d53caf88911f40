"""Recipes to environments: one virtual environment a recipe, built once and kept.

    python -m workers.environments FOLDER [--extra-index URL | --wheels FOLDER] [--cuda MAJOR] REQUIREMENT …

runs as a child of the worker, so that a build is watched, logged and ended like any other work.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.conf import settings
from packaging.version import InvalidVersion, Version

from benchapp.catalog.digests import environment_name

#: The packages a recipe may name, and what they are called on the index. Nothing else is ever installed.
DISTRIBUTIONS = {"torch": "torch"}
#: PyTorch's own index of CPU builds: PyPI's torch for x86 is the CUDA build, gigabytes that a CPU cannot use.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: `cuda` in a recipe is no package: it asks for the CUDA build, which the ordinary index has for one major
#: version of CUDA a torch release. torch 2.11.0 and 2.13.0 from PyPI were seen to need 13.
CUDA_MAJORS = ("13",)
NAME = re.compile(r"[0-9a-f]{16}")
#: In an environment: touched when a run uses it, and locked while one does.
USED = "used_at"

CUDA_CHECK = """
import sys, torch
found = (torch.version.cuda or "no CUDA").split(".")[0]
if found != sys.argv[1]:
    built = f"is a build for {'CUDA ' + found if torch.version.cuda else found}"
    sys.exit(f"ERROR: torch {torch.__version__} {built}, not for CUDA {sys.argv[1]}")
"""


class RecipeError(ValueError):
    """A recipe that cannot be built, with the reason in one sentence."""


def requirements(versions: Mapping[str, str]) -> list[str]:
    """pip requirements of a recipe, e.g. ["torch==2.13.0"]. Raises RecipeError."""
    wanted = []
    for name, version in sorted(versions.items()):
        if name == "cuda":
            if version not in CUDA_MAJORS or "torch" not in versions:
                raise RecipeError(f"recipe.cuda: expected {' or '.join(CUDA_MAJORS)}, beside torch.")
            continue
        if name not in DISTRIBUTIONS:
            raise RecipeError(f"recipe.{name}: expected one of {', '.join(sorted(DISTRIBUTIONS))}, cuda.")
        try:
            wanted.append(f"{DISTRIBUTIONS[name]}=={Version(version)}")
        except InvalidVersion:
            raise RecipeError(f"recipe.{name}: {version!r:.60} is not a version.") from None
    return wanted


def root() -> Path:
    return Path(settings.HOME) / "envs"


def location(root: Path, versions: Mapping[str, str]) -> Path:
    return root / environment_name(versions)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def ready() -> list[str]:
    """Names of the environments that this host has built."""
    try:
        found = list(root().iterdir())
    except FileNotFoundError:
        return []
    return sorted(path.name for path in found if NAME.fullmatch(path.name) and python_of(path).exists())


@contextlib.contextmanager
def in_use(environment: Path) -> Iterator[int]:
    """Keep an environment from being removed, and say that it was used now.

    Yields a descriptor for the child, which keeps it as long as it lives. Raises FileNotFoundError where the
    environment is gone.
    """
    descriptor = os.open(environment / USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        python_of(environment).stat()  # removed while we waited?
        os.utime(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def remove(environment: Path) -> bool:
    """Remove an environment that nobody uses. False, and nothing removed, where a run is using it."""
    try:
        descriptor = os.open(environment / USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside = environment.with_name(environment.name + ".removed")
        shutil.rmtree(aside, ignore_errors=True)
        environment.rename(aside)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def build_command(root: Path, versions: Mapping[str, str]) -> list[str]:
    """The command that builds a recipe's environment. Raises RecipeError.

    TILEWATCH_WHEELS names a folder that holds every wheel, for hosts without an index.
    """
    wanted = requirements(versions)
    index = os.environ.get("TILEWATCH_TORCH_CPU_INDEX", TORCH_CPU_INDEX)
    options = []
    if wheels := os.environ.get("TILEWATCH_WHEELS"):
        options += ["--wheels", wheels]
    elif index and "torch" in versions and "cuda" not in versions:
        options += ["--extra-index", index]
    if "cuda" in versions:
        options += ["--cuda", versions["cuda"]]
    return [sys.executable, "-m", "workers.environments", str(location(root, versions)), *options, *wanted]


def build(
    folder: Path,
    wanted: list[str],
    extra_index: str | None,
    wheels: str | None = None,
    cuda: str | None = None,
) -> int:
    """Build aside, then rename: an environment that is there is whole. Returns pip's exit code."""
    aside = folder.with_name(folder.name + ".building")
    shutil.rmtree(aside, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # our own pip installs into it, which is quicker than giving each its own
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(aside)], check=True)
    python = str(python_of(aside))
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--disable-pip-version-check"]
    install += ["--no-input", "--only-binary=:all:"]
    if wheels:
        install += ["--no-index", "--find-links", wheels]
    steps = [[*install, *wanted]]
    if extra_index:
        # Only for what the recipe names, since the index may be out of reach and each package asks it
        # anew; then the ordinary index must do, and brings the rest in any case.
        hurry = ["--extra-index-url", extra_index, "--retries", "1", "--timeout", "30"]
        steps.insert(0, [*install, "--no-deps", *hurry, *wanted])
    if cuda:
        # an index or a folder may hold another build of the same version
        steps.append([python, "-c", CUDA_CHECK, cuda])
    code = 0
    for step in steps:
        code = code or subprocess.run(step, check=False).returncode
    if code == 0:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    else:
        shutil.rmtree(aside, ignore_errors=True)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="workers.environments")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--extra-index")
    parser.add_argument("--wheels")
    parser.add_argument("--cuda")
    parser.add_argument("requirement", nargs="+")
    options = parser.parse_args()
    return build(options.folder, options.requirement, options.extra_index, options.wheels, options.cuda)


if __name__ == "__main__":
    sys.exit(main())
