"""What the turns of one side brought."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from workers.bench.confirm.turn import Key, Side, Turn, Value


@dataclasses.dataclass(slots=True)
class Taken:
    """What a side's turns brought, in the order of the pairs."""

    side: Side
    turns: list[Turn] = dataclasses.field(default_factory=list)
    target: dict[str, Any] | None = None
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    costs: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        self.target = self.target or turn.target
        self.stack |= turn.stack
        if not self.costs:  # in place: the next A/B of this side knows them too
            self.costs.update(turn.costs)

    def values(self, key: Key, pairs: int) -> list[Value]:
        return [_value(turn, key) for turn in self.turns[:pairs]]


def _value(turn: Turn, key: Key) -> Value:
    """What a turn says of a key; of one that it does not know, why."""
    if key in turn.values:
        return turn.values[key]
    if turn.failure:
        return Value(None, f"crashed: {turn.failure}")
    of_case = [value for other, value in turn.values.items() if other.case == key.case]
    said = next((value.outcome for value in of_case if value.value is None), "")
    return Value(None, said or "unsupported: nothing here computes it by this backend")


def clocks(values: Sequence[Value]) -> tuple[float | None, ...]:
    told = tuple(value.clock_mhz for value in values)
    return told if any(told) else ()


def outcome(values: Sequence[Value]) -> str:
    """ "ok", or what became of those processes that brought no value."""
    bad = [value.outcome for value in values if value.value is None]
    if not bad:
        return "ok" if values else "not started"
    most = max(dict.fromkeys(bad), key=bad.count)
    return most if len(bad) == len(values) else f"{len(bad)} of {len(values)} processes: {most}"
