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
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
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
    def upgraded(self) -> Moved:
        """The strongest that has the versions that differ; of a machine's group just the strongest."""
        return next((move for move in self.moves if move.differs), self.moves[0])

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
    return _explained(groups, _machines(machine, machines))


def _explained(groups: Sequence[Group], machines: Sequence[Group]) -> list[Group]:
    """All groups, without those changes of machines that an upgrade explains: a step is found to within a few
    points, and where at least as many moved with a version on that GPU at that time, and the same way, one
    found a night beside it did too. A reference case did only where the upgrade touches what it is computed
    by."""
    upgrades: dict[tuple[int, bool, str], list[tuple[int, list[Moved]]]] = defaultdict(list)
    for number, group in enumerate(groups):
        on: dict[tuple[int, bool, str], list[Moved]] = defaultdict(list)
        for move in group.moves:
            on[move.target_id, move.worse, move.metric].append(move)
        for where, moves in on.items():
            upgrades[where].append((number, moves))
    of_base = {number for number, group in enumerate(groups) if _touches_base(group.upgraded)}
    more: dict[int, list[Moved]] = defaultdict(list)
    rest = []
    for group in machines:
        counts = Counter((move.target_id, move.worse, move.metric) for move in group.moves)
        kept: list[Moved] = []
        for move in group.moves:
            where = (move.target_id, move.worse, move.metric)
            found = [
                number
                for number, moves in upgrades[where]
                if not group.with_upgrade
                and len(moves) >= counts[where]
                and moves[0].window.meets(move.window)
                and (not move.reference or number in of_base)
            ]
            (more[found[0]] if found else kept).append(move)
        if kept:
            rest.append(dataclasses.replace(group, moves=tuple(kept)))
    return [joined(group, more[number]) for number, group in enumerate(groups)] + rest


def joined(group: Group, others: Iterable[Moved]) -> Group:
    """The group with more changes of its alert."""
    return dataclasses.replace(group, moves=_strongest_first([*group.moves, *others]))


def _apart(listed: Sequence[Moved]) -> tuple[list[Moved], list[Moved]]:
    """(the stack change's, the machine's) of changes with one key."""
    if _touches_base(listed[0]):
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


def _touches_base(move: Moved) -> bool:
    return any(each.component in BASE for each in move.differs)


def _size(move: Moved) -> float:
    return abs(math.log(move.ratio))


def _machines(moves: Sequence[tuple[Moved, bool]], machines: Sequence[OpenMachine]) -> list[Group]:
    """Changes of machines by place and time: what meets the windows of `machines` first, of the rest always
    what meets the window that most meet."""
    groups = []
    by_place: dict[str, list[tuple[Moved, bool]]] = defaultdict(list)
    for one in sorted(moves, key=lambda one: (-one[0].cost, one[0].change_id)):
        by_place[place_of(one[0])].append(one)
    for place, left in by_place.items():
        known = [each for each in machines if each.place == place]
        while left:
            if known:
                each = known.pop(0)
            else:
                window = _densest([move.window for move, _ in left])
                each = OpenMachine(machine_key(place, window), place, window)
            held = [one for one in left if one[0].window.meets(each.window)]
            left = [one for one in left if not one[0].window.meets(each.window)]
            if held:
                with_upgrade = any(upgraded for _, upgraded in held)
                moved = _strongest_first(move for move, _ in held)
                groups.append(Group(each.key, Alert.Kind.MACHINE, moved, each.window, with_upgrade))
    return groups


def _densest(windows: Sequence[Window]) -> Window:
    """The one that most others meet, of several the first."""
    starts, ends = sorted(w.start for w in windows), sorted(w.end for w in windows)
    return max(windows, key=lambda w: bisect_right(starts, w.end) - bisect_left(ends, w.start))


def _strongest_first(moves: Iterable[Moved]) -> tuple[Moved, ...]:
    return tuple(sorted(moves, key=lambda move: (-move.cost, move.change_id)))
