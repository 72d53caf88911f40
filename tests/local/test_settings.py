"""What settings make of a hostile environment: one sentence, or nothing lost."""

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchapp.local.child import LocalError
from benchapp.local.home import Home
from benchapp.settings.secret import lasting_secret

REPOSITORY = Path(__file__).resolve().parents[2]


def check(home: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    settings = {"DJANGO_SETTINGS_MODULE": "benchapp.settings.local", "TILEWATCH_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        env=kept | settings | variables,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("DATABASE_URL", "mysql://x", "DATABASE_URL: expected postgres://"),
        ("DATABASE_URL", "postgres://me:two words@host/name", "DATABASE_URL: expected postgres://"),
        ("DATABASE_URL", "postgres://me:word@host:port/name", "DATABASE_URL: expected postgres://"),
        ("TILEWATCH_HOME", "/dev/null", "TILEWATCH_HOME: /dev/null cannot be used"),
        ("TILEWATCH_HOME", "/etc/passwd/x", "TILEWATCH_HOME: /etc/passwd/x cannot be used"),
        ("TILEWATCH_HOME", "/proc/xx", "TILEWATCH_HOME: /proc/xx cannot be used"),
        ("TILEWATCH_PROXIES", "abc", "TILEWATCH_PROXIES: expected a whole number"),
    ],
)
def test_a_mistake_in_the_environment_is_one_sentence(tmp_path, variable, value, sentence):
    done = check(tmp_path, **{variable: value})
    assert done.returncode == 1
    assert done.stderr.startswith(f"Tilewatch cannot start: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("garbage", [b"{", b"[1]", b'{"database_url": 3}', b"\xff\xfe", b""])
def test_garbage_in_place_of_the_server_urls_reads_as_not_running(tmp_path, garbage):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "servers.json").write_bytes(garbage)
    assert check(tmp_path).returncode == 0


def test_an_empty_key_is_made_anew_and_then_kept(tmp_path):
    key = tmp_path / "secrets" / "django"
    key.parent.mkdir()
    key.touch()
    assert check(tmp_path).returncode == 0
    made = key.read_text()
    assert len(made) >= 50 and key.stat().st_mode & 0o077 == 0
    assert check(tmp_path).returncode == 0
    assert key.read_text() == made


@pytest.mark.parametrize("empty", [False, True])
def test_all_who_ask_at_once_get_the_same_secret(tmp_path, empty):
    path = tmp_path / "secrets" / "word"
    if empty:
        path.parent.mkdir()
        path.touch()
    with concurrent.futures.ProcessPoolExecutor(4) as pool:
        assert len(set(pool.map(lasting_secret, [path] * 40))) == 1


@pytest.mark.parametrize("damage", [b"\xff\xfe\x00", b"two words", b"a\x07b"])
def test_a_damaged_secret_is_named(tmp_path, damage):
    home = Home(tmp_path)
    home.make()
    (home.secrets / "valkey").write_bytes(damage)
    with pytest.raises(LocalError, match="secrets/valkey is damaged"):
        home.secret("valkey")
