"""What `upstream` makes a report of, read from the database."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from benchapp.alerts import detail, words
from benchapp.alerts.confirm_plan import bench_of
from benchapp.alerts.detail import Drawn
from benchapp.alerts.evidence import blocks
from benchapp.alerts.models import Alert
from benchapp.alerts.upstream import CHANGES, Report
from benchapp.catalog.models import Host, Stack, Target
from benchapp.runs.models import Measurement
from benchapp.trends.components import component_order
from benchapp.trends.points import TIMERS
from workers.bench.cases.modules import JitModule
from workers.bench.cases.parse import from_params
from workers.bench.cases.serving import Serving
from workers.bench.document import BenchError

#: Kinds whose evidence is about a library, and not about this installation.
TABLED = (
    Alert.Kind.CORRECTNESS, Alert.Kind.IMPOSSIBLE, Alert.Kind.SURVIVORS, Alert.Kind.TACTIC,
    Alert.Kind.COVERAGE,
)  # fmt: skip


def report(alert: Alert, drawn: Drawn | None) -> Report:
    """`drawn` is the strongest change's series, None of an alert without changes."""
    moved = detail.changes(alert, CHANGES)
    compared, _ = detail.comparisons(alert)
    targets = {each.change.series.target for each in moved} | ({alert.target} if alert.target else set())
    return Report(
        alert=alert,
        changes=moved,
        total=detail.counted(alert)["all"],
        comparisons=compared,
        bisects=detail.bisects(alert),
        differs=words.differing(alert),
        versions=_versions(*_stacks(alert, drawn)),
        gpus=sorted({_product(target) for target in targets}),
        measured=_measured(drawn),
        commands=_commands(alert, drawn),
        hosts=list(Host.objects.values_list("name", flat=True)),
        evidence=blocks(alert.evidence) if alert.kind in TABLED else [],
    )


def _product(target: Target) -> str:
    """A server's own name may be its address; what it runs on is asked for elsewhere."""
    return "a server under load" if target.kind == Target.Kind.ENDPOINT else str(target)


def _stacks(alert: Alert, drawn: Drawn | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The components of both sides; of an alert that names none, those of its strongest change."""
    change = drawn.change if drawn else None
    ids = [
        alert.stack_before_id or (change and change.stack_before_id),
        alert.stack_after_id or (change and change.stack_after_id),
    ]
    found = Stack.objects.in_bulk([pk for pk in ids if pk])
    before, after = (found[pk].components if pk in found else {} for pk in ids)
    return before, after


def _versions(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    names = sorted({*before, *after}, key=component_order)
    return {name: (str(before.get(name, "")), str(after.get(name, ""))) for name in names}


def _commands(alert: Alert, drawn: Drawn | None) -> list[tuple[str, str]]:
    """What measures the strongest change anywhere: an A/B of two environments."""
    if drawn is None:
        return []
    series = drawn.change.series
    try:
        case = from_params(series.case.kind, series.case.params, "case")
    except BenchError:
        return []
    if isinstance(case, Serving):
        return []
    bench = bench_of(case)
    differs = words.differing(alert)
    names = (differs[0].before, differs[0].after) if differs else ("before", "after")
    command = ["python", "-m", "workers.bench", "confirm"]
    for side, name in zip(("old", "new"), names, strict=True):
        command += [f"--{side}", f"{side}/bin/python", f"--{side}-name", name or side]
    command += ["--bench", bench]
    if isinstance(case, JitModule):
        command += ["--only", case.module, *(["--arch", case.arch] if case.arch else [])]
    else:
        command += ["--device", "cpu" if series.target.kind == Target.Kind.CPU else "cuda"]
        command += ["--case", str(case), *(["--backend", series.backend] if series.backend else [])]
    of = f" of {differs[0].component}" if differs else ""
    told = f"With Tilewatch, `old` and `new` being virtual environments with both versions{of}"
    return [(told, shlex.join(command))]


def _measured(drawn: Drawn | None) -> list[str]:
    """How the first value of the new level was timed."""
    first = next((row.point for row in drawn.rows if row.new), None) if drawn else None
    if first is None:
        return []
    row = (
        Measurement.objects.filter(measured_at=first.at, id=first.measurement_id)
        .values("timer", "l2_policy", "pdl", "inputs", "n", "sm_clock_mhz_median")
        .first()
    )
    if row is None:
        return []
    said = []
    if row["timer"]:
        said.append(f"Timer: {TIMERS.get(row['timer'], row['timer'])}; median of {row['n']:,} samples a run")
    if row["l2_policy"] and row["l2_policy"] != "unknown":
        said.append(f"L2: {row['l2_policy']}")
    if row["pdl"] is not None:
        said.append(f"Programmatic dependent launch: {'on' if row['pdl'] else 'off'}")
    if row["sm_clock_mhz_median"]:
        said.append(f"SM clock around the new level's first value: {row['sm_clock_mhz_median']:,.0f} MHz")
    return said
