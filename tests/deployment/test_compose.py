"""docker-compose.yml: read by Compose itself where there is one, and true to what the repository holds."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE = REPOSITORY / "docker-compose.yml"
SECRETS = {
    "TILEWATCH_ALLOWED_HOSTS": "bench.example.org",
    "TILEWATCH_SECRET_KEY": "a",
    "POSTGRES_PASSWORD": "b",
    "TILEWATCH_DB_PASSWORD": "c",
    "REDIS_PASSWORD": "d",
}


def compose_program() -> list[str] | None:
    """Compose needs no engine to check a file."""
    for program in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(program[0]):
            asked = subprocess.run([*program, "version"], capture_output=True, check=False)
            if asked.returncode == 0:
                return program
    return None


def config(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    program = compose_program()
    if program is None:
        pytest.skip("neither `docker compose` nor `docker-compose` is installed")
    # A .env of the person who runs the tests must not decide.
    empty = folder / "env"
    empty.touch()
    return subprocess.run(
        [*program, "--env-file", str(empty), "-f", str(COMPOSE), "--profile", "gpu", "config"],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_compose_accepts_the_file(tmp_path):
    read = config(tmp_path, **SECRETS)
    assert read.returncode == 0, read.stderr


def test_compose_asks_for_what_is_missing(tmp_path):
    read = config(tmp_path)
    assert read.returncode != 0
    assert "set it in .env" in read.stderr


@pytest.mark.parametrize("name", SECRETS)
def test_nothing_starts_without_a_secret(name):
    uses = re.findall(rf"(?<!\$)\${{{name}(.*?)}}", COMPOSE.read_text())
    assert uses
    assert set(uses) == {":?set it in .env"}


def test_only_web_is_reachable():
    assert re.findall(r"^    ports: (.*)$", COMPOSE.read_text(), re.MULTILINE) == [
        '["${TILEWATCH_BIND:-127.0.0.1:8000}:8000"]'
    ]


def test_the_example_names_every_variable_and_no_secret():
    example = dict(
        line.split("=", 1)
        for line in (REPOSITORY / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert set(example) == set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE.read_text()))
    assert not any(example[name] for name in SECRETS if name != "TILEWATCH_ALLOWED_HOSTS")


def test_the_image_takes_in_no_secret_and_nothing_unasked():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "everything is left out but what is named"
    copied = set(re.findall(r"^COPY (\S+)", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE))
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert all((REPOSITORY / name).exists() for name in copied)
