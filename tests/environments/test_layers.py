"""Environments in layers: what they share lies on disk once, and nobody's base is taken away."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import wheels
from workers import collect, disk, environments, lockfile
from workers.disk import Inventory

BASE = {"torch": "2.13.0", "cuda": "13"}
OLD, NEW = ({**BASE, "flashinfer": version} for version in ("0.5.3", "0.6.3"))
BALLAST = 2_000_000
#: of a file that every upper layer has
LARGE = 200_000
SITE = Path(f"python{sys.version_info.major}.{sys.version_info.minor}") / "site-packages"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every wheel that the recipes need."""
    place = tmp_path_factory.mktemp("wheels")
    wheels.torch(place, "13.0", ["shared==1.0", "nvidia-thing"], BALLAST)
    wheels.cupti(place)
    wheels.wheel(place, "shared", "1.0", {"shared.py": "version = '1.0'\n"})
    for version in ("1.0", "2.0"):
        wheels.wheel(place, "nvidia-thing", version, {"thing.py": f"version = {version!r}\n"})
    wheels.wheel(place, "nvidia-cutlass-dsl", "4.8.1", {"dsl.py": "", "dsl_libs.bin": "x" * LARGE})
    asks = ["torch", "shared", "nvidia-cutlass-dsl>=4.2.1"]
    wheels.flashinfer(place, "0.5.3", asks)
    wheels.flashinfer(place, "0.6.3", [*asks, "nvidia-thing<2"])
    wheels.flashinfer(place, "0.6.4", ["torch"], calls_itself="0.6.3")
    wheels.flashinfer(place, "0.6.5")
    wheels.flashinfer(place, "0.6.6", asks)
    return place


def command(root: Path, folder: Path, versions: dict[str, str]) -> list[str]:
    return [*environments.build_command(root, versions), "--wheels", str(folder)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A data folder with both FlashInfers, built at the same time."""
    place = tmp_path_factory.mktemp("home")
    both = [subprocess.Popen(command(place / "envs", folder, versions)) for versions in (OLD, NEW)]
    assert [each.wait() for each in both] == [0, 0]
    return place


def says(environment: Path, expression: str, imports: str) -> str:
    python = environments.python_of(environment)
    told = subprocess.run(
        [str(python), "-c", f"import {imports}; print({expression})"],
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.strip()


def test_two_versions_share_torch_and_each_sees_its_own_library(home: Path):
    root = home / "envs"
    base, old, new = (environments.location(root, versions) for versions in (BASE, OLD, NEW))
    assert {base, old, new} <= set(environments.built(root))
    assert not list(root.glob("*.building"))
    assert [says(each, "flashinfer.__version__", "flashinfer") for each in (old, new)] == ["0.5.3", "0.6.3"]
    assert says(old, "torch.__file__", "torch") == says(base, "torch.__file__", "torch")
    sizes = {item.path: item.bytes for item in Inventory(home).environments()}
    assert sizes[base] > BALLAST
    assert max(sizes[old], sizes[new]) < BALLAST / 2


def test_equal_files_of_two_upper_layers_lie_on_disk_once(home: Path, folder: Path):
    """FlashInfer's extras are larger than it is, and the same beside many of its versions."""
    third = {**BASE, "flashinfer": "0.6.6"}
    assert subprocess.run(command(home / "envs", folder, third), check=False).returncode == 0
    large = [
        environments.location(home / "envs", versions) / "lib" / SITE / "dsl_libs.bin"
        for versions in (OLD, NEW, third)
    ]
    assert large[2].stat().st_nlink >= 2 and large[2].read_bytes() == b"x" * LARGE
    assert large[2].stat().st_ino in {each.stat().st_ino for each in large[:2]}
    sizes = {item.path: item.bytes for item in Inventory(home).environments()}
    on_disk = {
        (status.st_dev, status.st_ino): status.st_blocks * 512
        for path in (home / "envs").rglob("*")
        if path.is_file() and not path.is_symlink() and (status := path.stat())
    }
    assert abs(sum(sizes.values()) - sum(on_disk.values())) < 64 * 1024
    assert environments.remove(environments.location(home / "envs", third))
    for left in large[:2]:  # what the one that went had shared is still there
        assert left.read_bytes() == b"x" * LARGE


def test_what_must_differ_from_the_base_lies_in_the_upper_layer_alone(home: Path):
    base, old, new = (environments.location(home / "envs", versions) for versions in (BASE, OLD, NEW))
    seen = [says(each, "thing.version", "thing") for each in (base, old, new)]
    assert seen == ["2.0", "2.0", "1.0"]
    assert says(new, "shared.__file__", "shared").startswith(str(base))


def test_the_lock_names_all_that_is_there_and_where_it_came_from(home: Path, folder: Path):
    lock = lockfile.read(environments.location(home / "envs", NEW))
    assert lock is not None
    assert lock["recipe"] == NEW
    assert lock["base"] == environments.location(home / "envs", BASE).name
    listed = {each["name"]: each for each in lock["packages"]}
    assert {name: (each["version"], each["layer"]) for name, each in listed.items()} == {
        "cupti-python": ("13.0.1", "base"),
        "flashinfer-python": ("0.6.3", "own"),
        "nvidia-cutlass-dsl": ("4.8.1", "own"),
        "nvidia-thing": ("1.0", "own"),
        "shared": ("1.0", "base"),
        "torch": ("2.13.0", "base"),
    }
    for each in lock["packages"]:
        assert each["from"] == "a folder of wheels"
        assert (folder / each["wheel"]).exists()
        assert len(each["sha256"]) == 64
    assert lock["notes"] == ["flashinfer 0.6.3 asks for nvidia-cutlass-dsl>=4.2.1 and got 4.8.1"]


def test_a_library_that_calls_itself_otherwise_is_no_environment(home: Path, folder: Path):
    recipe = {**BASE, "flashinfer": "0.6.4"}
    done = subprocess.run(command(home / "envs", folder, recipe), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "flashinfer 0.6.4 was asked for, and what was installed calls itself 0.6.3" in done.stderr
    assert not list((home / "envs").glob(f"{environments.location(home, recipe).name}*"))


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Iterator[Path]:
    """Environments of the same shape to be removed: an interpreter, a name, a base."""
    root = tmp_path / "envs"
    for versions in (BASE, OLD, NEW):
        there = environments.location(root, versions)
        (there / "bin").mkdir(parents=True)
        environments.python_of(there).symlink_to(sys.executable)
        if versions is not BASE:
            (there / environments.BASE).write_text(environments.location(root, BASE).name)
        for path in (there / environments.USED, there):
            path.touch()
            os.utime(path, (time.time() - 9000, time.time() - 9000))
    yield root
    assert not list(root.glob("*.removed"))


def test_a_base_stays_until_the_last_environment_that_lies_on_it_is_gone(copied: Path):
    base, old, new = (environments.location(copied, versions) for versions in (BASE, OLD, NEW))
    assert not environments.remove(base)
    with environments.in_use(new):
        assert environments.remove(old)
        assert not environments.remove(new)
        assert not environments.remove(base)
    assert environments.remove(new)
    assert environments.remove(base)
    assert environments.built(copied) == []


def test_collection_takes_the_upper_layers_first_and_a_base_with_the_last_of_them(copied: Path):
    home = copied.parent
    base, old, new = (environments.location(copied, versions) for versions in (BASE, OLD, NEW))
    os.utime(new / environments.USED, (time.time() - 5000, time.time() - 5000))
    items = Inventory(home).environments()
    order = [item.path for item in collect.choose(items, 10**12, time.time())]
    assert order == [old, new, base]
    with environments.in_use(new):
        kept = collect.choose(Inventory(home).environments(), 10**12, time.time())
    assert [item.path for item in kept] == [old], "a base in use by another is as young as that one"
    assert [item.path for item in collect.collect(Inventory(home), 0)] == [old]


def test_an_environment_without_its_base_is_not_ready(copied: Path):
    base, old = (environments.location(copied, versions) for versions in (BASE, OLD))
    environments.python_of(base).unlink()
    assert environments.built(copied) == []
    with pytest.raises(FileNotFoundError), environments.in_use(old):
        pass


def test_a_build_that_is_killed_half_way_leaves_nothing_that_counts(folder: Path, home: Path):
    root, recipe = home / "envs", {**BASE, "flashinfer": "0.6.5"}
    before = environments.built(root)
    upper = environments.location(root, recipe)
    aside = upper.with_name(f"{upper.name}.building")
    killed = subprocess.Popen(command(root, folder, recipe), start_new_session=True)
    while not (aside / environments.BASE).exists():
        assert killed.poll() is None
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert environments.built(root) == before
    assert aside.exists()
    done = subprocess.run(command(root, folder, recipe), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert upper in environments.built(root)
    assert not aside.exists()


def test_a_folder_that_is_being_built_is_no_leftover_however_long_it_takes(tmp_path: Path):
    aside = tmp_path / "envs" / f"{'a' * 16}.building"
    aside.mkdir(parents=True)
    (aside / "file").write_text("x" * 10_000)
    for path in (aside / "file", aside):
        os.utime(path, (1, 1))
    lock = environments.build_lock(aside)
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert collect.collect(Inventory(tmp_path), 0) == []
    assert [item.kind for item in collect.collect(Inventory(tmp_path), 0)] == [disk.Kind.LEFTOVER]
    assert not aside.exists()


def test_a_lock_that_cannot_be_read_is_none(tmp_path: Path):
    assert lockfile.read(tmp_path) is None
    (tmp_path / lockfile.NAME).write_text("[")
    assert lockfile.read(tmp_path) is None
    (tmp_path / lockfile.NAME).write_text(json.dumps({"notes": []}))
    assert lockfile.read(tmp_path) == {"notes": []}
