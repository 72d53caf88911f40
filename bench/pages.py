"""Pages on a full database, rendered in this process; against the smallest of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from django.test import Client

from bench.claims import ask
from bench.result import Result, median_time
from bench.stand import Stand

SMALLEST = "/healthz"
PAGES = {
    "overview": "/",
    "tiles, 60 variants × 40 versions": "/tiles/",
    "trends over batch size": "/trends/",
    "trends over versions": "/trends/?view=versions",
    "trends over time": "/trends/?view=time",
    "runs": "/runs/",
}


def run(stand: Stand) -> Iterator[Result]:
    stored = f"{stand.filled.measurements:,} measurements stored"
    ask(stand.size(500, 60))
    client = Client(SERVER_NAME="localhost")
    times = stand.size(7, 3)
    smallest = median_time(functools.partial(_get, client, SMALLEST), times)
    for name, path in PAGES.items():
        seconds = median_time(functools.partial(_get, client, path), times)
        size = f"{len(_get(client, path)) / 1e3:,.0f} kB, {stored}"
        yield Result(f"page {name}", seconds, SMALLEST, smallest, size)


def _get(client: Client, path: str) -> bytes:
    response = client.get(path)
    if response.status_code != 200:
        raise RuntimeError(f"{path} answers with status {response.status_code}")
    return bytes(response.content)
