"""Reading a library's offers and refusals: small modules written here as FlashInfer writes its own."""

import importlib
import sys
from pathlib import Path

import pytest

from workers.bench.operators import no_jit, stack
from workers.bench.operators.asking import backends_of, in_its_words, module_of, refuses, takes
from workers.bench.operators.base import UnsupportedError
from workers.bench.operators.no_jit import BuildNeededError

GEMM = """
import functools, inspect
from typing import Literal

def backend_requirement(backend_checks):
    def decorator(function):
        def is_backend_supported(backend, cc=None):
            return backend in backend_checks
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if not is_backend_supported(kwargs.get("backend")):
                raise BackendSupportedError("mm_fp4 does not support backend 'cutlass' with capability 90")
            return function(*args, **kwargs)
        wrapper.is_backend_supported = is_backend_supported
        return wrapper
    return decorator

class BackendSupportedError(Exception):
    pass

@backend_requirement({"cutlass": None, "b12x": None})
def mm_fp4(a, b, out=None, backend: Literal["cudnn", "cutlass", "auto"] = "auto"):
    return out

def mm_fp8(a, b, backend: Literal["trtllm_low_latency"] = "trtllm_low_latency"):
    return a

def blockscale(a, b):
    return a

def by_text(a: "Unknown", backend: "Literal['trtllm', 'cute-dsl', 'auto']" = "auto"):
    return a

def anything(a, backend: str = "auto"):
    return a
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes an importable package and forgets it afterwards."""
    before = set(sys.modules)

    def write(name: str, files: dict[str, str]) -> Path:
        for path, text in files.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for folder in {file.parent for file in (tmp_path / name).rglob("*.py")} | {tmp_path / name}:
            (folder / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return tmp_path / name

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_backends_are_those_of_the_signature_and_of_the_checks_but_auto(package):
    package("lib_gemm", {"gemm.py": GEMM})
    gemm = module_of("lib_gemm.gemm")
    assert backends_of(gemm.mm_fp4) == ("cudnn", "cutlass", "b12x")
    assert backends_of(gemm.mm_fp8) == ("trtllm_low_latency",)
    assert backends_of(gemm.by_text) == ("trtllm", "cute-dsl")
    assert backends_of(gemm.blockscale) == backends_of(gemm.anything) == ()
    assert takes(gemm.mm_fp4, "out") and not takes(gemm.mm_fp8, "out")


def test_a_library_that_is_not_there_is_none_and_a_broken_one_says_what_it_lacks(package):
    assert module_of("no_such_library.gemm") is None
    package("lib_broken", {"gemm.py": "import no_such_dependency\n"})
    assert module_of("lib_broken.no_such_part") is None
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        module_of("lib_broken.gemm")


class cudnnGraphNotSupportedError(Exception):  # noqa: N801 - as cuDNN's Python module names it
    pass


@pytest.mark.parametrize(
    "error",
    [
        cudnnGraphNotSupportedError("No valid execution plans"),
        RuntimeError("CuTe DSL is not available. Please install nvidia-cutlass-dsl."),
        RuntimeError("No supported CUDA architectures found for major versions [10]."),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmulAlgoGetHeuristic`"),
        ValueError("TGV GEMM requires SM100, SM103 architecture"),
        NotImplementedError("fp8_block"),
        AssertionError("No suitable runners found"),
        ModuleNotFoundError("No module named 'cuda.tile'"),
    ],
)  # fmt: skip
def test_a_refusal_is_unsupported_in_the_librarys_own_words(error):
    assert refuses(error)
    with pytest.raises(UnsupportedError) as told, in_its_words():
        raise error
    assert str(told.value) == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA out of memory. This process requires more."),
        RuntimeError("bmm_fp8_internal_cublaslt failed: an internal operation failed"),
        BuildNeededError("FlashInfer's module gemm was not built ahead."),
        AttributeError("module 'cudnn' has no attribute 'create_handle'"),
    ],
)  # fmt: skip
def test_a_failure_is_no_refusal(error):
    with pytest.raises(type(error)), in_its_words():
        raise error


JIT = '''
from pathlib import Path

BUILT = []

class JitSpec:
    def __init__(self, name, folder):
        self.name, self.folder = name, Path(folder)

    @property
    def jit_library_path(self):
        return self.folder / self.name / f"{self.name}.so"

    def get_library_path(self):
        return self.jit_library_path

    def build(self, verbose, need_lock=True):
        BUILT.append(self.name)

    def load(self, so_path):
        return f"loaded {so_path.name}"

    def build_and_load(self):
        self.build(False, need_lock=False)
        return self.load(self.jit_library_path)
'''  # fmt: skip
LOADER = """
def download_file(source, local_path, session=None):
    raise AssertionError("asked the network")
"""


def test_a_module_loads_where_it_was_built_and_is_never_built(package, tmp_path):
    package("flashinfer", {"jit/core.py": JIT, "jit/cubin_loader.py": LOADER})
    no_jit.forbid()
    core = importlib.import_module("flashinfer.jit.core")
    spec = core.JitSpec("gemm", tmp_path / "cache")
    with pytest.raises(BuildNeededError, match="FlashInfer's module gemm was not built ahead"):
        spec.build_and_load()
    with pytest.raises(BuildNeededError):
        spec.build(True)
    spec.jit_library_path.parent.mkdir(parents=True)
    spec.jit_library_path.touch()
    assert spec.build_and_load() == "loaded gemm.so"
    assert core.BUILT == []
    loader = importlib.import_module("flashinfer.jit.cubin_loader")
    with pytest.raises(BuildNeededError, match="was not fetched ahead"):
        loader.download_file("https://host/folder/checksums.txt", "/tmp/checksums.txt")


def test_the_version_of_bundled_cutlass_is_read_from_its_header(package):
    header = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n"
    folder = package("lib_headers", {"data/cutlass/include/cutlass/version.h": header})
    assert stack.bundled_cutlass("lib_headers") == "4.2.1"
    (folder / "data/cutlass/include/cutlass/version.h").write_text("#define CUTLASS_MAJOR 4\n")
    assert stack.bundled_cutlass("lib_headers") is None
    assert stack.bundled_cutlass("no_such_library") is None


def test_versions_are_those_installed_and_those_loaded():
    assert stack.installed(("no-such-distribution", "pytest")) == pytest.__version__
    assert stack.installed(("no-such-distribution",)) is None
    assert stack.loaded_cublas("7f00-7f01 r-xp 00000000 00:00 0 /usr/lib/libc.so.6\n") is None
    assert stack.loaded_cublas("7f00-7f01 r-xp 00000000 00:00 0 /no/such/libcublas.so.13\n") is None
