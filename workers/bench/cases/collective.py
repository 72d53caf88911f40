"""What the GPUs of a gang exchange within a step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from workers.bench.cases.base import Fields, Named, Value, Work
from workers.bench.roofline import BYTES_PER_ELEMENT

MAX_RANKS = 64
DTYPES = ("bf16",)


@dataclasses.dataclass(frozen=True, slots=True)
class _Collective(Named):
    """Over `ranks` GPUs of one host, `tokens` rows of `hidden` elements on each."""

    tokens: int
    hidden: int
    ranks: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        tokens, hidden = fields.extent("tokens"), fields.extent("hidden")
        ranks = fields.extent("ranks", MAX_RANKS)
        if ranks < 2:
            raise fields.fault("ranks", f"a whole number from 2 to {MAX_RANKS}")
        return tokens, hidden, ranks, fields.one_of("dtype", DTYPES, DTYPES[0])

    @property
    def message_bytes(self) -> float:
        """Bytes of one rank's rows."""
        return self.tokens * self.hidden * BYTES_PER_ELEMENT[self.dtype]

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.ranks,)


@dataclasses.dataclass(frozen=True, slots=True)
class AllReduce(_Collective):
    """Every rank gets the sum of all ranks' rows."""

    kind: ClassVar[str] = "all_reduce"
    sweep: ClassVar[str] = "tokens"

    @property
    def work(self) -> Work:
        """Of one rank's memory: its rows read, the sum written. `busbw` in a page is 2 (n − 1) / n of the
        message over the time, as nccl-tests has it."""
        return Work(
            (self.ranks - 1) * self.message_bytes / BYTES_PER_ELEMENT[self.dtype],
            self.message_bytes,
            self.message_bytes,
            None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class AllToAll(_Collective):
    """Every rank sends an equal share of its rows to each."""

    kind: ClassVar[str] = "all_to_all"
    sweep: ClassVar[str] = "tokens"

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        # super() does not work in a dataclass with slots
        tokens, hidden, ranks, dtype = _Collective._values.__func__(cls, fields)  # type: ignore[attr-defined]
        if tokens % ranks:
            raise fields.fault("tokens", f"a multiple of ranks, {ranks}")
        return tokens, hidden, ranks, dtype

    @property
    def work(self) -> Work:
        return Work(0.0, self.message_bytes, self.message_bytes, None)
