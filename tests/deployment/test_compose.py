"""docker-compose.yml: read by Compose itself where there is one, and true to what the repository holds."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE = REPOSITORY / "docker-compose.yml"
GPU_HOST = REPOSITORY / "docker" / "gpu-host.yml"
SECRETS = {
    "TILEWATCH_ALLOWED_HOSTS": "bench.example.org",
    "TILEWATCH_SECRET_KEY": "a",
    "POSTGRES_PASSWORD": "b",
    "TILEWATCH_DB_PASSWORD": "c",
    "REDIS_PASSWORD": "d",
}


ROLE = "postgres://gpu:e@postgres:5432/tilewatch"


def compose_program() -> list[str] | None:
    """Compose needs no engine to check a file."""
    for program in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(program[0]):
            asked = subprocess.run([*program, "version"], capture_output=True, check=False)
            if asked.returncode == 0:
                return program
    return None


def config(folder: Path, file: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    program = compose_program()
    if program is None:
        pytest.skip("neither `docker compose` nor `docker-compose` is installed")
    # A .env of the person who runs the tests must not decide.
    empty = folder / "env"
    empty.touch()
    return subprocess.run(
        [*program, "--env-file", str(empty), "-f", str(file), "--profile", "gpu", "config"],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def services(folder: Path, file: Path, **variables: str) -> dict[str, str]:
    """What Compose makes of each service, every variable filled in, in its own YAML."""
    read = config(folder, file, **variables)
    assert read.returncode == 0, read.stderr
    (block,) = re.findall(r"^services:\n((?:(?: .*)?\n)+)", read.stdout, re.MULTILINE)
    _, *parts = re.split(r"^  ([\w-]+):\n", block, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def words(service: str, *keys: str) -> list[str]:
    """All words below one key of a service, without signs of YAML."""
    for depth, key in enumerate(keys):
        indent = "    " + "  " * depth
        found = re.search(rf"^{indent}{key}:(.*(?:\n(?:{indent} |{indent}- ).*)*)", service, re.MULTILINE)
        if found is None:
            return []
        service = found[1]
    return re.findall(r"[^\s\"']+", service.replace("\n" + " " * 4, " "))


def test_compose_accepts_the_file(tmp_path):
    read = config(tmp_path, COMPOSE, **SECRETS)
    assert read.returncode == 0, read.stderr


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The services of a team that serves two GPUs beside the control plane."""
    chosen = {"TILEWATCH_GPU_DATABASE_URL": ROLE, "TILEWATCH_GPUS": "0,1"}
    return services(tmp_path_factory.mktemp("compose"), COMPOSE, **SECRETS, **chosen)


def test_a_gpu_host_runs_pinned_workers_that_know_no_secret_of_the_web_server(found):
    for name in ("worker", "gpu"):
        assert " ".join(words(found[name], "command")).startswith(
            "- python - -m - workers - up - --stop-after"
        )
    assert "--gpus=0,1" in words(found["gpu"], "command")
    assert {"nvidia", "gpu"} <= {*words(found["gpu"], "deploy", "resources", "reservations", "devices")}
    environment = words(found["gpu"], "environment")
    assert ROLE in environment
    assert "TILEWATCH_DB_PASSWORD" not in environment
    assert SECRETS["TILEWATCH_SECRET_KEY"] not in environment
    assert not any(f"tilewatch:{SECRETS['TILEWATCH_DB_PASSWORD']}@" in word for word in environment)
    assert words(found["gpu"], "pid") == ["host"], "else nobody sees who else is on a GPU"


def test_workers_of_one_host_share_its_leases_and_nothing_else(found):
    worker, gpu = (" ".join(words(found[name], "volumes")) for name in ("worker", "gpu"))
    for mounted, home in ((worker, "home"), (gpu, "home-gpu")):
        assert re.search(r"\bleases\b.*/run/lock/tilewatch", mounted)
        assert re.search(rf"(^|[ :]){home}(:| .*)/var/lib/tilewatch", mounted)
    assert not any(words(found[name], "healthcheck") for name in ("worker", "gpu")), "beside a measurement"


def test_the_release_watch_reaches_the_package_index(found):
    networks = " ".join(words(found["control"], "networks"))
    assert {"data", "outside"} <= {*re.findall(r"\w+", networks)}


def test_a_host_of_its_own_needs_its_name_and_two_addresses(tmp_path):
    needed = {
        "TILEWATCH_HOST_NAME": "gpubox-1",
        "DATABASE_URL": "postgres://gpubox-1:a@db.example.org:5432/tilewatch?sslmode=verify-full",
        "REDIS_URL": "rediss://:b@db.example.org:6379/0",
    }
    host = services(tmp_path, GPU_HOST, **needed, TILEWATCH_LABELS="rack=b4")
    assert list(host) == ["gpu"]
    assert {*needed.values()} <= {*words(host["gpu"], "environment")}
    assert words(host["gpu"], "command")[-3:] == ["--gpus=all", "-", "--labels=rack=b4"]
    assert words(host["gpu"], "ports") == []
    assert set(re.findall(r"\$\{(\w+):\?", GPU_HOST.read_text())) == set(needed)


def test_compose_asks_for_what_is_missing(tmp_path):
    read = config(tmp_path, COMPOSE)
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
