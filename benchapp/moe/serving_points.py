"""A server under one load, ready to be shown. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchapp.catalog.versions import version_order
from benchapp.runs import steps
from benchapp.runs.ranking import DOUBTFUL
from benchapp.web.templatetags.units import percent, si_time
from workers.bench.document import Percentiles, Serving
from workers.bench.serving.probe import ENGINES

#: What a stack is called by; "server" is an engine that does not say which it is.
NAMED = (*ENGINES.values(), "server")
#: The load generator: a part of every stack here, and no part of what serves.
GENERATOR = "aiperf"
#: Two rates that differ by less are not called a change: one value a side, no interval.
CHANGED = 0.05
LATENCIES = ("ttft", "tpot", "itl")

#: Component → version.
Stack = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """One concurrency of one stack; `mark` is empty where its rates may stand as speeds."""

    concurrency: int
    requests: int
    stack: Stack
    #: what its line is called
    stack_name: str
    serving: Serving | None
    outcome: str
    flags: tuple[str, ...]
    mark: str
    glyph: str
    role: str
    remark: str
    measured_at: dt.datetime
    href: str
    source: str

    @property
    def ranked(self) -> Serving | None:
        """What may stand as a speed: None where it failed, and without a request that ended well."""
        return self.serving if not self.mark and self.serving and self.serving.completed else None

    @property
    def output_rate(self) -> float | None:
        return steps.output_rate(self.ranked) if self.ranked else None

    @property
    def input_rate(self) -> float | None:
        return self.ranked.input_tokens / self.ranked.window_s if self.ranked else None

    @property
    def output_per_gpu(self) -> float | None:
        return self._per_gpu(self.output_rate)

    @property
    def input_per_gpu(self) -> float | None:
        return self._per_gpu(self.input_rate)

    def _per_gpu(self, rate: float | None) -> float | None:
        gpus = self.ranked.gpus if self.ranked else None
        return rate / gpus if rate is not None and gpus else None

    @property
    def interactivity(self) -> float | None:
        """Tokens a second that a user sees: 1 / TPOT p50."""
        tpot = self.ranked.tpot if self.ranked else None
        return 1 / tpot.p50 if tpot and tpot.p50 else None

    @property
    def output_words(self) -> str:
        """Numerator and window of the tokens put out."""
        return steps.serving_words(self.ranked) if self.ranked else ""

    @property
    def input_words(self) -> str:
        if self.ranked is None:
            return ""
        window = self.output_words.rpartition(" in ")[2]
        return f"{self.ranked.input_tokens:,} tokens into {self.ranked.completed:,} requests in {window}"

    @property
    def latencies(self) -> list[Percentiles | None]:
        """TTFT, TPOT and ITL; of what failed nothing."""
        return [getattr(self.ranked, name) if self.ranked else None for name in LATENCIES]

    @property
    def errors(self) -> list[tuple[str, int]]:
        """(kind in words, how many), the most frequent first."""
        counted = self.serving.errors if self.serving else {}
        return sorted(
            ((name.replace("_", " "), number) for name, number in counted.items()),
            key=lambda each: (-each[1], each[0]),
        )

    @property
    def cautions(self) -> list[str]:
        return [flag.replace("_", " ") for flag in self.flags if flag in DOUBTFUL]


def rate_words(rate: float | None, *, gpu: bool = False) -> str:
    """ "1,234 tok/s", "12.3 tok/s per GPU"; "–" without one."""
    if rate is None:
        return "–"
    digits = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
    return f"{digits}\u00a0tok/s{' per GPU' if gpu else ''}"


def served_by(stack: Stack) -> dict[str, str]:
    """The components of a stack that serve: all but the load generator."""
    return {name: str(version) for name, version in stack.items() if name != GENERATOR}


def stack_names(stacks: Iterable[Stack]) -> dict[str, str]:
    """What each stack is called among these, by its key: its engine and version, and of several that share
    them what else differs."""
    every = {key_of(stack): served_by(stack) for stack in stacks}
    shorts = {key: _engine(stack) for key, stack in every.items()}
    named = {}
    for key, stack in every.items():
        alike = [every[other] for other, short in shorts.items() if short == shorts[key]]
        names = sorted({name for each in alike for name in each})
        differing = [
            name for name in names if name not in NAMED and len({each.get(name) for each in alike}) > 1
        ]
        told = [f"{name} {stack[name]}" for name in differing if name in stack]
        told += [f"without {name}" for name in differing if name not in stack]
        named[key] = ", ".join((shorts[key], *told))
    return named


def key_of(stack: Stack) -> str:
    """The same for stacks that serve alike, whatever loaded them."""
    return ", ".join(f"{name} {version}" for name, version in sorted(served_by(stack).items()))


def _engine(stack: Stack) -> str:
    name = next((name for name in NAMED if name in stack), "") or min(stack, default="")
    return f"{name} {stack[name]}" if name else "unknown stack"


def stack_order(load: Load) -> tuple[Any, ...]:
    """Stacks by engine, then by version."""
    engine = next((name for name in NAMED if name in load.stack), "")
    return engine, version_order(str(load.stack.get(engine, ""))), load.stack_name


def by_stack(loads: Sequence[Load]) -> dict[str, list[Load]]:
    """The loads of each stack by concurrency, stacks in order."""
    lines: dict[str, list[Load]] = {}
    for load in sorted(loads, key=lambda load: (stack_order(load), load.concurrency, load.requests)):
        lines.setdefault(load.stack_name, []).append(load)
    return lines


def headline(loads: Sequence[Load]) -> str:
    """The most that a server put out, with its numerator and window, and what a user saw of it."""
    best = max((load for load in loads if load.ranked), key=lambda load: load.output_rate or 0, default=None)
    if best is None:
        return "No load here ended with a speed." if loads else ""
    gpu = f", {rate_words(best.output_per_gpu, gpu=True)}" if best.output_per_gpu else ""
    seen = f", where a user sees {rate_words(best.interactivity)}" if best.interactivity else ""
    return (
        f"Up to {rate_words(best.output_rate)} out{gpu}, at concurrency {best.concurrency:,} with "
        f"{best.stack_name} ({best.output_words}){seen}."
    )


def change(loads: Sequence[Load]) -> str:
    """The largest change of output tok/s from the older to the newer of the two stacks measured last, at one
    concurrency; "" of one stack."""
    lines = by_stack([load for load in loads if load.ranked])
    if len(lines) < 2:
        return ""
    last = sorted(lines, key=lambda name: max(load.measured_at for load in lines[name]))[-2:]
    old, new = (name for name in lines if name in last)  # in the order of versions
    pairs = [
        (before, after)
        for before in lines[old]
        for after in lines[new]
        if (before.concurrency, before.requests) == (after.concurrency, after.requests)
    ]
    if not pairs:
        return f"{old} and {new} were not measured at the same concurrency and number of requests."
    pairs = [pair for pair in pairs if not _doubts(*pair)] or pairs
    before, after = max(pairs, key=lambda pair: abs(_gain(*pair)))
    gain = _gain(before, after)
    if abs(gain) < CHANGED:
        return f"From {old} to {new}, output tok/s changes by less than 5\u00a0% at each concurrency of both."
    doubts = ", ".join(_doubts(before, after))
    return (
        f"Largest change from {old} to {new}: at concurrency {after.concurrency:,}, "
        f"{rate_words(before.output_rate)} became {rate_words(after.output_rate)}, {percent(abs(gain))} "
        f"{'more' if gain > 0 else 'less'}{_tpot(before, after)}"
        f"{f' (uncertain: {doubts})' if doubts else ''}. One window a side, without an interval."
    )


def _doubts(*loads: Load) -> list[str]:
    return sorted({caution for load in loads for caution in load.cautions})


def _gain(before: Load, after: Load) -> float:
    return (after.output_rate or 0) / (before.output_rate or 1) - 1


def _tpot(before: Load, after: Load) -> str:
    old, new = (load.ranked.tpot if load.ranked else None for load in (before, after))
    return f", TPOT p50 {si_time(old.p50)} → {si_time(new.p50)}" if old and new else ""


def failures(loads: Sequence[Load]) -> str:
    """How many have no speed, and how many requests went wrong within those that have."""
    lost = sum(load.ranked is None for load in loads)
    sent = sum(load.ranked.sent for load in loads if load.ranked)
    wrong = sum(sum(load.ranked.errors.values()) for load in loads if load.ranked)
    said = [f"{lost:,} of {len(loads):,} loads failed and keep their place without a speed."] if lost else []
    if wrong:
        said.append(f"{wrong:,} of {sent:,} requests did not end well and are in no rate or latency.")
    return " ".join(said)
