"""Ceilings: what the device itself does at best, measured beside the kernels that are held against it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from workers.bench.cases.base import Fields, Params, Value, Work

MAX_BYTES = 2**40


@dataclasses.dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `bytes` bytes within the device's memory."""

    kind: ClassVar[str] = "copy"
    sweep: ClassVar[str] = "bytes"
    bytes: int

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> Copy:
        fields = Fields(params, where)
        case = cls(fields.extent("bytes", MAX_BYTES))
        fields.end()
        return case

    @property
    def params(self) -> Params:
        return {"bytes": self.bytes}

    @property
    def work(self) -> Work:
        return Work(0.0, float(self.bytes), float(self.bytes), None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return ()

    def __str__(self) -> str:
        return f"copy:bytes={self.bytes}"


@dataclasses.dataclass(frozen=True, slots=True)
class EmptyKernel:
    """A kernel that does nothing, by one timer: the least that any kernel takes by it."""

    kind: ClassVar[str] = "empty_kernel"
    sweep: ClassVar[str] = "timer"
    timer: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> EmptyKernel:
        fields = Fields(params, where)
        case = cls(fields.one_of("timer", ("cupti", "cuda_graph", "cuda_events")))
        fields.end()
        return case

    @property
    def params(self) -> Params:
        return {"timer": self.timer}

    @property
    def work(self) -> Work:
        return Work(0.0, 0.0, 0.0, None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return ()

    def __str__(self) -> str:
        return f"empty_kernel:timer={self.timer}"
