"""The verdicts of A/Bs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchapp.alerts.models import Alert, Comparison
from benchapp.catalog.models import Stack
from benchapp.ingest import identities, schema
from benchapp.runs.models import Document, Run


def store(row: Document, document: schema.Document, run: Run | None) -> list[Comparison]:
    """Write all comparisons of a document, in their order. They belong to the alert that the run was asked
    for, where it still exists."""
    if not document.comparisons:
        return []
    stacks: dict[frozenset[tuple[str, str]], Stack] = {}

    def stack(versions: Mapping[str, str]) -> Stack:
        key = frozenset(versions.items())
        if key not in stacks:
            stacks[key] = identities.stack(versions)
        return stacks[key]

    alert = _alert(run.params) if run is not None else None
    cases = identities.cases_of(document.comparisons)
    return Comparison.objects.bulk_create(
        Comparison(
            document=row,
            run=run,
            alert=alert,
            target=row.target,
            case_id=case,
            backend=item.backend or "",
            metric=item.metric,
            old_stack=stack(item.old_stack),
            new_stack=stack(item.new_stack),
            verdict=item.verdict,
            ratio=item.ratio,
            low=item.low,
            high=item.high,
            pairs=item.pairs,
            in_cycles=item.in_cycles,
            facts=item.model_dump(mode="json", exclude={"kind", "params", "old_stack", "new_stack"}),
        )
        for case, item in zip(cases, document.comparisons, strict=True)
    )


def _alert(params: Mapping[str, Any]) -> Alert | None:
    told = params.get("alert")
    return Alert.objects.filter(pk=told).first() if isinstance(told, int) else None


def line(document: schema.Document) -> str:
    """E.g. "confirm sm90: 3 comparisons, 2 SAME, 1 SLOW"."""
    counts = Counter(item.verdict for item in document.comparisons)
    total = len(document.comparisons)
    words = [f"{total:,} comparison{'s' * (total != 1)}"]
    words += [f"{count:,} {verdict}" for verdict, count in counts.most_common()]
    return f"confirm {document.target.arch}: {', '.join(words)}"
