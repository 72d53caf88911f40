"""An alert under lock, and what comparisons say of its series."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.alerts.confirm_words import Tried
from benchapp.alerts.models import Alert, Comparison
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Series, Target


def locked(pk: int) -> Alert:
    """The alert under lock, in the order in which `opening` takes locks: the key's first."""
    lock(f"alert:{Alert.objects.values_list('key', flat=True).get(pk=pk)}")
    return Alert.objects.select_for_update(no_key=True, of=("self",)).select_related("confirm_run").get(pk=pk)


def tried_of(series: Sequence[int], comparisons: Sequence[Comparison]) -> list[tuple[Tried, Comparison]]:
    """What the comparisons say of each series, in their order, by its own metric; nothing of those without a
    value on both sides."""
    rows = Series.objects.select_related("case", "target").in_bulk(series)
    found = {(each.case_id, each.backend, each.metric): each for each in comparisons if each.verdict}
    tried = []
    for row in (rows[pk] for pk in series if pk in rows):
        main = found.get((row.case_id, row.backend, row.metric))
        if main is not None and main.ratio is not None and _on_its_own(row.target, main):
            host = found.get((row.case_id, row.backend, "host_time")) if row.metric == "time" else None
            label = f"{row.case} · {row.backend}" if row.backend else str(row.case)
            told = Tried(label, main, host, on_gpu=row.target.kind == Target.Kind.GPU)
            tried.append((told, main))
    return tried


def _on_its_own(target: Target, comparison: Comparison) -> bool:
    """Whether it was measured where the series was: what another GPU says decides nothing of this one."""
    return target.kind != Target.Kind.GPU or comparison.target_id == target.pk
