"""The sources of one FlashInfer version: its wheel, fetched, checked and unpacked into the cache."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError
from workers.bench.tiles import archive, pip, versions
from workers.bench.tiles.cache import Cache

DATA = "flashinfer/data"
GENERATOR = "flashinfer/jit/gemm/cutlass/generate_kernels.py"
MODULES = "flashinfer/jit/fused_moe.py"
KERNELS = f"{DATA}/csrc/nv_internal/tensorrt_llm/kernels/cutlass_kernels"
#: what the heuristic and the dispatch link to, as they are included
COMMON = tuple(f"cpp/common/{name}.cpp" for name in ("stringUtils", "tllmException", "logger"))
_LAUNCHER = f"{KERNELS}/moe_gemm/launchers/moe_gemm_tma_ws_launcher.inl"
_CUTLASS_VERSION = f"{DATA}/cutlass/include/cutlass/version.h"
_NEEDED = (GENERATOR, MODULES, _LAUNCHER, _CUTLASS_VERSION)

#: include folders of the wheel, as FlashInfer's own build orders them
INCLUDES = (
    f"{DATA}/csrc/nv_internal",
    f"{DATA}/csrc/nv_internal/include",
    f"{DATA}/csrc/nv_internal/tensorrt_llm/cutlass_extensions/include",
    f"{KERNELS}/include",
    KERNELS,
    f"{DATA}/include",
    f"{DATA}/csrc",
    f"{DATA}/cutlass/include",
    f"{DATA}/cutlass/tools/util/include",
    f"{DATA}/spdlog/include",
)
_HEADERS = (".h", ".hpp", ".cuh", ".inl", ".inc")
_HOST_CODE = {f"{KERNELS}/cutlass_heuristic.cpp", *(f"{DATA}/csrc/nv_internal/{name}" for name in COMMON)}
#: the function that writes the units of mm_fp4, and its templates
_MM_FP4 = re.compile(rf"flashinfer/jit/gemm/core\.py|{DATA}/csrc/fp4_gemm_cutlass\w*\.jinja")
_BINDING = re.compile(rf"{DATA}/csrc/fused_moe/cutlass_backend/\w+_binding\.cu")
#: raised whenever other files are unpacked; what an earlier one left in a cache is unpacked again
_LAYOUT = 3
# The largest wheel seen is 101 MB and unpacks to 45 MB of headers.
_FREE_BYTES = 400_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """`digest` names the content of all unpacked files; sizes are bytes, `wheel_unpacked_bytes` of the whole
    wheel, `unpacked_bytes` of what the survey takes from it."""

    root: Path
    version: str
    cutlass: str
    digest: str
    wheel_bytes: int
    wheel_unpacked_bytes: int
    unpacked_bytes: int


def obtain(
    cache: Cache, version: str, wheel: Path | None, scratch: Path, before_download: Callable[[], None]
) -> Sources:
    """From the file `wheel` if given, else from the cache, else from pip. `version` is canonical."""
    with cache.lock(f"sources-{version}"):
        if wheel is not None:
            return _from_wheel(cache, version, wheel, scratch)
        record = cache.root / "versions" / f"{version}.json"
        known = cache.read_json(record)
        if isinstance(known, str) and re.fullmatch(r"[0-9a-f]{64}", known):
            sources = _from_cache(cache, version, known)
            if sources is not None:
                return sources
        if "+candidate." in version:
            raise BenchError(
                "no_file", f"flashinfer {version} is a candidate, on no index: expected its file (--wheel)."
            )
        cache.need_free(_FREE_BYTES, f"the wheel of flashinfer {version}")
        before_download()
        folder = scratch / "wheel"
        folder.mkdir()
        downloaded = pip.download([f"flashinfer-python=={version}"], folder, scratch)
        if len(downloaded) != 1:
            raise BenchError(
                "download_failed", f"pip said that it has flashinfer {version}, but left no wheel."
            )
        sources = _from_wheel(cache, version, downloaded[0], scratch)
        cache.write_json(record, sources.root.name)
        shutil.rmtree(folder)
        return sources


def _from_cache(cache: Cache, version: str, sha256: str) -> Sources | None:
    root = cache.root / "sources" / sha256
    about: Any = cache.read_json(root / "source.json")
    if not isinstance(about, dict) or about.get("version") != version or about.pop("layout", 1) != _LAYOUT:
        return None
    return Sources(root, **about)


def _from_wheel(cache: Cache, version: str, wheel: Path, scratch: Path) -> Sources:
    if not wheel.is_file():
        raise BenchError("no_file", f"There is no file {wheel}.")
    with wheel.open("rb") as handle:
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
    cached = _from_cache(cache, version, sha256)
    if cached is not None:
        return cached
    cache.need_free(_FREE_BYTES // 2, f"unpacking flashinfer {version}")
    aside = scratch / "unpacked"
    digests = archive.unpack(wheel, aside, wanted)
    _check_version(check(aside, wheel.name, version), version, sha256, wheel.name)
    about = {
        "layout": _LAYOUT,
        "version": version,
        "cutlass": _cutlass_version(aside),
        "digest": hashlib.sha256(
            "\n".join(f"{n} {d}" for n, d in sorted(digests.items())).encode()
        ).hexdigest(),
        "wheel_bytes": wheel.stat().st_size,
        "wheel_unpacked_bytes": _unpacked_bytes(wheel),
        "unpacked_bytes": sum((aside / name).stat().st_size for name in digests),
    }
    cache.write_json(aside / "source.json", about)
    place = cache.root / "sources" / sha256
    if place.is_dir() and _from_cache(cache, version, sha256) is None:
        shutil.rmtree(place)  # of another layout, or its description was damaged from outside
    cache.publish(aside, place)
    sources = _from_cache(cache, version, sha256)
    if sources is None:
        raise BenchError("bad_cache", f"{place} was changed while the survey put it there.")
    return sources


def _unpacked_bytes(wheel: Path) -> int:
    """Of all members of a wheel that was found whole, by its directory."""
    with zipfile.ZipFile(wheel) as members:
        return sum(member.file_size for member in members.infolist())


def wanted(name: str) -> bool:
    """Whether a survey reads this file of a wheel."""
    if name.startswith("flashinfer/jit/gemm/cutlass/"):
        return name.endswith(".py")
    if (
        name == MODULES
        or name in _HOST_CODE
        or _BINDING.fullmatch(name)
        or _MM_FP4.fullmatch(name)
        or re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
    ):
        return True
    return name.startswith(tuple(f"{folder}/" for folder in INCLUDES)) and name.endswith(_HEADERS)


def check(root: Path, name: str, version: str) -> str:
    """Whether what was unpacked of the wheel `name` can be surveyed; returns the version it says it is."""
    metadata = next(root.glob("*.dist-info/METADATA"), None)
    header = metadata.read_text(encoding="utf-8", errors="replace").split("\n\n")[0] if metadata else ""
    fields = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    if fields.get("Name", "").lower().replace("_", "-") != "flashinfer-python":
        raise BenchError("broken_wheel", f"{name} is not a wheel of flashinfer-python.")
    for needed in _NEEDED:
        if not (root / needed).is_file():
            raise BenchError(
                "wheel_lacks_sources",
                f"The wheel of flashinfer {version} lacks {needed}, so there is nothing to survey; "
                f"versions from 0.5 on carry it.",
            )
    return fields.get("Version", "of no known version")


def candidate_label(sha256: str) -> str:
    """The local part of the version of a candidate, a wheel that is no release, by its content."""
    digits = sha256[:12]
    # PEP 440 takes digits alone for a number
    return f"candidate.{int(digits) if digits.isdecimal() else digits}"


def _check_version(said: str, version: str, sha256: str, name: str) -> None:
    local = version.partition("+")[2]
    if local.startswith("candidate."):
        if local != candidate_label(sha256):
            raise BenchError(
                "broken_wheel", f"{name} is {candidate_label(sha256)} by its content, not {local}."
            )
    elif versions.normalised_or_none(said) != version:
        raise BenchError("broken_wheel", f"{name} is {said[:50]}, not {version}.")


def _cutlass_version(root: Path) -> str:
    text = (root / _CUTLASS_VERSION).read_text(encoding="utf-8", errors="replace")
    numbers = [
        re.search(rf"^#define CUTLASS_{part} (\d+)", text, re.MULTILINE)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(match[1] if match else "?" for match in numbers)
