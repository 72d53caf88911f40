"""Alerts with both sides of their changes measured and stored, and what an A/B says of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from benchapp.alerts.models import Alert, Change
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.models import Series
from benchapp.ingest.actions import ingest
from benchapp.runs import actions, work
from benchapp.runs.models import Document, Measurement, Run
from tests.alerts.nights import FIRST, OWN, gpu, night
from workers.bench.document import Comparison as Compared
from workers.bench.document import Document as BuildDocument
from workers.bench.document import Measurement as Built
from workers.bench.document import Statistics, Target

#: M → seconds before and after.
SLOWER = {16: (1.00e-5, 1.05e-5)}


def moved(
    levels: Mapping[int, tuple[float, float]] = SLOWER,
    *,
    before: str = "0.6.3",
    after: str = "0.6.9",
    target: Target | None = None,
    kind: Alert.Kind = Alert.Kind.STACK,
    backend: str = OWN,
    key: str = "moved",
) -> Alert:
    """An open alert of products M × 4096 × 7168 between two versions of FlashInfer, with a night of each."""
    target = target or gpu()
    sides = [
        night(
            day,
            {m: level[day] for m, level in levels.items()},
            flashinfer=version,
            target=target,
            backend=backend,
        )
        for day, version in enumerate((before, after))
    ]
    return opened(levels, sides, kind=kind, key=key)


def built(*, before: str, after: str, module: str = "norm") -> Alert:
    """An open alert of a JIT module that takes more CPU seconds to build since a version."""
    sides = []
    for day, (version, seconds) in enumerate(((before, 20.0), (after, 30.0))):
        at = (FIRST + dt.timedelta(days=day)).isoformat()
        item = Built(
            kind="jit_module", params={"module": module, "arch": "sm90"}, outcome="unverified",
            measured_at=at, metric="cpu_time", samples=(seconds,), statistics=Statistics(1, *(seconds,) * 4),
        )  # fmt: skip
        document = BuildDocument(
            kind="modules", command=("python",), started_at=at, finished_at=at,
            target=Target("arch", "sm90", host="box"), measurements=(item,),
            stack={"flashinfer": version, "torch": "2.11.0+cu130", "python": "3.12.3"},
        )  # fmt: skip
        row, _ = actions.receive(document.dumps().encode(), origin=Document.Origin.FILE)
        sides.append(ingest(row.pk))
    series = {0: Series.objects.get(case__kind="jit_module", metric="cpu_time")}
    return opened({0: (20.0, 30.0)}, sides, kind=Alert.Kind.BUILD, key="build", series=series)


def opened(
    levels: Mapping[int, tuple[float, float]],
    sides: list[Document],
    *,
    kind: Alert.Kind,
    key: str,
    series: Mapping[int, Series] | None = None,
) -> Alert:
    """An alert of what moved between two documents, its changes as detection would have found them."""
    first = next(iter(levels.values()))
    stacks: dict[str, Any] = {"stack_before": sides[0].stack, "stack_after": sides[1].stack}
    worse = first[1] > first[0]
    proposal = Proposal(
        key=key, kind=kind, title="A move", sentence="It moved.", worse=worse, certain=False,
        ratio=first[1] / first[0], confidence=0.8, target=sides[0].target,
        **stacks,
    )  # fmt: skip
    alert, _ = open_or_join(proposal)
    for m, (low, high) in levels.items():
        row = (series or {}).get(m) or Series.objects.get(
            case__params__m=m, target=sides[0].target, metric="time"
        )
        Change.objects.create(
            series=row, alert=alert,
            at=measured_at(sides[1], row), before_at=measured_at(sides[0], row),
            **stacks, before=low, after=high, ratio=high / low,
            low=high / low * 0.99, high=high / low * 1.01, confidence=0.8, certain=False, worse=worse,
            n_before=5, n_after=1,
        )  # fmt: skip
    return alert


def measured_at(document: Document, series: Series) -> dt.datetime:
    return Measurement.objects.get(document=document, series=series).measured_at


def answer(
    run: Run | None,
    said: Mapping[int, tuple[Any, float]],
    *,
    host: Mapping[int, tuple[Any, float]] | None = None,
    metric: str = "time",
) -> None:
    """Have a worker claim an A/B and deliver these verdicts and ratios of its cases by M, and of their host
    time; where there are none, that neither side gave a value."""
    assert run is not None and work.claim([run.queue], "a-worker@box/aaaaaaaa") is not None
    run.refresh_from_db()
    rows: list[tuple[Any, ...]] = [(m, metric, *told) for m, told in said.items()]
    rows += [(m, "host_time", *told) for m, told in (host or {}).items()]
    series = {m: _series_of(m, metric) for m in said}
    if rows:
        comparisons = [compared(series[m], run, *told) for m, *told in rows]
    else:
        moved_one = Change.objects.select_related("series").first()
        assert moved_one is not None
        comparisons = [dataclasses.replace(compared(moved_one.series, run, metric, "AMBG", 1.0), **NO_VALUE)]
    target = Change.objects.select_related("series__target").first().series.target
    kind: Any = target.kind
    there = Target(kind, target.arch, target.model or None, target.uuid or None, "box")
    document = BuildDocument(
        kind="confirm", command=("python",), started_at=FIRST.isoformat(), finished_at=FIRST.isoformat(),
        target=there,
        stack={"flashinfer": run.recipe.versions["flashinfer"], "torch": "2.11.0"},
        comparisons=tuple(comparisons),
    )  # fmt: skip
    stored = ingest(work.deliver(run.pk, run.attempt, document.dumps().encode()))
    assert stored.state == Document.State.ACCEPTED, stored.fault


NO_VALUE: dict[str, Any] = {
    "ratio": None,
    "low": None,
    "high": None,
    "pairs": 0,
    "old": (),
    "new": (),
    "why": "no pair",
}


def _series_of(m: int, metric: str) -> Series:
    where = {"case__params__m": m} if metric == "time" else {}
    return Series.objects.get(metric=metric, **where)


def compared(series: Series, run: Run, metric: Any, verdict: Any, ratio: float) -> Compared:
    """What an A/B of a run says of one case by eight pairs."""
    assert run.recipe_beside is not None
    old, new = ({"flashinfer": each.versions["flashinfer"]} for each in (run.recipe_beside, run.recipe))
    return Compared(
        kind=series.case.kind, params=series.case.params, metric=metric, verdict=verdict, old_stack=old,
        new_stack=new, backend=series.backend or None, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01,
        pairs=8, old=(1e-5,) * 8, new=(1e-5 * ratio,) * 8,
    )  # fmt: skip
