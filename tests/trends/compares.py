"""Documents of two versions, for tests of the comparison."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlencode

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from tests.trends.gemms import H200, gemm
from workers.bench.document import Document, Statistics

OLD, NEW = "0.6.3", "0.6.18.post1"


def timed(m, seconds, *, spread=0.002, host=None, processes=(), host_processes=(), timer="cupti", **changes):
    """A GEMM with 40 samples about `seconds`, evenly within ±spread."""
    samples = tuple(seconds * (1 + spread * (i % 9 - 4) / 4) for i in range(40))
    ends = Statistics(40, seconds, min(samples), max(samples), min(samples))
    named = {name: changes.pop(name) for name in list(changes) if name in ("l2_policy", "metric")}
    return dataclasses.replace(
        gemm(m, seconds, **changes),
        samples=samples,
        statistics=ends,
        timer=timer,
        process_medians=tuple(processes),
        process_host_medians=tuple(host_processes),
        host_time=Statistics(40, host, host, host, host) if host else None,
        **named,
    )


def single(m, seconds, *flags, **changes):
    """One imported value: no samples, no timer."""
    return dataclasses.replace(
        gemm(m, seconds, outcome="unverified", flags=("imported", *flags), **changes),
        samples=(),
        statistics=Statistics(1, seconds, seconds, seconds, seconds),
        timer=None,
        l2_policy="unknown",
    )


def keep(version, *measurements, target=H200, day=20, run=None, component="flashinfer"):
    """Store a document of one version; `measurements` all measured on that day of November 2026."""
    at = f"2026-11-{day:02}T10:00:00Z"
    document = Document(
        kind="gemm",
        command=("python", "-m", "workers.bench", "gemm"),
        started_at=at,
        finished_at=f"2026-11-{day:02}T10:09:00Z",
        target=target,
        stack={component: version, "torch": "2.11.0", "python": "3.12.3"},
        measurements=tuple(dataclasses.replace(each, measured_at=at) for each in measurements),
    )
    row, _ = receive(document.dumps().encode(), origin=Row.Origin.FILE, name="gemm.json", run=run)
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored


def compare(client, **query):
    return client.get(f"/compare/?{urlencode(query)}")


def rows(page):
    """(verdict, reason in words) of the rows shown, by the case's M."""
    return {
        int(each["row"].case.split()[2]): (each["row"].verdict, each["why"]) for each in page.context["rows"]
    }


def judged(client, **query):
    """The same over all classes that hold any."""
    page = compare(client, **query)
    found = rows(page)
    for verdict, number in page.context["whole"].counts.items():
        if number and verdict != page.context["show"]:
            found |= rows(compare(client, show=verdict, **query))
    return found
