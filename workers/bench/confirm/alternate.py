"""An A/B: both sides in turn, A B B A A B …, each turn a fresh process, until every case is decided.

The order keeps a drift of the machine from becoming one side's. At each look the cases that are decided are
left out from then on; a budget, a number of pairs or a request to stop ends it with what is known.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.confirm.benches import AnyBench
from workers.bench.confirm.cycles import Decision, decide
from workers.bench.confirm.judge import Verdict
from workers.bench.confirm.taken import Taken, clocks, outcome
from workers.bench.confirm.turn import Key, Side, Turn, take
from workers.bench.document import BenchError, Comparison
from workers.bench.stopping import StoppedError

#: turns of a side that bring no value at all, after which its cases are given up
HOPELESS = 2
#: of the longest pair so far, that a budget must have left for one more
_WORTH = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    margin: float = 0.01
    pairs_max: int = 27
    #: of time.monotonic(): past it nothing is started
    ends: float | None = None
    #: whether undecided host time may keep a case open for one more look
    host: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    comparisons: tuple[Comparison, ...]
    target: dict[str, Any]
    old_stack: dict[str, str]
    new_stack: dict[str, str]
    turns: int
    #: sentences
    notes: tuple[str, ...]
    #: it was asked to stop, or its budget was spent
    cut_short: bool = False


#: hears of each turn: how many are done, and in a few words of what
Said = Callable[[int, str], None]


def alternate(
    old: Side,
    new: Side,
    bench: AnyBench,
    cases: Sequence[Case],
    limits: Limits,
    said: Said,
    known: dict[Side, dict[str, float]] | None = None,
) -> Result:
    """Compare two sides by `cases`. Raises BenchError where a side brings no document at all, and where it
    is stopped before either side has brought one. `known` keeps the costs of each side's first document from
    one A/B to the next: the timers' overheads among them are calibrated once."""
    found = _AB(old, new, bench, cases, limits, said, {} if known is None else known)
    return found.run()


class _AB:
    def __init__(
        self,
        old: Side,
        new: Side,
        bench: AnyBench,
        cases: Sequence[Case],
        limits: Limits,
        said: Said,
        known: dict[Side, dict[str, float]],
    ) -> None:
        self._old, self._new = (Taken(side, costs=known.setdefault(side, {})) for side in (old, new))
        self._bench, self._limits, self._said = bench, limits, said
        self._open = list(cases)
        #: pairs that a case was measured in, once it is closed
        self._pairs: dict[Case, int] = {}
        self._decided: dict[Key, Decision] = {}
        self._longest_s = 0.0
        self._note = ""

    def run(self) -> Result:
        try:
            self._measure()
        except StoppedError:
            self._note = "The A/B was asked to stop before all of it was decided."
        return self._result()

    def _measure(self) -> None:
        looks = [look for look in self._bench.looks if look < self._limits.pairs_max]
        looks.append(min(self._limits.pairs_max, self._bench.looks[-1]))
        pairs = 0
        for look in looks:
            while pairs < look and self._open:
                if not self._affordable():
                    self._note = "The budget was spent before all of it was decided."
                    return
                self._pair(pairs)
                pairs += 1
                if pairs == HOPELESS:
                    self._give_up()
            if not self._open:
                return
            self._look(pairs)

    def _affordable(self) -> bool:
        left = self._left()
        return left > 0 and left >= _WORTH * self._longest_s

    def _left(self) -> float:
        return float("inf") if self._limits.ends is None else self._limits.ends - time.monotonic()

    def _pair(self, number: int) -> None:
        """One turn of each side, the old one first in even pairs."""
        began = time.monotonic()
        sides = (self._old, self._new) if number % 2 == 0 else (self._new, self._old)
        brought = [(taken, self._turn(taken)) for taken in sides]
        for taken, turn in brought:  # both or none, so that pairs stay pairs
            taken.add(turn)
        self._longest_s = max(self._longest_s, time.monotonic() - began)

    def _turn(self, taken: Taken) -> Turn:
        count = len(self._old.turns) + len(self._new.turns)
        self._said(count, f"{taken.side.name}: turn {len(taken.turns) + 1}, {len(self._open)} cases")
        folder = Path(tempfile.mkdtemp(prefix="turn-"))
        try:
            turn = take(taken.side, self._bench, self._open, folder, taken.costs, max(1.0, self._left()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if turn.failure:
            self._said(count, f"{taken.side.name}: {turn.failure}")
        return turn

    def _give_up(self) -> None:
        """Raise BenchError of a side that brought no document; close cases of which a side has no value."""
        for taken in (self._old, self._new):
            if taken.target is None:
                raise BenchError(
                    "side_failed", f"{taken.side.name} cannot be measured: {taken.turns[-1].failure}."
                )
        for case in list(self._open):
            keys = self._keys(case)
            if not any(self._has_both(key) for key in keys):
                self._close(case)

    def _has_both(self, key: Key) -> bool:
        return all(
            any(value.value is not None for value in taken.values(key, HOPELESS))
            for taken in (self._old, self._new)
        )

    def _look(self, pairs: int) -> None:
        """Decide what can be decided of the open cases, and close those that need no more."""
        for case in list(self._open):
            keys = self._keys(case)
            before = {key for key in keys if self._is_settled(key)}
            for key in keys:
                decision = self._decide(key, pairs)
                if key not in self._decided and decision.verdict.word != "AMBG":
                    self._decided[key] = decision
            main = {key for key in keys if key.metric != "host_time"}
            settled = {key for key in keys if self._is_settled(key)}
            # host time alone keeps a case open for one more look and no longer
            if settled >= set(keys) or (settled if not self._limits.host else before) >= main:
                self._close(case)

    def _is_settled(self, key: Key) -> bool:
        return key in self._decided or not self._has_both(key)

    def _close(self, case: Case) -> None:
        self._open.remove(case)
        self._pairs[case] = len(self._old.turns)

    def _decide(self, key: Key, pairs: int) -> Decision:
        old, new = self._old.values(key, pairs), self._new.values(key, pairs)
        hows = {value.how for value in (*old, *new) if value.value is not None}
        if len(hows) > 1:
            told = " and ".join(sorted(f"{timer}, L2 {l2}" for timer, l2 in hows))
            return Decision(Verdict("AMBG", None, None, None, 0, f"timed in different ways: {told}"))
        time_like = key.metric == "time"
        return decide(
            [value.value for value in old],
            [value.value for value in new],
            [value.clock_mhz if time_like else None for value in old],
            [value.clock_mhz if time_like else None for value in new],
            margin=self._limits.margin,
            resolution=self._bench.resolution if time_like else 0.0,
            looks=self._bench.looks,
        )

    def _keys(self, case: Case) -> list[Key]:
        """What there is of a case on either side, in order; what no backend took only where none did."""
        keys = [key for taken in (self._old, self._new) for turn in taken.turns for key in turn.values]
        found = list(dict.fromkeys(key for key in keys if key.case == case))
        named = [key for key in found if key.backend is not None]
        return named or found

    def _result(self) -> Result:
        target = self._new.target or self._old.target
        if target is None or not self._old.stack or not self._new.stack:
            raise BenchError("stopped", "The A/B ended before both sides had been measured once.")
        for case in list(self._open):
            self._close(case)
        comparisons = [self._comparison(key) for case in self._pairs for key in self._keys(case)]
        return Result(
            tuple(comparisons),
            target,
            self._old.stack,
            self._new.stack,
            len(self._old.turns) + len(self._new.turns),
            tuple(self._notes()),
            bool(self._note),
        )

    def _comparison(self, key: Key) -> Comparison:
        pairs = self._pairs[key.case]
        decision = self._decided.get(key) or self._decide(key, pairs)
        verdict = decision.verdict
        old, new = self._old.values(key, pairs), self._new.values(key, pairs)
        why = verdict.why
        if verdict.word == "AMBG" and self._note:
            why = f"{why}; {self._note[0].lower()}{self._note[1:].rstrip('.')}" if why else self._note
        return Comparison(
            kind=key.case.kind,
            params=dict(key.case.params),
            metric=key.metric,
            verdict=verdict.word,
            old_stack=self._old.stack,
            new_stack=self._new.stack,
            backend=key.backend,
            ratio=verdict.ratio,
            low=verdict.low,
            high=verdict.high,
            pairs=verdict.pairs,
            in_cycles=decision.in_cycles,
            time_ratio=decision.time_ratio,
            cycles_ratio=decision.cycles_ratio,
            old=tuple(value.value for value in old),
            new=tuple(value.value for value in new),
            old_clock_mhz=clocks(old),
            new_clock_mhz=clocks(new),
            old_outcome=outcome(old),
            new_outcome=outcome(new),
            why=why,
        )

    def _notes(self) -> list[str]:
        flagged: dict[str, int] = {}
        turns = [*self._old.turns, *self._new.turns]
        for turn in turns:
            for flag in {flag for value in turn.values.values() for flag in value.flags}:
                flagged[flag] = flagged.get(flag, 0) + 1
        said = [
            f"{flag}: in {count} of {len(turns)} processes"
            for flag, count in sorted(flagged.items())
            if flag in ("contended", "throttled", "fallback_timer")
        ]
        return [f"{'; '.join(said)}."] * bool(said) + [self._note] * bool(self._note)
