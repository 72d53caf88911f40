"""Ceilings: what the device itself does at best, measured beside the kernels that are held against it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from workers.bench.cases.base import Fields, Named, Value, Work
from workers.bench.document import GPU_TIMERS

MAX_BYTES = 2**40


@dataclasses.dataclass(frozen=True, slots=True)
class Copy(Named):
    """A copy of `bytes` bytes within the device's memory."""

    kind: ClassVar[str] = "copy"
    sweep: ClassVar[str] = "bytes"
    bytes: int

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        return (fields.extent("bytes", MAX_BYTES),)

    @property
    def work(self) -> Work:
        return Work(0.0, float(self.bytes), float(self.bytes), None)


@dataclasses.dataclass(frozen=True, slots=True)
class EmptyKernel(Named):
    """A kernel that does nothing, by one timer: the least that any kernel takes by it."""

    kind: ClassVar[str] = "empty_kernel"
    sweep: ClassVar[str] = "timer"
    timer: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        return (fields.one_of("timer", GPU_TIMERS),)

    @property
    def work(self) -> Work:
        return Work(0.0, 0.0, 0.0, None)
