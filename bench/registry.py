"""The benchmarks, in the order in which they run: each is a module of this package with a `run`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from bench.result import Result, Skipped
from bench.stand import Stand

BENCHMARKS = {
    "ingest": "taking in documents, against a bare COPY of their rows",
    "pages": "every page on a full database, against /healthz",
    "claims": "claiming a run and delivering its document, against a bare UPDATE … RETURNING",
    "dispatch": "documents and runs through broker and worker, against doing it in place and bare Celery",
    "survey": "a survey that is cached already, against the start of Python",
}
#: Only when asked for by name: these take many minutes.
ON_REQUEST = {
    "tiles": "CPU seconds of tile surveys: cold, ten versions, again, the explorer",
    "timers": "our GPU timers, FlashInfer's and Triton's against kernel time; needs a GPU",
    "detectors": "our step detector against Otava's, ruptures' and asv's, then night by night",
    "soak": "1,000 runs while workers and servers are killed: nothing lost, nothing done twice",
}


def load(name: str) -> Callable[[Stand], Iterator[Result | Skipped]]:
    """Import a benchmark; only after Django is set up, since most import its models."""
    run: Callable[[Stand], Iterator[Result | Skipped]] = importlib.import_module(f"bench.{name}").run
    return run
