import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.bench.document import BenchError
from workers.bench.tiles.cache import Cache


def test_damaged_entries_count_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    place = tmp_path / "verdicts" / "ab" / "x.json"
    assert cache.read_json(place) is None
    cache.write_json(place, [1])
    assert cache.read_json(place) == [1]
    place.write_text('{"half')
    assert cache.read_json(place) is None
    assert list((tmp_path / "scratch").iterdir()) == []


def test_publishing_keeps_the_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    place = tmp_path / "sources" / "s"
    for content in ("first", "second"):
        aside = tmp_path / content
        aside.mkdir()
        (aside / "file").write_text(content)
        cache.publish(aside, place)
        assert not aside.exists()
    assert (place / "file").read_text() == "first"


def test_scratch_of_the_dead_is_swept_and_of_the_living_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    script = (
        "import os; from pathlib import Path; from workers.bench.tiles.cache import Cache\n"
        f"with Cache(Path({str(tmp_path)!r})).scratch(): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    (dead,) = (tmp_path / "scratch").iterdir()
    with cache.scratch() as mine, cache.scratch() as other:
        assert not dead.exists()
        assert mine.is_dir() and other.is_dir()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    script = (
        "import time; from pathlib import Path; from workers.bench.tiles.cache import Cache\n"
        f"with Cache(Path({str(tmp_path)!r})).lock('x'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    holder.kill()
    started = time.monotonic()
    with cache.lock("x"):
        assert time.monotonic() - started < 10
    holder.wait()
    holder.stdout.close()


def test_too_little_space_is_said(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"disk of .* is full: the wheel needs about 1,000,000,000,000 MB"):
        Cache(tmp_path).need_free(10**18, "the wheel")


def test_a_file_is_no_cache_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot be used"):
        Cache(tmp_path / "file")
