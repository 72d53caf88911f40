"""What can go wrong before anything compiles: each ends in one sentence, status 1, and a clean cache."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiles_bench.conftest import DATA, macro, unit, wheel_files, write_wheel

REPOSITORY = Path(__file__).parents[2]
UNITS = {"one.generated.cu": unit(macro((128, 128, 128)))}
# pip looks nowhere but into a folder that a test names
OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
}


class Bench:
    def __init__(self, folder: Path) -> None:
        self.cache, self.out, self.progress = folder / "cache", folder / "out.json", folder / "progress.jsonl"

    def fails(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        before: Callable[[], None] | None = None,
        **options: str,
    ) -> tuple[str, str]:
        """(code, sentence) of the failure, which the command line and the progress file agree on."""
        merged = {
            "flashinfer": "0.6.3", "arch": "sm120", "cache": str(self.cache), "out": str(self.out),
            "progress": str(self.progress), **options,
        }  # fmt: skip
        command = [sys.executable, "-m", "workers.bench", "tiles", *arguments]
        for name, value in merged.items():
            command += [f"--{name}", value]
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **OFFLINE, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            preexec_fn=before,
        )
        assert done.returncode == 1, done.stderr
        said = [line for line in done.stderr.splitlines() if not re.match(r"\S+Z \d+/100 ", line)]
        error = json.loads(self.progress.read_text().splitlines()[-1])["error"]
        assert said == [f"error: {error['message']}"]
        assert not self.out.exists()
        if (self.cache / "scratch").is_dir():
            assert list((self.cache / "scratch").iterdir()) == []
            assert list((self.cache / "sources").iterdir()) == [] or "PATH" in (env or {})
        return error["code"], error["message"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("arch", ["sm999", "sm80", "", "sm120; rm", "SM-120"])
def test_unknown_arch(bench: Bench, arch: str) -> None:
    code, sentence = bench.fails(arch=arch)
    assert code == "unknown_arch"
    assert "sm120, sm121" in sentence


def test_bad_version(bench: Bench) -> None:
    assert bench.fails(flashinfer="latest")[0] == "bad_version"


def test_unknown_version_names_the_nearest(bench: Bench, make_wheel: Callable[..., Path]) -> None:
    for version in ("0.6.1", "0.6.2", "0.7.0"):
        folder = make_wheel(UNITS, version=version).parent
    code, sentence = bench.fails(env={"PIP_FIND_LINKS": str(folder)})
    assert code == "unknown_version"
    assert sentence == "flashinfer-python 0.6.3 does not exist; nearest: 0.6.1, 0.6.2, 0.7.0."


def test_a_version_with_sources_only(bench: Bench, make_wheel: Callable[..., Path]) -> None:
    folder = make_wheel(UNITS, version="0.6.4").parent
    (folder / "flashinfer_python-0.6.3.tar.gz").write_bytes(b"never opened")
    code, sentence = bench.fails(env={"PIP_FIND_LINKS": str(folder)})
    assert code == "no_wheel"
    assert "0.6.3 has no wheel" in sentence and "0.6.4" in sentence


def test_no_network(bench: Bench) -> None:
    code, sentence = bench.fails(env={"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:1/simple"})
    assert code == "no_network"
    assert "Is there a network?" in sentence


def test_a_python_without_pip(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "shadow" / "pip").mkdir(parents=True)  # a pip that cannot be run
    (tmp_path / "shadow" / "pip" / "__init__.py").write_text("")
    (tmp_path / "shadow" / "pip" / "__main__.py").write_text("raise SystemExit('No module named pip')")
    code, _ = bench.fails(env={"PYTHONPATH": str(tmp_path / "shadow")})
    assert code == "no_pip"


def test_missing_gxx_names_the_package(bench: Bench, make_wheel: Callable[..., Path], tmp_path: Path) -> None:
    code, sentence = bench.fails(wheel=str(make_wheel(UNITS)), env={"PATH": str(tmp_path)})
    assert code == "no_compiler"
    assert "apt-get install -y g++" in sentence


def test_no_nvcc_and_no_network(bench: Bench, make_wheel: Callable[..., Path], tmp_path: Path) -> None:
    gxx = shutil.which("g++")
    if gxx is None:
        pytest.skip("no g++ on this machine")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(gxx)
    env = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": "", "PIP_NO_INDEX": "0"}
    code, sentence = bench.fails(
        wheel=str(make_wheel(UNITS)), env=env | {"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}
    )
    assert code == "no_network"
    assert "nvidia-cuda-nvcc==13.0.88" in sentence


@pytest.mark.parametrize("content", [b"", b"<html>502</html>", b"PK\x03\x04" + bytes(100)])
def test_a_file_that_is_no_wheel(bench: Bench, tmp_path: Path, content: bytes) -> None:
    wheel = tmp_path / "flashinfer_python-0.6.3-py3-none-any.whl"
    wheel.write_bytes(content)
    assert bench.fails(wheel=str(wheel))[0] == "broken_wheel"


def test_a_wheel_cut_short(bench: Bench, make_wheel: Callable[..., Path]) -> None:
    wheel = make_wheel(UNITS)
    wheel.write_bytes(wheel.read_bytes()[:-200])
    assert bench.fails(wheel=str(wheel))[0] == "broken_wheel"


def test_a_wheel_that_is_not_there(bench: Bench, tmp_path: Path) -> None:
    assert bench.fails(wheel=str(tmp_path / "none.whl"))[0] == "no_file"


@pytest.mark.parametrize("missing", ["moe_gemm_tma_ws_launcher.inl", "generate_kernels.py", "version.h"])
def test_a_wheel_without_the_sources(bench: Bench, make_wheel: Callable[..., Path], missing: str) -> None:
    code, sentence = bench.fails(wheel=str(make_wheel(UNITS, without=(missing,))))
    assert code == "wheel_lacks_sources"
    assert missing in sentence


def test_a_wheel_of_another_version_or_project(bench: Bench, tmp_path: Path) -> None:
    files = wheel_files(UNITS, "0.6.4")
    wheel = write_wheel(tmp_path / "a.whl", files)
    assert "is 0.6.4, not 0.6.3" in bench.fails(wheel=str(wheel))[1]
    metadata = next(name for name in files if name.endswith("METADATA"))
    wheel = write_wheel(tmp_path / "b.whl", files | {metadata: b"Name: numpy\nVersion: 0.6.3\n\n"})
    assert "not a wheel of flashinfer-python" in bench.fails(wheel=str(wheel))[1]


def test_disk_quota_while_unpacking(bench: Bench, tmp_path: Path) -> None:
    files = wheel_files(UNITS) | {f"{DATA}/include/large.h": bytes(3_000_000)}
    wheel = write_wheel(tmp_path / "large.whl", files)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    code, sentence = bench.fails(wheel=str(wheel), before=limit)
    assert code == "disk_full"
    assert "Nothing more can be written" in sentence and "File too large" in sentence


def test_a_small_disk_is_noticed_beforehand(
    bench: Bench, make_wheel: Callable[..., Path], tmp_path: Path
) -> None:
    bench.cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=90m", "tmpfs", str(bench.cache)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a tmpfs")
    try:
        code, sentence = bench.fails(wheel=str(make_wheel(UNITS)))
    finally:
        subprocess.run(["umount", str(bench.cache)], check=True)
    assert code == "disk_full"
    assert "94 MB are free" in sentence


def test_a_cache_that_is_a_file(bench: Bench, make_wheel: Callable[..., Path]) -> None:
    bench.cache.write_text("")
    assert bench.fails(wheel=str(make_wheel(UNITS)))[0] == "bad_cache"


def test_where_to_write_is_checked_first(bench: Bench, tmp_path: Path) -> None:
    bench.out = tmp_path / "none" / "out.json"
    assert bench.fails()[0] == "not_writable"


def test_usage_errors_end_with_status_2() -> None:
    for arguments in ([], ["fly"], ["tiles"], ["tiles", "--jobs", "0"]):
        command = [sys.executable, "-m", "workers.bench", *arguments]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "usage:" in done.stderr


def test_the_survey_imports_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import workers.bench.cli, workers.bench.tiles.cli; "
        "print(*{m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["workers"]
