"""Measuring the cases of a machine's alert again, with the recipe that they had: is it still so?

Several fresh processes measure each, and all of them have to be nearer to one of the two levels: a GPU whose
speed has two modes across processes then says neither. Reference cases, which no library moves, are measured
along to tell the machine from what ran on it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence
from statistics import median

from benchapp.alerts.confirm_plan import CannotError, Plan
from benchapp.alerts.kinds.reference import is_reference, reference_series
from benchapp.alerts.models import Alert, Change
from benchapp.catalog.models import Series
from benchapp.runs import requests
from benchapp.runs.actions import Request
from benchapp.runs.models import Measurement, Run
from benchapp.runs.ranking import ranked
from workers.bench.cases.parse import from_params

Verdict = Alert.Verdict

PROCESSES = 5
#: Of fresh processes, so that chance puts them all on one side in one of 16 at most.
FEWEST = 4
#: A host's clock may be off by so much; the bound spares a look into partitions of long ago.
CLOCKS = dt.timedelta(days=1)
#: Reference cases that are measured along, and measurements that their level before is the median of.
_REFERENCES, _BEFORE = 2, 10


def request(plan: Plan) -> Request:
    """The cases of a plan, and reference cases, once more. Raises CannotError."""
    if plan.bench != "gemm":
        raise CannotError("Only kernels are measured again in fresh processes; this is asked for by hand.")
    along = references(plan)
    beside = [from_params(row.case.kind, row.case.params, "case") for row in along]
    cases = list(dict.fromkeys((*plan.cases, *beside)))
    backends = {*plan.backends, *(row.backend for row in along)} if plan.backends else set()
    options = {"processes": PROCESSES} | ({"backends": sorted(backends)} if backends else {})
    asked = requests.gemm(
        cases,
        suite="",
        version=plan.new[plan.library],
        library=plan.library,
        queue=plan.place.queue,
        where=plan.place.where,
        foreign="flag",  # another program may be what slows it
        options=options,
    )
    return dataclasses.replace(
        asked,
        versions=dict(plan.new),
        title=f"Measured again: {plan.changes[0].series.case} on {plan.place.where}",
    )


def references(plan: Plan) -> list[Series]:
    """Reference cases measured on the plan's target as its strongest case was, none of its own among them."""
    series = plan.changes[0].series
    own = {change.series_id for change in plan.changes}
    found = Series.objects.filter(
        reference_series(), target=series.target_id, configuration=series.configuration_id, metric="time"
    )
    rows = found.exclude(pk__in=own).select_related("case").order_by("case__kind", "case__size", "pk")
    of_kinds = {row.case.kind: row for row in rows if is_reference(row.case, row.backend)}
    return list(of_kinds.values())[:_REFERENCES]


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """Where a case is now, between the levels of its change: ratios against the level before."""

    verdict: str
    #: fresh processes, and how many of them are nearer to the new level
    processes: int
    moved: int
    ratio: float
    low: float
    high: float


def compare(before: float, after: float, medians: Sequence[float]) -> Again:
    """Fresh processes between two levels (seconds): all nearer to `after` is SLOW, or FAST where that is the
    lower; all nearer to `before` is SAME; anything else, or fewer than FEWEST, AMBG. All are above 0."""
    middle = math.sqrt(before * after)
    slower = after > before
    moved = sum((value > middle) == slower and value != middle for value in medians)
    ratios = [value / before for value in medians]
    verdict = Verdict.AMBG
    if len(medians) >= FEWEST and moved == len(medians):
        verdict = Verdict.SLOW if slower else Verdict.FAST
    elif len(medians) >= FEWEST and moved == 0:
        verdict = Verdict.SAME
    return Again(str(verdict), len(medians), moved, median(ratios), min(ratios), max(ratios))


def judge(alert: Alert, run: Run, series: Sequence[int]) -> tuple[str, str] | None:
    """(verdict, sentence) of an alert whose cases `run` measured again; None where it measured none of them.

    The strongest decides, unless another says otherwise.
    """
    lately = run.created_at - CLOCKS
    measured = Measurement.objects.filter(ranked(), run=run, measured_at__gte=lately)
    rows = {row.series_id: row for row in measured}
    changes = alert.changes.filter(series__in=series, gone_at=None).select_related("series__case")
    newest = {change.series_id: change for change in changes.order_by("at")}
    again: list[tuple[Change, Again]] = []
    for pk in series:
        if pk in newest and pk in rows and (values := [v for v in rows[pk].process_medians if v > 0]):
            change = newest[pk]
            again.append((change, compare(change.before, change.after, values)))
    if not again:
        return None
    verdicts = {each.verdict for _, each in again} - {Verdict.AMBG}
    verdict = again[0][1].verdict if len(verdicts) < 2 else str(Verdict.AMBG)
    said = [words(*again[0])]
    if len(again) > 1:
        like = sum(each.verdict == again[0][1].verdict for _, each in again[1:])
        said.append(f"{like} of {len(again) - 1} more cases say the same.")
    said += _of_references(alert, run, set(series), rows)
    if any("contended" in rows[change.series_id].flags for change, _ in again):
        said.append("Another program was on the GPU meanwhile.")
    return verdict, " ".join(said)


def words(change: Change, again: Again) -> str:
    """ "gemm bf16 …: SLOW, 5 of 5 fresh processes are at the new level; ×1.052 (1.048 to 1.056) of the one
    before." """
    return (
        f"{change.series.case}: {again.verdict}, {again.moved} of {again.processes} fresh processes are at "
        f"the new level; ×{again.ratio:.3f} ({again.low:.3f} to {again.high:.3f}) of the one before."
    )


def _of_references(alert: Alert, run: Run, own: set[int], rows: dict[int, Measurement]) -> list[str]:
    """What the reference cases of the run did since before the change, in a sentence each."""
    along = Series.objects.filter(pk__in=rows.keys() - own).select_related("case")
    since = alert.changes.order_by("before_at").values_list("before_at", flat=True).first()
    said = []
    for series in along:
        earlier = Measurement.objects.filter(ranked(), series=series, measured_at__lte=since)
        levels = [
            value
            for value in earlier.order_by("-measured_at").values_list("median", flat=True)[:_BEFORE]
            if value
        ]
        now = rows[series.pk].median
        if is_reference(series.case, series.backend) and levels and now:
            said.append(f"Reference {series.case}: ×{now / median(levels):.3f} of before.")
    return said
