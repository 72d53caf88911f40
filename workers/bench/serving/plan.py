"""What AIPerf is told: its configuration, the requests word for word, a tokenizer that asks no hub. Pure."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workers.bench.cases.serving import Serving
from workers.bench.document import BenchError
from workers.bench.serving.endpoint import Endpoint

#: Of a case's time, for AIPerf's own start and end: 5 to 12 s were seen on two slow cores.
START_S = 30.0
#: Words that most tokenizers hold as one token with the space before it.
WORDS = (
    "time year people way day man thing woman life child world school state family student group country "
    "hand problem part place case week company system program question work government number night point "
    "home water room mother area money story fact month lot right study book eye job word business issue "
    "side kind head house service friend father power hour game line end member law car city name team "
    "minute idea body back parent face others level office door health person art war history party "
    "result change morning reason research girl guy moment air teacher force education"
)
#: Tokens that one case may bring, input and output: AIPerf's records hold a time for each.
MOST_TOKENS = 20_000_000
#: Tokens that a chat template adds around a message, about.
TEMPLATE = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Seconds. One request may take `request`; none is sent after `sending`. Warm-up, sending and the last
    requests together end within a case's time, `case`, with AIPerf's own start."""

    case: float
    request: float
    sending: float

    @classmethod
    def of(cls, case_s: float) -> Times:
        third = (case_s - min(START_S, case_s / 3)) / 3
        return cls(case_s, third, third)


def check(case: Serving) -> None:
    """Whether it can be measured. Raises BenchError."""
    if case.output < 2:
        raise BenchError("bad_case", f"{case}: output: expected at least 2, for a time between two tokens.")
    tokens = (case.requests + case.concurrency) * (case.input + case.output)
    if tokens > MOST_TOKENS:
        raise BenchError("bad_case", f"{case}: {tokens:,} tokens together: expected at most {MOST_TOKENS:,}.")


def prompts(case: Serving, seed: int) -> Iterator[str]:
    """Of the warm-up, then of the requests: about `case.input` tokens each, drawn at random, so that a
    server's prefix cache helps none."""
    draw, words = random.Random(seed), WORDS.split()
    for _ in range(warm_up(case) + case.requests):
        yield " ".join(draw.choices(words, k=max(1, case.input - TEMPLATE)))


def warm_up(case: Serving) -> int:
    """Requests before those that count: one a connection."""
    return case.concurrency


def body(case: Serving, prompt: str) -> dict[str, Any]:
    """One request. By `ignore_eos`, of vLLM, SGLang and TensorRT-LLM, each answer has the same length."""
    return {
        "model": case.model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": case.output,
        "temperature": 0.0,
        "ignore_eos": True,
    }


def tokenizer() -> dict[str, Any]:
    """The files of a tokenizer of one word. AIPerf loads one always, by default from a hub; with requests
    given word for word and tokens counted by the server it is not used."""
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
        },
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"},
    }


def configuration(endpoint: Endpoint, case: Serving, times: Times, folder: Path) -> dict[str, Any]:
    """AIPerf's configuration, version 2.0. A key is named by its variable and stands nowhere else."""
    load = {"type": "concurrency", "concurrency": case.concurrency}
    asked: dict[str, Any] = {
        "url": endpoint.url,
        "type": "chat",
        "streaming": True,
        "timeout": times.request,
        "use_server_token_count": True,
    }
    if endpoint.key_variable:
        asked["api_key"] = f"${{{endpoint.key_variable}}}"
    return {
        "schemaVersion": "2.0",
        "randomSeed": 1,
        "benchmark": {
            "model": case.model,
            "endpoint": asked,
            "dataset": {"type": "file", "path": str(folder / "requests.jsonl"), "format": "raw_payload"},
            "warmup": {**load, "requests": warm_up(case)},
            "profiling": {
                **load,
                "requests": case.requests,
                "duration": times.sending,
                "grace_period": times.request,
            },
            "artifacts": {"dir": str(folder / "artifacts"), "summary": ["json"], "records": ["jsonl"]},
            "tokenizer": {"name": str(folder / "tokenizer")},
            "gpu_telemetry": {"enabled": False},
            "server_metrics": {"enabled": False},
            "runtime": {"ui": "none"},
        },
    }


def write(endpoint: Endpoint, case: Serving, times: Times, folder: Path, seed: int) -> Path:
    """All of it into an empty folder; the path of the configuration. JSON is YAML too."""
    (folder / "tokenizer").mkdir()
    for name, told in tokenizer().items():
        (folder / "tokenizer" / name).write_text(json.dumps(told))
    with (folder / "requests.jsonl").open("w") as out:
        for prompt in prompts(case, seed):
            out.write(json.dumps(body(case, prompt)) + "\n")
    path = folder / "aiperf.yaml"
    path.write_text(json.dumps(configuration(endpoint, case, times, folder)))
    return path
