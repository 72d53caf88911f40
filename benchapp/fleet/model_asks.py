"""Whole models in an ask: the cases that a choice of models, batches and a layout comes to, and whether they
fit the memory of a target. Pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from django.core.exceptions import ValidationError

from benchapp.runs.requests import gpus_of
from workers.bench.cases.base import Case
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.parse import from_params
from workers.bench.decoder import left_out
from workers.bench.document import BenchError
from workers.bench.models import model, models, tiny
from workers.bench.moe.capacity import room
from workers.bench.moe.fit import CPU_FIXED_BYTES, FIXED_BYTES, Estimate, estimate
from workers.bench.suites.models import CONTEXT

PHASES = ("decode", "prefill")
#: Cases that one choice may come to.
MOST_CASES = 200
#: Steps that the bench times where it is told no number, as the cache grows by one each.
STEPS = 300
#: Fields of a case → fields of an ask.
_FIELDS = {"model": "models", "batch": "batches", "context": "contexts", "tp": "tp", "ep": "ep",
           "layers": "layers"}  # fmt: skip


def names() -> list[str]:
    """Models that can be asked for, the tiny ones last."""
    return [each.name for each in (*models(), *tiny())]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Each phase of each model at each batch and context, of its first `layers` layers, on tp × ep GPUs."""

    models: tuple[str, ...]
    batches: tuple[int, ...]
    phases: tuple[str, ...] = ()
    contexts: tuple[int, ...] = ()
    tp: int | None = None
    ep: int | None = None
    layers: int | None = None

    def cases(self) -> tuple[Case, ...]:
        """Without phases decode, without contexts `CONTEXT`, without tp or ep 1, without layers all of a
        model's. Raises ValidationError, {field: sentence}."""
        if not self.batches:
            raise ValidationError({"batches": "Expected sequences that run at once, such as 1, 8, 64."})
        phases, contexts = self.phases or PHASES[:1], self.contexts or (CONTEXT,)
        number = len(self.models) * len(phases) * len(contexts) * len(self.batches)
        if number > MOST_CASES:
            raise ValidationError({"models": f"{number:,} cases: expected at most {MOST_CASES}."})
        every = itertools.product(self.models, phases, contexts, self.batches)
        return tuple(self._case(*each) for each in every)

    def _case(self, name: str, phase: str, context: int, batch: int) -> Case:
        params = {
            "model": name,
            "batch": batch,
            "context": context,
            "layers": model(name).layers if self.layers is None else self.layers,
            "tp": self.tp or 1,
            "ep": self.ep or 1,
        }
        try:
            return from_params(phase, params, name)
        except BenchError as error:
            field, _, expected = error.sentence.removeprefix(f"{name}.").partition(": ")
            raise ValidationError(
                {_FIELDS.get(field, "models"): f"{name}: {expected[:1].upper()}{expected[1:]}"}
            ) from None


def fullest(cases: Iterable[Case], memory_bytes: int, *, device: str) -> list[tuple[Case, Estimate]]:
    """The estimate of each case of a model against `memory_bytes` of one GPU of its gang, or of the host on a
    CPU; the one that leaves the least first."""
    found = []
    for case in cases:
        if isinstance(case, Decode | Prefill):
            # the ranks of a CPU share its memory
            share = memory_bytes // gpus_of(case) if device == "cpu" else memory_bytes
            fixed = CPU_FIXED_BYTES if device == "cpu" else FIXED_BYTES
            found.append(
                (
                    case,
                    estimate(case.layout, *room(case, STEPS), share, phase=case.phase, fixed_bytes=fixed),
                )
            )
    return sorted(found, key=lambda each: each[1].memory_bytes - each[1].need_bytes)


def without(cases: Iterable[Case], library: str) -> list[str]:
    """What the decoder leaves out of these models, a sentence each."""
    of = dict.fromkeys(case.model for case in cases if isinstance(case, Decode | Prefill))
    return [said for name in of for said in left_out.sentences(model(name), library)]


def unfit(estimates: Sequence[tuple[Case, Estimate]], where: str) -> str:
    """Why cases cannot be measured `where`, and which can; "" where all fit."""
    lacking = [(case, found) for case, found in estimates if not found.fits]
    if not lacking:
        return ""
    case, worst = lacking[0]
    rest = len(estimates) - len(lacking)
    more = len(lacking) - 1
    others = f" {more} more of these cases do{'es' * (more == 1)} not fit." if more else ""
    fitting = (
        f" {rest} of {len(estimates)} cases fit: choose those, or fewer layers, or more GPUs." if rest else ""
    )
    words = in_words(case)
    return f"{words[:1].upper()}{words[1:]} does not fit {where}. {worst.sentence}{others}{fitting}"


def in_words(case: Case) -> str:
    """ "decode of Qwen3-30B-A3B, batch 64 at 1,024 tokens each"."""
    if not isinstance(case, Decode | Prefill):
        return str(case)
    return f"{case.kind} of {case.model}, batch {case.batch:,} at {case.context:,} tokens each"
