"""1,000 short runs on four GPUs while workers and servers are killed: is anything lost or done twice?

Only NVML is simulated: four GPUs that two installations of one host share. What is done to the machines is
drawn from the seed. `--quick` is the form that the tests run: fewer runs, each disturbance once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from django.db.models import F, Max

from bench import soak_checks
from bench.result import Failed, Result, duration
from bench.soak_chaos import Chaos
from bench.soak_checks import Check
from bench.soak_load import Load
from bench.soak_place import UUIDS, Place
from bench.soak_plan import FULL, SHORT, asks
from bench.stand import Stand
from benchapp.local.logs import last_lines
from benchapp.runs.models import Attempt, Document, Run, State

STEP_S = 0.05
#: disturbances end when so much of the work is done
ENOUGH = 0.97


def run(stand: Stand) -> Iterator[Result]:
    """Prints the table and the checks. Raises Failed where a check does not hold."""
    size = SHORT if stand.quick else FULL
    print(f"Soak: {size.runs:,} runs, seed {stand.seed}", flush=True)
    logging.getLogger("benchapp.runs.broker").setLevel(logging.CRITICAL)
    place = Place(stand, size)
    load = Load(asks(size, stand.seed, len(UUIDS)), size, place)
    began = time.monotonic()
    try:
        place.start()
        while Run.objects.filter(state=State.DONE).count() == 0 and not _stuck(load, size.patience_s):
            _step(place, load)
        chaos = Chaos(stand, place, size)
        while not (load.ended and chaos.over) and not _stuck(load, size.patience_s):
            chaos.tend()
            if size.rounds is None and load.done_share > ENOUGH:
                chaos.finish()
            # what is planned to be done once needs somebody to do it to
            _step(place, load, more=size.rounds is not None and not chaos.over)
        chaos.finish()
        took = time.monotonic() - began
        while not load.settled and not _stuck(load, size.patience_s):
            _step(place, load)
    finally:
        place.supervisor.stop()
    found = soak_checks.checks(load, chaos, place)
    print("\n".join([*_figures(load, chaos, place, took), "", *map(str, found)]), flush=True)
    if wrong := [check for check in found if check.against]:
        raise Failed(_evidence(wrong, place))
    yield from ()


def _step(place: Place, load: Load, *, more: bool = False) -> None:
    place.supervisor.pause(STEP_S)
    load.tend(more=more)


def _stuck(load: Load, patience_s: float) -> bool:
    return time.monotonic() - load.changed_at > patience_s


def _figures(load: Load, chaos: Chaos, place: Place, took: float) -> Iterator[str]:
    runs = Run.objects.filter(pk__in=load.asked)
    attempts = Attempt.objects.filter(run__in=runs)
    states = Counter(runs.values_list("state", flat=True))
    codes = Counter(runs.filter(state=State.FAILED).values_list("failure_code", flat=True))
    documents = Counter(Document.objects.filter(run__in=runs).values_list("state", flat=True))
    builds = Counter(Run.objects.filter(kind=Run.Kind.BUILD).values_list("state", flat=True))
    outcomes = Counter(attempts.values_list("outcome", flat=True))
    longest = runs.aggregate(longest=Max(F("finished_at") - F("created_at")))["longest"]
    noted = sum(map(len, soak_checks.by_children(place.evidence).values()))
    leased = sum(map(len, soak_checks.by_leases(load.asked).values()))
    for name, value in {
        "runs": f"{len(load.asked):,}: {_listed(states)}",
        "failed because": _listed(codes),
        "attempts": f"{attempts.count():,}: {_listed(outcomes)}",
        "environment builds": _listed(builds),
        "documents": _listed(documents),
        "done to the machines": _listed(chaos.counts),
        "Postgres was away": f"{chaos.postgres_away_s:,.0f} s in all",
        "intervals on GPUs": f"{noted:,} noted by children, {leased:,} leases recorded by workers",
        "longest from asked to ended": duration(longest.total_seconds()) if longest else "–",
        "time": f"{duration(took)}, {len(load.asked) / took:.2f} runs a second",
    }.items():
        yield f"{name:<28}  {value}"


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name or 'under way'}" for name, number in counted.most_common()) or "none"


def _evidence(wrong: Sequence[Check], place: Place) -> str:
    logs = [f"--- {path.relative_to(place.root)}\n{last_lines(path)}" for path in place.logs()]
    return "\n".join([*logs, "The soak does not hold:", *map(str, wrong)])
