"""What makes room on a full disk, and what never does."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers import collect, disk, environments
from workers.disk import GB, Inventory, Item, Kind, measure

NOW = 1_000_000_000.0
OLD, OLDER = NOW - 5000, NOW - 9000
ENVIRONMENT, OTHER = "0123456789abcdef", "fedcba9876543210"


def item(name: str, size: int, used_at: float, kind: Kind = Kind.CACHE) -> Item:
    return Item(Path(name), kind, size, used_at)


@pytest.mark.parametrize(
    ("kept", "total", "free", "allowed", "excess"),
    [
        (5 * GB, 100 * GB, 50 * GB, None, 0),
        (5 * GB, 1000 * GB, 9 * GB, None, 1 * GB),
        (5 * GB, 50 * GB, 2 * GB, None, 3 * GB),
        (30 * GB, 1000 * GB, 500 * GB, 20 * GB, 10 * GB),
        (21 * GB, 1000 * GB, 2 * GB, 20 * GB, 8 * GB),
        (5 * GB, 1000 * GB, 500 * GB, 20 * GB, 0),
    ],
    ids=["enough", "below 10 GB", "below a tenth", "above the budget", "both", "within the budget"],
)
def test_how_much_is_too_much(kept, total, free, allowed, excess):
    assert collect.too_much(kept, total, free, allowed) == excess


def test_what_was_not_used_for_longest_goes_first_and_no_more_than_needed():
    items = [item("new", 10, OLD), item("old", 10, OLDER), item("oldest", 10, OLDER - 1)]
    assert [each.path.name for each in collect.choose(items, 15, NOW)] == ["oldest", "old"]
    assert collect.choose(items, 0, NOW) == []


def test_logs_and_leftovers_go_before_anything_of_use():
    items = [item("env", 10, OLDER, Kind.ENVIRONMENT), item("log.1", 1, OLD, Kind.LOG)]
    items.append(item("x.building", 1, OLD, Kind.LEFTOVER))
    assert [each.path.name for each in collect.choose(items, 3, NOW)] == ["log.1", "x.building", "env"]


def test_what_was_used_within_the_hour_stays_however_full_the_disk_is():
    items = [item("a", 10, NOW - 3599), item("b", 10, NOW), item("c", 10, NOW + 500)]
    assert collect.choose(items, 10**12, NOW) == []


@pytest.mark.parametrize("text", ["ten", "0", "-5", "nan", "inf", "1e9"])
def test_a_budget_that_is_none_is_named(monkeypatch, text):
    monkeypatch.setenv("TILEWATCH_DISK_BUDGET_GB", text)
    with pytest.raises(ValueError, match="TILEWATCH_DISK_BUDGET_GB: expected a number of GB"):
        disk.budget()


def fill(path: Path, size: int, age_s: float = 7200) -> Path:
    """A file of so many bytes that was last touched so long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    then = time.time() - age_s
    os.utime(path, (then, then))
    os.utime(path.parent, (then, then))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder with one of everything, all of it old, some 100 kB each."""
    fill(tmp_path / "envs" / ENVIRONMENT / "lib.so", 100_000)
    fill(tmp_path / "envs" / ENVIRONMENT / "bin" / "python", 1)
    fill(tmp_path / "envs" / ENVIRONMENT / environments.USED, 0, age_s=8000)
    fill(tmp_path / "envs" / f"{OTHER}.building" / "lib.so", 100_000)
    fill(tmp_path / "cache" / "sources" / "abc" / "kernel.cu", 100_000)
    fill(tmp_path / "cache" / "locks" / "sources-0.6.3.lock", 0)
    fill(tmp_path / "log" / "gpu0.log", 100_000)
    fill(tmp_path / "log" / "gpu0.log.1", 100_000)
    fill(tmp_path / "spool" / "12-1.undelivered", 100_000)
    fill(tmp_path / "spool" / "13-1.json", 100_000)
    (tmp_path / "run").mkdir()
    return tmp_path


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} - {"run/collect.lock"}


KEPT = {"cache/locks/sources-0.6.3.lock", "log/gpu0.log", "spool/12-1.undelivered", "spool/13-1.json"}


def test_all_that_can_be_made_again_is_removed_and_told(home, caplog):
    with caplog.at_level(logging.INFO):
        removed = collect.collect(Inventory(home), 1)
    assert files(home) == KEPT
    assert {each.kind for each in removed} == set(Kind)
    assert f"removed the environment {ENVIRONMENT}: 0.00 GB" in caplog.text
    assert "freed in 4 places" in caplog.text


def test_with_room_enough_nothing_is_removed(home):
    before = files(home)
    assert collect.collect(Inventory(home), 50 * GB) == []
    assert files(home) == before


def test_an_environment_that_a_run_uses_stays(home, caplog):
    with (home / "envs" / ENVIRONMENT / environments.USED).open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        removed = collect.collect(Inventory(home), 1)
    assert Kind.ENVIRONMENT not in {each.kind for each in removed}
    assert f"envs/{ENVIRONMENT}/lib.so" in files(home)
    assert "the rest is in use" in caplog.text


def test_a_cache_that_a_bench_works_in_stays(home):
    bench = [sys.executable, "-c", "input()", "--cache", str(home / "cache")]
    with subprocess.Popen(bench, stdin=subprocess.PIPE) as running:
        collect.collect(Inventory(home), 1)
        assert running.stdin is not None
        running.stdin.close()
    assert "cache/sources/abc/kernel.cu" in files(home)


def test_only_one_collects_at_a_time(home):
    with (home / "run" / "collect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert collect.collect(Inventory(home), 1) == []


def test_an_inventory_sees_sizes_on_disk(home):
    inventory = Inventory(home)
    (environment,) = inventory.environments()
    assert environment.bytes >= 100_000
    assert abs(time.time() - environment.used_at - 8000) < 100
    sizes = inventory.sizes()
    assert sizes["envs_bytes"] >= 200_000
    assert sizes["log_bytes"] >= 200_000
    assert sizes["spool_files"] == 1
    assert sizes["total_bytes"] > sizes["free_bytes"] > 0
    assert Inventory(home / "nothing-here").items() == []
    assert measure(home / "nothing-here") == (0, 0.0)


def test_an_environment_that_was_built_again_is_measured_again(home):
    inventory = Inventory(home)
    (before,) = inventory.environments()
    old = home / "envs" / ENVIRONMENT
    old.rename(home / "aside")
    fill(old / "lib.so", 500_000)
    (after,) = inventory.environments()
    assert after.bytes > before.bytes
