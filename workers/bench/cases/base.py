"""What every case says of itself, and the checks of its fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from workers.bench.document import BenchError

MAX_EXTENT = 2**20
#: Parameters that are the same in every case of a kind and format: no part of a name.
CONSTANT = ("layout", "out")
Value = str | int | bool
Params = dict[str, Value]


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """The compulsory work of one call: each input read once, each output written once, scales counted.

    `flops` multiply at the tensor-core rate `rate` ("bf16", "fp8", "fp4" …); None where no peak is stated
    for them, so that bandwidth alone bounds the call.
    """

    flops: float
    read_bytes: float
    write_bytes: float
    rate: str | None

    @property
    def bytes(self) -> float:
        return self.read_bytes + self.write_bytes


class Case(Protocol):
    """One thing to measure, free of stack and hardware. Hashable; equal parameters are equal cases."""

    #: what it is called in documents and in the catalog
    kind: ClassVar[str]
    #: the parameter that a sweep varies (rows, tokens, sequences), the x of a batch chart
    sweep: ClassVar[str]

    @property
    def params(self) -> Params:
        """The canonical parameters: the same case always writes the same mapping."""

    @property
    def work(self) -> Work: ...

    @property
    def weight(self) -> tuple[Value, ...]:
        """Cases of one kind and weight share a child process: an M sweep over one weight."""


class Fields:
    """Reads the fields of one case. Raises BenchError that names the field and what was expected."""

    def __init__(self, params: Mapping[str, Any], where: str) -> None:
        self._params = dict(params)
        self._where = where

    def extent(self, name: str, most: int = MAX_EXTENT) -> int:
        value = self._params.pop(name, None)
        if type(value) is not int or not 1 <= value <= most:
            raise self.fault(name, f"a whole number from 1 to {most:,}")
        return value

    def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self._params.pop(name, default)
        if value not in choices:
            raise self.fault(name, f"one of {', '.join(choices)}")
        return str(value)

    def word(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        value = self._params.pop(name, None)
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise self.fault(name, expected)
        return value

    def end(self) -> None:
        """Call it last: what was not asked for is nobody's field."""
        if self._params:
            raise BenchError("bad_case", f"{self._where}: unknown field {str(min(self._params))[:40]!r}.")

    def fault(self, name: str, expected: str) -> BenchError:
        """What is wrong with a field, to be raised."""
        return BenchError("bad_case", f"{self._where}.{name}: expected {expected}.")


class Named:
    """What the kinds share whose fields are their parameters, in the order written. All are dataclasses."""

    __slots__ = ()
    kind: ClassVar[str]

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> Self:
        """The case of these parameters; `where` names them in the BenchError that a wrong one raises."""
        fields = Fields(params, where)
        case = cls(*cls._values(fields))
        fields.end()
        return case

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        """Every field of the kind, in its order. Raises BenchError."""
        raise NotImplementedError

    @property
    def params(self) -> Params:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    @property
    def weight(self) -> tuple[Value, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(f'{name}={value}' for name, value in self.params.items())}"


def shape_of(kind: str, params: Mapping[str, Any], sweep: str | None) -> str:
    """What a sweep holds still, in words: "4096x7168" of a GEMM, else "hidden=7168"; at most 120 characters.

    The format of the inputs and what is constant of a kind are no part of it.
    """
    if kind == "gemm":
        return f"{params.get('n')}x{params.get('k')}"
    rest = {name: value for name, value in params.items() if name not in (sweep, "dtype", *CONSTANT)}
    return ",".join(f"{name}={value}" for name, value in sorted(rest.items()))[:120]
