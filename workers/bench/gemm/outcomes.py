"""What an exception of a case means: its outcome, and a sentence."""

from __future__ import annotations

from typing import Any

from workers.bench.document import Outcome
from workers.bench.gemm.sets import DoesNotFitError
from workers.bench.operators.asking import refuses
from workers.bench.operators.base import UnsupportedError
from workers.bench.operators.no_jit import BuildNeededError
from workers.bench.timers.base import CannotTimeError

#: of FlashInfer and torch, where a compiler was called for after all
_BUILD_WORDS = ("ninja build failed", "could not find nvcc", "jit compilation is disabled")
_MEMORY_WORDS = ("out of memory", "can't allocate memory", "std::bad_alloc")
#: first words of what comes from the device or its driver, and is no refusal
_DEVICE_WORDS = ("cuda error", "an illegal memory access", "device-side assert")


def outcome_of(torch: Any, error: BaseException) -> tuple[Outcome, str]:
    """The outcome of a case that raised `error`, and the error in one line of at most 500 characters."""
    text = " ".join(str(error).split())[:500] or f"{type(error).__name__}, without a word."
    lowered = text.lower()
    if isinstance(error, (UnsupportedError, CannotTimeError)):
        return "unsupported", text
    if isinstance(error, BuildNeededError) or any(words in lowered for words in _BUILD_WORDS):
        return "build_failed", text
    if isinstance(error, (DoesNotFitError, MemoryError, torch.OutOfMemoryError)) or any(
        words in lowered for words in _MEMORY_WORDS
    ):
        return "oom", text
    if any(words in lowered for words in _DEVICE_WORDS):
        return "launch_failed", text
    if "not implemented for" in lowered or refuses(error):
        return "unsupported", text
    return "launch_failed", text
