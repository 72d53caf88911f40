"""Steps of whole mixture-of-experts models: decode and prefill on a gang of GPUs."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from workers.bench import model_work
from workers.bench.cases.base import Fields, Named, Value, Work
from workers.bench.models import model as model_of
from workers.bench.models import models, tiny

MAX_RANKS = 64
MAX_CONTEXT = 2**20
DTYPES = ("bf16",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]{0,39}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps(Named):
    """`model` by its name in models.json, its first `layers` layers on tp × ep GPUs; `batch` sequences of all
    GPUs together. Each of the `ep` groups of GPUs has its own share of them, and of the experts."""

    phase: ClassVar[model_work.Phase]
    model: str
    batch: int
    context: int
    layers: int
    tp: int
    ep: int
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        known = {each.name: each for each in (*models(), *tiny())}
        name = fields.word("model", _NAME, f"one of {', '.join(known)}")
        if name not in known:
            raise fields.fault("model", f"one of {', '.join(known)}")
        of = known[name]
        batch, context = fields.extent("batch", 65_536), fields.extent("context", MAX_CONTEXT)
        layers = fields.extent("layers", of.layers)
        tp, ep = fields.extent("tp", MAX_RANKS), fields.extent("ep", MAX_RANKS)
        dtype = fields.one_of("dtype", DTYPES, DTYPES[0])
        if of.q_heads % tp:
            raise fields.fault("tp", f"a divisor of the {of.q_heads} heads of {name}")
        if of.experts % ep:
            raise fields.fault("ep", f"a divisor of the {of.experts} experts of {name}")
        if batch % ep:
            raise fields.fault("batch", f"a multiple of ep, {ep}: each group of GPUs has a share of it")
        return name, batch, context, layers, tp, ep, dtype

    @property
    def layout(self) -> model_work.Layout:
        return model_work.Layout(model_of(self.model), self.layers, self.tp, self.ep, self.dtype)

    @property
    def work(self) -> Work:
        """Of one GPU, every token's experts drawn uniformly."""
        return model_work.step_work(self.layout, self.phase, self.batch, self.context)

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.model, self.layers, self.tp, self.ep, self.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class Decode(_Steps):
    """One token for each of `batch` sequences; their caches hold `context` tokens when the window begins."""

    kind: ClassVar[str] = "decode"
    sweep: ClassVar[str] = "batch"
    phase: ClassVar[model_work.Phase] = "decode"

    @property
    def tokens(self) -> int:
        """Tokens of one step, of all GPUs."""
        return self.batch


@dataclasses.dataclass(frozen=True, slots=True)
class Prefill(_Steps):
    """Prompts of `context` tokens, `batch` of them at once, up to the first token that follows."""

    kind: ClassVar[str] = "prefill"
    sweep: ClassVar[str] = "batch"
    phase: ClassVar[model_work.Phase] = "prefill"

    @property
    def tokens(self) -> int:
        return self.batch * self.context
