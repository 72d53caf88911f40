"""A sweep over one endpoint: each case by an AIPerf of its own."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from workers.bench import timing
from workers.bench.cases.serving import Serving as Case
from workers.bench.document import SAMPLE_CAP, BenchError, Measurement, Outcome, now
from workers.bench.gemm.untimed import without_time
from workers.bench.serving import plan, read, run
from workers.bench.serving.endpoint import Endpoint
from workers.bench.serving.probe import UnfitError
from workers.bench.stopping import StoppedError, stopped_by_sigterm

HIDDEN = "[api key]"


@dataclasses.dataclass(slots=True)
class Sweep:
    """`draw(bits)` gives the seed of a case's prompts. `logs` and `notes` fill as it goes."""

    endpoint: Endpoint
    key: str
    times: plan.Times
    budget_s: float | None
    scratch: Path
    stack_by: Literal["told", "stated"]
    backend: str | None
    draw: Callable[[int], int]
    logs: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def measure(
        self,
        cases: Sequence[Case],
        unfit: UnfitError | None,
        done: Callable[[Case, Measurement, int], None],
    ) -> list[Measurement]:
        """One measurement a case, in their order. Where the endpoint is `unfit`, none is tried."""
        ends = None if self.budget_s is None else time.monotonic() + self.budget_s
        found: list[Measurement] = []

        def settle(measured: Measurement) -> None:
            found.append(measured)
            done(cases[len(found) - 1], measured, len(found))

        try:
            with stopped_by_sigterm():
                for case in cases:
                    if unfit is not None:
                        settle(self._without(case, unfit.outcome, unfit.sentence))
                    elif ends is not None and time.monotonic() > ends:
                        why = f"Not started: the budget of {self.budget_s or 0:g} s was spent."
                        settle(self._without(case, "timeout", why))
                    else:
                        settle(self._tried(case))
        except StoppedError:
            words = "Broken off: the bench was asked to stop."
            for case in cases[len(found) :]:
                settle(self._without(case, "timeout", words))
                words = "Not started: the bench was asked to stop."
        return found

    def _tried(self, case: Case) -> Measurement:
        try:
            return self._one(case)
        except BenchError as fault:  # its export cannot be read; the other cases keep theirs
            return self._without(case, "crashed", fault.sentence)

    def _one(self, case: Case) -> Measurement:
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            path = plan.write(self.endpoint, case, self.times, folder, self.draw(64))
            keys = {self.endpoint.key_variable: self.key} if self.key else {}
            ended = run.run(path, folder, self.times.case, keys)
            try:
                with (folder / run.RECORDS).open(encoding="utf-8", errors="replace") as lines:
                    found = read.records(lines, case.output)
            except FileNotFoundError:
                found = []
        return self._measurement(case, found, ended)

    def _measurement(self, case: Case, found: Sequence[read.Record], ended: run.Ended) -> Measurement:
        seen = read.serving(found, stack_by=self.stack_by, gpus=self.endpoint.gpus)
        if seen is None or not seen.completed:
            if seen is not None:
                outcome, why = read.without_any(found)
                outcome = "timeout" if ended.why and outcome == "crashed" else outcome
            elif ended.why:
                outcome, why = "timeout", f"{ended.why}; no request had come to an end."
            else:
                outcome, why = "crashed", f"AIPerf ended with exit code {ended.code} and recorded no request."
                why += f" It said: {ended.said.rstrip('.')}." if ended.said else ""
            self.logs[f"aiperf {case}"[:200]] = self._redacted(ended.log)
            return dataclasses.replace(self._without(case, outcome, why), serving=seen)
        tpot = [record.tpot for record in found if not record.fault]
        self._note(case, found, ended)
        return Measurement(
            kind=case.kind,
            params=case.params,
            outcome="unverified",  # what the model said is not looked at
            measured_at=now(),
            samples=tuple(tpot[:SAMPLE_CAP]),
            statistics=timing.summarise(tpot),
            timer="wall_clock",
            backend=self.backend,
            serving=seen,
            flags=("few_samples",) if len(tpot) < timing.MIN_SAMPLES else (),
        )

    def _note(self, case: Case, found: Sequence[read.Record], ended: run.Ended) -> None:
        where = f"concurrency {case.concurrency}, {case.input} in, {case.output} out"
        if len(found) < case.requests:
            why = f"{ended.why}." if ended.why else f"No request is sent after {self.times.sending:,.0f} s."
            self.notes.append(f"{where}: {len(found):,} of {case.requests:,} requests were sent. {why}"[:500])
        pieces = read.pieces(found)
        if pieces is not None and pieces > 1.05:
            self.notes.append(
                f"{where}: {pieces:.1f} tokens come in one piece on average; ITL is between pieces."
            )

    def _without(self, case: Case, outcome: Outcome, why: str) -> Measurement:
        return without_time(case, self.backend, outcome, self._redacted(why))

    def _redacted(self, text: str) -> str:
        """A server may say the key again in its errors."""
        return text.replace(self.key, HIDDEN) if self.key else text
