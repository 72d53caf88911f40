"""Recipes and environments: what a recipe may name, and the virtual environment that each leaves on disk.

A recipe without a library is a base layer: {"torch": X, "cuda": C}. One with a library (flashinfer or
sgl-kernel) lies on it: an environment with packages of its own that sees those of its base, so that torch
and NVIDIA's libraries are on disk once. `workers.builder` builds both.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from django.conf import settings
from packaging.version import InvalidVersion, Version

from benchapp.catalog.digests import environment_name

#: The packages a recipe may name, and what they are called on the index. Nothing else is ever asked for.
DISTRIBUTIONS = {
    "torch": "torch",
    "flashinfer": "flashinfer-python",
    "sgl-kernel": "sgl-kernel",
    "aiperf": "aiperf",
}
#: What is measured, one a recipe, on the base layer of the rest.
LIBRARIES = ("flashinfer", "sgl-kernel")
#: The load generator of servers has a recipe of its own, without torch.
LOAD_GENERATOR = "aiperf"
#: PyTorch's own index of CPU builds: PyPI's torch for x86 is the CUDA build, gigabytes that a CPU cannot use.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: `cuda` in a recipe is no package: it asks for the CUDA build, which the ordinary index has for one major
#: version of CUDA a torch release. torch 2.11.0 and 2.13.0 from PyPI were seen to need 13.
CUDA_MAJORS = ("13",)
#: Beside torch in each base layer for CUDA, to time kernels. Each release of it wants another CUPTI, which
#: torch pins, so pip chooses.
COMPANION = "cupti-python>={0},<{1}"
NAME = re.compile(r"[0-9a-f]{16}")
#: In an environment: touched when a run uses it, and locked while one does.
USED = "used_at"
#: In an environment with a base: its name.
BASE = "base"


class RecipeError(ValueError):
    """A recipe that cannot be built, with the reason in one sentence."""


def requirements(versions: Mapping[str, str]) -> list[str]:
    """pip requirements of a recipe, e.g. ["torch==2.13.0"]. Raises RecipeError."""
    libraries = [name for name in LIBRARIES if name in versions]
    if len(libraries) > 1:
        raise RecipeError(f"recipe.{libraries[1]}: expected without {libraries[0]}, in a recipe of its own.")
    if LOAD_GENERATOR in versions and len(versions) > 1:
        raise RecipeError(f"recipe.{LOAD_GENERATOR}: expected alone.")
    wanted = []
    for name, version in sorted(versions.items()):
        if name == "cuda":
            if version not in CUDA_MAJORS or "torch" not in versions:
                raise RecipeError(f"recipe.cuda: expected {' or '.join(CUDA_MAJORS)}, beside torch.")
            if not libraries:
                wanted.append(COMPANION.format(version, int(version) + 1))
            continue
        if name not in DISTRIBUTIONS:
            raise RecipeError(f"recipe.{name}: expected one of {', '.join(sorted(DISTRIBUTIONS))}, cuda.")
        if name in LIBRARIES and not {"torch", "cuda"} <= versions.keys():
            raise RecipeError(f"recipe.{name}: expected beside torch and cuda.")
        try:
            wanted.append(f"{DISTRIBUTIONS[name]}=={Version(version)}")
        except InvalidVersion:
            raise RecipeError(f"recipe.{name}: {version!r:.60} is not a version.") from None
    return wanted


def base_versions(versions: Mapping[str, str]) -> dict[str, str] | None:
    """The recipe of the base layer; None where the recipe is one itself."""
    base = {name: version for name, version in versions.items() if name not in LIBRARIES}
    return base if len(base) < len(versions) else None


def root() -> Path:
    return Path(settings.HOME) / "envs"


def location(root: Path, versions: Mapping[str, str]) -> Path:
    return root / environment_name(versions)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def build_lock(environment: Path) -> Path:
    """Locked while an environment is built, by this name or with what is put behind it while it is aside.

    It lies beside the folder of environments, whose strange entries are collected.
    """
    return environment.parent.parent / "run" / f"{environment.name.partition('.')[0]}.build"


def base_of(environment: Path) -> Path | None:
    """The environment that this one lies on, which may be gone; None where it lies on none."""
    try:
        name = (environment / BASE).read_text().strip()
    except OSError:
        return None
    return environment.with_name(name) if NAME.fullmatch(name) else None


def whole(environment: Path) -> bool:
    """Is it there, with the base that it lies on?"""
    base = base_of(environment)
    return python_of(environment).exists() and (base is None or python_of(base).exists())


def built(root: Path) -> list[Path]:
    """The environments in a folder of environments, whole ones only."""
    try:
        found = list(root.iterdir())
    except FileNotFoundError:
        return []
    return sorted(path for path in found if NAME.fullmatch(path.name) and whole(path))


def ready() -> list[str]:
    """Names of the environments that this host has built."""
    return [path.name for path in built(root())]


@contextlib.contextmanager
def in_use(environment: Path) -> Iterator[int]:
    """Keep an environment from being removed, and say that it was used now.

    Its base stays with it, since `remove` removes none that another environment lies on. Yields a descriptor
    for the child, which keeps it as long as it lives. Raises FileNotFoundError where the environment is gone.
    """
    descriptor = os.open(environment / USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        python_of(environment).stat()  # removed while we waited?
        os.utime(descriptor)
        if base := base_of(environment):
            python_of(base).stat()
            with contextlib.suppress(OSError):  # never used by itself
                os.utime(base / USED)
        yield descriptor
    finally:
        os.close(descriptor)


def remove(environment: Path) -> bool:
    """Remove an environment that nobody uses and none lies on. False, and nothing removed, otherwise."""
    try:
        descriptor = os.open(environment / USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # a builder that lays one on it holds it in use until the other has its name
        if any(base_of(other) == environment for other in built(environment.parent)):
            return False
        aside = environment.with_name(environment.name + ".removed")
        shutil.rmtree(aside, ignore_errors=True)
        environment.rename(aside)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def build_command(
    root: Path, versions: Mapping[str, str], arches: Sequence[str] = (), document: Path | None = None
) -> list[str]:
    """The command that builds a recipe's environment. Raises RecipeError.

    `arches` are those that JIT modules are built for, `document` where their measurements go.
    TILEWATCH_WHEELS names a folder that holds every wheel, for hosts without an index.
    """
    requirements(versions)
    options = []
    index = os.environ.get("TILEWATCH_TORCH_CPU_INDEX", TORCH_CPU_INDEX)
    if wheels := os.environ.get("TILEWATCH_WHEELS"):
        options += ["--wheels", wheels]
    elif index and "torch" in versions and "cuda" not in versions:
        options += ["--extra-index", index]
    for arch in arches:
        options += ["--arch", arch]
    if document is not None:
        options += ["--out", str(document)]
    recipe = json.dumps(dict(versions), sort_keys=True)
    return [sys.executable, "-m", "workers.builder", str(root), recipe, *options]
