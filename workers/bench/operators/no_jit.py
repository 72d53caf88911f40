"""FlashInfer without its compiler and its downloads: what is there loads, and nothing is made or fetched.

A build takes minutes on every core, and a download that finds no network half a minute. In a measuring
child they would pass for the case's time, or disturb the measurement beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from workers.bench.operators.asking import module_of
from workers.bench.operators.base import UnsupportedError


class BuildNeededError(Exception):
    """A module or a prebuilt kernel that a call needs was not brought here ahead: outcome `build_failed`."""


def flashinfer(torch: Any, part: str = "flashinfer") -> Any | None:
    """FlashInfer or a part of it, kept from compiling; None where it is not installed or has no GPU."""
    library = module_of(part) if torch.cuda.is_available() else None
    if library is not None:
        forbid()
    return library


def forbid() -> None:
    """From here on modules load from FlashInfer's prebuilt folder or its cache; no ninja, no request."""
    core = module_of("flashinfer.jit.core")
    if core is None:
        raise UnsupportedError(
            "This FlashInfer has no flashinfer.jit.core: it cannot be kept from compiling."
        )
    for kind in vars(core).values():
        # JitSpec up to 0.6.17, JitSpecNvcc after it; specs of other compilers have no ninja.
        if isinstance(kind, type) and hasattr(kind, "jit_library_path"):
            kind.build_and_load = _load  # type: ignore[attr-defined]
            kind.build = _refuse  # type: ignore[attr-defined]
    loader = module_of("flashinfer.jit.cubin_loader")
    if loader is not None:
        loader.download_file = _refuse_download


def _load(spec: Any) -> Any:
    """The module as it lies there. FlashInfer's own way runs ninja over a cached one, to see if it is fresh:
    that needs a compiler and rewrites what other processes are using."""
    library = Path(spec.get_library_path())
    if not library.exists():
        _refuse(spec)
    return spec.load(library)


def _refuse(spec: Any, *_: Any, **__: Any) -> NoReturn:
    raise BuildNeededError(f"FlashInfer's module {spec.name} was not built ahead.")


def _refuse_download(source: str, *_: Any, **__: Any) -> NoReturn:
    raise BuildNeededError(f"FlashInfer's file {Path(source).name} was not fetched ahead.")
