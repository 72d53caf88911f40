"""What one release has compiled serves another one, as long as the compiler is given the same text."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiles_bench.conftest import DATA, macro, unit, wheel_files, write_wheel
from workers.bench.tiles import arches, instantiations, sources, toolchain, verdicts
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.verdicts import UnitVerdict

GOOD, BAD = (128, 128, 128), (128, 48, 128)
UNITS = {
    "one.generated.cu": unit(macro(GOOD), macro(BAD)),
    "two.generated.cu": unit(macro((128, 256, 128), fusion="FINALIZE")),
}
LAUNCHER_FILE = next(name for name in wheel_files(UNITS) if name.endswith("launcher.inl"))
TENSOR = f"{DATA}/cutlass/include/cute/tensor.hpp"
#: this folder stands before CUTLASS's on the include path
SHADOW = f"{DATA}/csrc/nv_internal/include/cute/tensor.hpp"
Survey = Callable[..., dict[str, UnitVerdict]]


@pytest.fixture
def survey(cache_folder: Path, tmp_path: Path) -> Survey:
    """survey(version, changed files) -> verdicts of the units, through one cache"""
    cache = Cache(cache_folder)
    arch = arches.find("sm120")

    def run(version: str, changes: dict[str, bytes] | None = None, units: dict[str, str] = UNITS):
        wheel = write_wheel(tmp_path / f"{version}.whl", {**wheel_files(UNITS, version), **(changes or {})})
        parsed = [instantiations.parse(name, text, "Sm120") for name, text in units.items()]
        with cache.scratch() as scratch:
            tree = sources.obtain(cache, version, wheel, scratch, lambda: None)
            tools = toolchain.obtain(cache, arch, scratch, os.environ, lambda: None)
            frontend = Frontend(tools, tree, arch, ("-DMINI",))
            return verdicts.find(frontend, parsed, cache, scratch, 2, lambda done, message: None)

    return run


def cached(found: dict[str, UnitVerdict]) -> list[bool]:
    return [found[name].cached for name in UNITS]


def values(found: dict[str, UnitVerdict]) -> list[object]:
    return [(found[name].kernels, found[name].errors) for name in UNITS]


def test_what_is_the_same_for_the_compiler_is_compiled_once(survey: Survey) -> None:
    first = survey("0.6.3")
    assert cached(first) == [False, False]
    launcher = wheel_files(UNITS)[LAUNCHER_FILE]
    unread = {
        LAUNCHER_FILE: b"// A longer comment.\n\n" + launcher,
        f"{DATA}/include/unread.h": b"#error never read\n",
    }
    second = survey("0.6.4", unread)
    assert cached(second) == [True, True]
    assert values(second) == values(first)
    assert second["one.generated.cu"].log.startswith(
        "# compiled for flashinfer 0.6.3; 0.6.4 gives the compiler the same text\n$ nvcc "
    )
    assert not first["one.generated.cu"].log.startswith("#")


def test_only_the_unit_that_differs_is_compiled(survey: Survey) -> None:
    survey("0.6.3")
    other = {**UNITS, "two.generated.cu": unit(macro((256, 128, 128)))}
    assert cached(survey("0.6.4", units=other)) == [True, False]


def test_a_header_that_changes_is_seen(survey: Survey) -> None:
    before = survey("0.6.3")
    launcher = wheel_files(UNITS)[LAUNCHER_FILE]
    after = survey("0.6.4", {LAUNCHER_FILE: launcher.replace(b"8192 : 4096", b"8192 : 2048")})
    assert cached(after) == [False, False]
    old, new = before["one.generated.cu"].kernels[0], after["one.generated.cu"].kernels[0]
    assert old is not None and new is not None
    assert new.need_bytes == old.need_bytes - 2048


def test_a_header_that_newly_hides_another_is_seen(survey: Survey) -> None:
    survey("0.6.3")
    hiding = wheel_files(UNITS)[TENSOR] + b"namespace hiding { struct Another {}; }\n"
    assert cached(survey("0.6.4", {SHADOW: hiding})) == [False, False]


def test_damage_in_the_cache_is_compiled_anew(survey: Survey, cache_folder: Path) -> None:
    first = survey("0.6.3")
    for kind, text in (("contents", '{"one.generated.cu": {"around": 1}}'), ("verdicts", '{"kernels": [')):
        for entry in (cache_folder / kind).rglob("*.json"):
            entry.write_text(text)
        again = survey("0.6.3")
        assert values(again) == values(first)
        assert cached(again) == [kind == "contents"] * 2


def test_units_that_do_not_pass_the_preprocessor_are_no_match_for_others(survey: Survey) -> None:
    broken = {**UNITS, "two.generated.cu": '#include "missing.h"\n' + UNITS["two.generated.cu"]}
    first = survey("0.6.3", units=broken)
    assert first["one.generated.cu"].kernels[0] is not None
    assert "missing.h" in first["two.generated.cu"].log
    assert cached(survey("0.6.4", units=broken)) == [False, False]
