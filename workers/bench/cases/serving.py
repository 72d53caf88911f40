"""A server of a model under load, over its OpenAI-compatible address."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from workers.bench.cases.base import Fields, Named, Value, Work

MAX_CONCURRENCY, MAX_REQUESTS, MAX_TOKENS = 4096, 100_000, 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/\-]{0,119}")


@dataclasses.dataclass(frozen=True, slots=True)
class Serving(Named):
    """`requests` requests, `concurrency` of them at a time, each with about `input` tokens, and `output`
    tokens asked for. `model` is the name that the server knows it by."""

    kind: ClassVar[str] = "serving"
    sweep: ClassVar[str] = "concurrency"
    model: str
    concurrency: int
    input: int
    output: int
    requests: int

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        model = fields.word("model", _NAME, "the name of a served model, such as openai/gpt-oss-20b")
        concurrency = fields.extent("concurrency", MAX_CONCURRENCY)
        lengths = fields.extent("input", MAX_TOKENS), fields.extent("output", MAX_TOKENS)
        requests = fields.extent("requests", MAX_REQUESTS)
        if requests < concurrency:
            raise fields.fault("requests", f"at least concurrency, {concurrency}")
        return model, concurrency, *lengths, requests

    @property
    def work(self) -> Work:
        """Nothing is known of what stands behind an address."""
        return Work(0.0, 0.0, 0.0, None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.model,)
