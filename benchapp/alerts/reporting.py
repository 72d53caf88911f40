"""What `upstream` makes a report of, read from the database."""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.alerts import detail, words
from benchapp.alerts.detail import Drawn
from benchapp.alerts.models import Alert
from benchapp.alerts.upstream import CHANGES, Report
from benchapp.catalog.models import Host, Stack, Target
from benchapp.runs.models import Measurement
from benchapp.trends.components import component_order
from benchapp.trends.points import TIMERS


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
        commands=[],
        hosts=list(Host.objects.values_list("name", flat=True)),
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
