"""`python -m workers.bench bisect`: the first of several environments that has a change, by A/Bs."""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Sequence

from workers.bench.cases.base import Case
from workers.bench.cases.parse import from_params
from workers.bench.confirm import cli
from workers.bench.confirm.alternate import Limits, Result, alternate
from workers.bench.confirm.benches import AnyBench, Kernels
from workers.bench.confirm.bisect import Compare, Found, Nothing, Undecided, search
from workers.bench.confirm.turn import Side
from workers.bench.document import BenchError, ComparedMetric, Comparison, Document, Progress, now
from workers.bench.stopping import StoppedError, stopped_by_sigterm

MAX_ENVIRONMENTS = 100
METRICS: tuple[ComparedMetric, ...] = ("time", "host_time", "cpu_time", "size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env",
        action="append",
        required=True,
        metavar="NAME=PYTHON",
        help="an environment, from the good one to the bad one; given at least twice",
    )
    parser.add_argument("--metric", choices=METRICS, help="that is followed (default: of the bench)")
    cli.add_case_arguments(parser)


def run(args: argparse.Namespace) -> Document:
    """A whole bisect. Raises BenchError where its first A/B brings nothing."""
    started_at, began = now(), time.monotonic()
    sides = _sides(args.env)
    bench, cases = cli.what(args)
    metric: ComparedMetric = args.metric or ("cpu_time" if args.bench == "modules" else "time")
    progress = Progress(args.progress)
    limits = dataclasses.replace(cli.limits(args), host=metric == "host_time")
    hunt = _Hunt(sides, bench, cases, metric, limits, progress)
    with stopped_by_sigterm():
        hunt.run()
    if not hunt.results:
        raise BenchError("bisect_failed", hunt.notes[-1])
    command = [word for side in sides for word in ("--env", f"{side.name}={cli.python_word(side)}")]
    return cli.document(
        args,
        "bisect",
        [*command, "--metric", metric],
        [each for result in hunt.results for each in result.comparisons],
        hunt.results,
        started_at=started_at,
        began=began,
        notes=hunt.notes,
    )


def _sides(told: Sequence[str]) -> list[Side]:
    sides = []
    for each in told:
        name, _, python = each.partition("=")
        sides.append(cli.side(name, python))
    names = [side.name for side in sides]
    if not 2 <= len(names) <= MAX_ENVIRONMENTS or len(set(names)) < len(names):
        raise BenchError(
            "bad_argument", f"--env: expected 2 to {MAX_ENVIRONMENTS} environments, each name once."
        )
    return sides


class _Hunt:
    """One bisect: `results` of its A/Bs in their order, `notes` are sentences."""

    def __init__(
        self,
        sides: Sequence[Side],
        bench: AnyBench,
        cases: Sequence[Case],
        metric: ComparedMetric,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self.results: list[Result] = []
        self.notes: list[str] = []
        self._sides, self._metric, self._limits, self._progress = sides, metric, limits, progress
        self._bench, self._cases = bench, list(cases)
        self._verdicts: dict[int, str] = {}
        self._ratios: dict[tuple[int, int], Comparison] = {}
        self._skipped: list[int] = []
        self._known: dict[Side, dict[str, float]] = {}
        self._bad = "SLOW"

    def run(self) -> None:
        try:
            self._search()
        except StoppedError:
            self.notes.append("The bisect was asked to stop before it had found anything.")

    def _search(self) -> None:
        last = len(self._sides) - 1
        while True:
            step = search(last + 1, self._verdicts, self._skipped, self._bad)
            match step:
                case Compare(old, new):
                    if not self._compare(old, new):
                        return
                case Found(good, bad):
                    if (good, bad) not in self._ratios and not self._compare(good, bad):
                        return
                    self.notes.append(self._found(good, bad))
                    return
                case Undecided(good, bad, uncertain):
                    self.notes.append(self._undecided(good, bad, uncertain))
                    return
                case Nothing(verdict):
                    said = (
                        f"is {verdict} against {self._sides[0].name}" if verdict else "could not be measured"
                    )
                    self.notes.append(f"{self._sides[last].name} {said}: there is nothing to bisect.")
                    return

    def _compare(self, old: int, new: int) -> bool:
        """One A/B, and what it says; False where the bisect ends with it."""
        a, b = self._sides[old], self._sides[new]
        number, most = len(self.results), math.ceil(math.log2(len(self._sides))) + 2

        def said(done: int, told: str) -> None:
            self._progress.step(number, most, f"A/B {a.name} against {b.name}, {done} turns: {told}"[:300])

        try:
            result = alternate(a, b, self._bench, self._cases, self._limits, said, self._known)
        except BenchError as error:
            self.notes.append(error.sentence)
            if error.code == "stopped":
                return False
            self._skipped.append(new)
            return True
        found = self._strongest(result.comparisons)
        self.results.append(result)
        if found is None or found.ratio is None:
            self.notes.append(f"{b.name} brought no {self._metric} beside {a.name}.")
            self._skipped.append(new)
        else:
            self._ratios[old, new] = found
            if not old:
                self._verdicts[new] = found.verdict
            self._progress.step(number + 1, most, f"{b.name} against {a.name}: {cli.told(found)}"[:300])
            if len(self._ratios) == 1:
                self._follow(found)
        if result.cut_short:
            self.notes.append(
                "The bisect ended before its end: it was asked to stop, or its budget was spent."
            )
        return not result.cut_short

    def _strongest(self, comparisons: Sequence[Comparison]) -> Comparison | None:
        of_metric = [each for each in comparisons if each.metric == self._metric and each.ratio is not None]
        decided = [each for each in of_metric if each.verdict in ("SLOW", "FAST")] or of_metric
        return max(decided, key=lambda each: abs(math.log(each.ratio or 1.0)), default=None)

    def _follow(self, found: Comparison) -> None:
        """From the first A/B on: the case and backend that moved most, and the way it moved."""
        self._cases = [from_params(found.kind, found.params, "case")]
        if isinstance(self._bench, Kernels) and found.backend:
            self._bench = dataclasses.replace(self._bench, backends=(found.backend,))
        if found.verdict == "FAST":
            self._bad = "FAST"

    def _found(self, good: int, bad: int) -> str:
        a, b, step = self._sides[good].name, self._sides[bad].name, self._ratios.get((good, bad))
        what = self._subject()
        if step is None or step.ratio is None or step.low is None or step.high is None:
            return f"{what}: {b} is the first version that has the change; {a} has not."
        return (
            f"{what}: {b} is the first version that has the change, {step.verdict} against {a} by a factor of"
            f" {step.ratio:.3f} ({step.low:.3f} to {step.high:.3f}, {step.pairs} pairs)."
        )

    def _undecided(self, good: int, bad: int, uncertain: int | None) -> str:
        a, b = self._sides[good].name, self._sides[bad].name
        why = (
            "those in between could not be measured"
            if uncertain is None
            else f"the A/B of {self._sides[uncertain].name} is uncertain"
        )
        return f"{self._subject()}: it changed after {a} and with {b} at the latest; {why}."

    def _subject(self) -> str:
        first = next(iter(self._ratios.values()))
        case = str(from_params(first.kind, first.params, "case"))
        return " ".join(filter(None, (case, first.backend, self._metric)))
