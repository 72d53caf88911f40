"""What backends of FlashInfer's share: tuning, refusals, and layouts of block scales."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from workers.bench.experts.quantised import Packed
from workers.bench.operators import formats
from workers.bench.operators.asking import module_of
from workers.bench.operators.base import UnsupportedError


class Tuning:
    """FlashInfer's autotuner over the first call outside a graph; it keeps what it found in the process, by
    shapes. Where nothing shall be tuned it forgets what others found, which would be taken here too."""

    def __init__(self, torch: Any, tuned: bool) -> None:
        self._torch = torch
        tuner = module_of("flashinfer.autotuner")
        self._tuner = tuner if tuned else None
        if not tuned and tuner is not None:
            tuner.AutoTuner.get().clear_cache()

    @contextlib.contextmanager
    def once(self) -> Iterator[None]:
        """Raises UnsupportedError where none of the tactics could be run: the library then takes its first,
        and only its log tells."""
        if self._tuner is None or self._torch.cuda.is_current_stream_capturing():
            yield
            return
        tuner, self._tuner = self._tuner, None
        with tuner.autotune(True):
            yield
        if not tuner.AutoTuner.get().profiling_cache:
            raise UnsupportedError("FlashInfer's autotuner could run none of the tactics.")


def needs(met: bool, words: str) -> None:
    if not met:
        raise UnsupportedError(words)


def only(torch: Any, made: Any) -> Any:
    """The output of a call that returns it, or a list that begins with it."""
    return made if torch.is_tensor(made) else made[0]


def swizzled(torch: Any, held: Packed) -> Any:
    """Block scales of each expert in the tensor cores' layout: bytes [E, ⌈N/128⌉·128, ⌈C/4⌉·4]."""
    return torch.stack([formats.swizzle(torch, scales.view(torch.uint8)) for scales in held.blocks])
