"""Which changes are one thing for a person to look at. Pure.

| what moved together | is one alert of |
|---|---|
| with one stack change, on any series and GPUs of one model | the stack change, worse and better apart |
| without a stack change, on one host within overlapping times | the machine, whatever moved which way |
| build cost (CPU seconds, bytes) with one stack change | the stack change, of kind build |

A reference case depends on neither of FlashInfer's versions. Where one moves with a stack change that touches
nothing it is computed by, the machine moved: so did then whatever on that GPU moved the same way and not much
further, and all of it is the machine's.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from benchapp.alerts.cost import cost
from benchapp.alerts.kinds.reference import BASE
from benchapp.alerts.models import Alert
from benchapp.alerts.suspects import Differs

#: A reference that moved at least so much of what others moved explains them.
EXPLAINS = 0.5
#: Changes of one machine within so long of each other, or within their own spacing if that is less, are one.
SLACK = dt.timedelta(days=3)


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """A change with all that decides what it belongs to; `differs` is empty where no version changed."""

    change_id: int
    alert_id: int | None
    series_id: int
    label: str
    backend: str
    metric: str
    target_id: int
    target_kind: str
    model: str
    host_id: int | None
    host: str
    at: dt.datetime
    before_at: dt.datetime
    stack_before_id: int
    stack_after_id: int
    differs: tuple[Differs, ...]
    before: float
    after: float
    ratio: float
    low: float
    high: float
    confidence: float
    certain: bool
    worse: bool
    n_before: int
    n_after: int
    weight: float
    reference: bool
    recorded: bool

    @property
    def cost(self) -> float:
        """What it costs as if it were worse: its place among those of its alert."""
        return cost(self.ratio, self.weight, self.confidence, worse=True)

    @property
    def window(self) -> Window:
        """Between which moments the machine must have moved, a little widened: the first point of a new level
        is found to within a few."""
        start, end = sorted((self.before_at, self.at))
        slack = min(SLACK, end - start)
        return Window(start - slack, end + slack)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    start: dt.datetime
    end: dt.datetime

    def meets(self, other: Window) -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Changes of one alert, the strongest first. `window` is the machine's."""

    key: str
    kind: Alert.Kind
    moves: tuple[Moved, ...]
    window: Window | None = None
    #: a stack changed at the same time, and reference cases tell that it was the machine
    with_upgrade: bool = False

    @property
    def worse(self) -> bool:
        """Whether what got worse outweighs what got better."""
        return sum(m.cost if m.worse else -m.cost for m in self.moves) > 0


@dataclasses.dataclass(frozen=True, slots=True)
class OpenMachine:
    """An open alert of a machine, which later changes of the same time join."""

    key: str
    place: str
    window: Window


def place_of(move: Moved) -> str:
    """What a machine alert is about: the host, or the target that has none."""
    return f"host:{move.host_id}" if move.host_id is not None else f"target:{move.target_id}"


def stack_key(move: Moved) -> str:
    """The same for all changes of one stack change, kind of target and direction."""
    told = "|".join(f"{each.component}={each.before}>{each.after}" for each in move.differs)
    kind = "stack" if move.metric == "time" else "build"
    direction = "worse" if move.worse else "better"
    digest = hashlib.sha256(f"{told}|{move.model}".encode()).hexdigest()[:16]
    return f"{kind}:{digest}:{direction}"


def machine_key(place: str, window: Window) -> str:
    return f"machine:{place}:{window.start:%Y-%m-%dT%H:%M:%S.%f}"


def sort_out(moves: Iterable[Moved], machines: Sequence[OpenMachine] = ()) -> list[Group]:
    """Every change in one group."""
    stacks: dict[str, list[Moved]] = defaultdict(list)
    machine: list[tuple[Moved, bool]] = []
    for move in moves:
        if move.differs:
            stacks[stack_key(move)].append(move)
        else:
            machine.append((move, False))
    groups = []
    for key, listed in stacks.items():
        rest, by_machine = _apart(listed)
        machine += [(move, True) for move in by_machine]
        if rest:
            kind = Alert.Kind.STACK if rest[0].metric == "time" else Alert.Kind.BUILD
            groups.append(Group(key, kind, _strongest_first(rest)))
    return groups + _machines(machine, machines)


def joined(group: Group, others: Iterable[Moved]) -> Group:
    """The group with more changes of its alert."""
    return dataclasses.replace(group, moves=_strongest_first([*group.moves, *others]))


def _apart(listed: Sequence[Moved]) -> tuple[list[Moved], list[Moved]]:
    """(the stack change's, the machine's) of changes with one key."""
    if any(each.component in BASE for each in listed[0].differs):
        return list(listed), []
    on: dict[int, list[Moved]] = defaultdict(list)
    for move in listed:
        on[move.target_id].append(move)
    rest: list[Moved] = []
    machine: list[Moved] = []
    for here in on.values():
        references = [_size(move) for move in here if move.reference]
        most = median(references) / EXPLAINS if references else 0.0
        for move in here:
            (machine if move.reference or _size(move) <= most else rest).append(move)
    return rest, machine


def _size(move: Moved) -> float:
    return abs(math.log(move.ratio))


def _machines(moves: Sequence[tuple[Moved, bool]], machines: Sequence[OpenMachine]) -> list[Group]:
    """Changes of machines by place and time. The strongest change of a new group sets its window, so that
    it stays where it is when more series join."""
    known = list(machines)
    held: dict[str, list[tuple[Moved, bool]]] = defaultdict(list)
    for move, with_upgrade in sorted(moves, key=lambda one: (-one[0].cost, one[0].change_id)):
        place = place_of(move)
        found = next((m for m in known if m.place == place and m.window.meets(move.window)), None)
        if found is None:
            found = OpenMachine(machine_key(place, move.window), place, move.window)
            known.append(found)
        held[found.key].append((move, with_upgrade))
    windows = {each.key: each.window for each in known}
    return [
        Group(
            key,
            Alert.Kind.MACHINE,
            _strongest_first(move for move, _ in listed),
            windows[key],
            any(with_upgrade for _, with_upgrade in listed),
        )
        for key, listed in held.items()
    ]


def _strongest_first(moves: Iterable[Moved]) -> tuple[Moved, ...]:
    return tuple(sorted(moves, key=lambda move: (-move.cost, move.change_id)))
