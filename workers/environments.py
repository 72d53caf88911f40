"""Recipes to environments: one virtual environment a recipe, built once and kept.

    python -m workers.environments FOLDER [--extra-index URL] REQUIREMENT …

runs as a child of the worker, so that a build is watched, logged and ended like any other work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from benchapp.catalog.digests import environment_name

#: The packages a recipe may name, and what they are called on the index. Nothing else is ever installed.
DISTRIBUTIONS = {"torch": "torch"}
#: PyTorch's own index of CPU builds: PyPI's torch for x86 is the CUDA build, gigabytes that a CPU cannot use.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class RecipeError(ValueError):
    """A recipe that cannot be built, with the reason in one sentence."""


def requirements(versions: Mapping[str, str]) -> list[str]:
    """pip requirements of a recipe, e.g. ["torch==2.13.0"]. Raises RecipeError."""
    wanted = []
    for name, version in sorted(versions.items()):
        if name not in DISTRIBUTIONS:
            raise RecipeError(f"recipe.{name}: expected one of {', '.join(sorted(DISTRIBUTIONS))}.")
        try:
            wanted.append(f"{DISTRIBUTIONS[name]}=={Version(version)}")
        except InvalidVersion:
            raise RecipeError(f"recipe.{name}: {version!r:.60} is not a version.") from None
    return wanted


def location(root: Path, versions: Mapping[str, str]) -> Path:
    return root / environment_name(versions)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def build_command(root: Path, versions: Mapping[str, str]) -> list[str]:
    """The command that builds a recipe's environment (CPU builds of torch)."""
    index = os.environ.get("TILEWATCH_TORCH_CPU_INDEX", TORCH_CPU_INDEX)
    extra = ["--extra-index", index] if index and "torch" in versions else []
    folder = location(root, versions)
    return [sys.executable, "-m", "workers.environments", str(folder), *extra, *requirements(versions)]


def build(folder: Path, wanted: list[str], extra_index: str | None) -> int:
    """Build aside, then rename: an environment that is there is whole. Returns pip's exit code."""
    aside = folder.with_name(folder.name + ".building")
    shutil.rmtree(aside, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(aside)], check=True)
    install = [str(python_of(aside)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    install.append("--only-binary=:all:")
    steps = [[*install, *wanted]]
    if extra_index:
        # Only for what the recipe names, since the index may be out of reach and each package asks it
        # anew; then the ordinary index must do, and brings the rest in any case.
        hurry = ["--extra-index-url", extra_index, "--retries", "1", "--timeout", "30"]
        steps.insert(0, [*install, "--no-deps", *hurry, *wanted])
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
    parser.add_argument("requirement", nargs="+")
    options = parser.parse_args()
    return build(options.folder, options.requirement, options.extra_index)


if __name__ == "__main__":
    sys.exit(main())
