"""The survey's folder on disk: what is in it is whole, whoever else works in it at the same time.

sources/SHA256/       unpacked wheels           toolchains/KEY/  nvcc from packages
versions/VERSION.json which wheel a version is  contents/        digests of a release's preprocessed units
verdicts/             what the compiler said of a unit
bodies/               what it made of one kernel's body
tactics/              what a version's own code says of its tactics
explored/             what the compiler said of one explored configuration
locks/, scratch/      nothing of value
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError

# What a survey writes for a while: nvcc's temporary files are some 15 MB a compilation.
WORK_BYTES = 100_000_000
_KINDS = ("contents", "verdicts", "bodies", "tactics", "explored")
_FOLDERS = ("sources", "toolchains", "versions", *_KINDS, "locks", "scratch")


class Cache:
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        try:
            for name in _FOLDERS:
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise BenchError(
                "bad_cache", f"The cache folder {root} cannot be used: {error.strerror}."
            ) from error

    def need_free(self, size: int, what: str) -> None:
        """BenchError unless `size` bytes are free.

        Also asked after a child failed without a reason: on a full disk even its complaint may be lost.
        """
        free = shutil.disk_usage(self.root).free
        if free < size:
            raise BenchError(
                "disk_full",
                f"The disk of {self.root} is full: {what} needs about {size / 1e6:,.0f} MB, "
                f"{free / 1e6:,.0f} MB are free.",
            )

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """One survey at a time does what `name` stands for; the kernel frees it when the holder dies."""
        with (self.root / "locks" / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder of this process's own, removed in the end. Sweeps those of dead processes first."""
        for other in (self.root / "scratch").iterdir():
            _remove_if_dead(other)
        folder = Path(tempfile.mkdtemp(dir=self.root / "scratch"))
        with (folder / "starting").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            (folder / "starting").rename(folder / "alive")  # only ever seen locked
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def place(self, kind: str, key: str) -> Path:
        """Where the JSON of a key stands."""
        return self.root / kind / key[:2] / f"{key}.json"

    def publish(self, folder: Path, place: Path) -> None:
        """Rename a finished folder to its place; where one stands already, that one stays."""
        try:
            folder.rename(place)
        except OSError:
            if not place.is_dir():
                raise
            shutil.rmtree(folder)

    def read_json(self, path: Path) -> Any | None:
        """None where nothing readable stands; a damaged entry counts as absent."""
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write_json(self, path: Path, value: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=self.root / "scratch", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(value, out)
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise


def _remove_if_dead(entry: Path) -> None:
    try:
        with (entry / "alive").open("r+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry, ignore_errors=True)
    except OSError:
        return  # alive, gone already, or a file that is being renamed into place
