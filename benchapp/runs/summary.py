"""A benchmark in one line."""

from __future__ import annotations

from collections import Counter

from benchapp.runs.models import Document, Measurement
from benchapp.runs.ranking import may_rank


def benchmark_line(document: Document) -> str:
    """E.g. "gemm torch=2.13.0 x86_64: 12 cases, 12 ok, best 180 GFLOP/s (gemm bf16 256 × 1024 × 1024)"."""
    assert document.stack is not None and document.target is not None  # accepted documents have both
    rows = list(Measurement.objects.filter(document=document).select_related("series__case"))
    outcomes = Counter(row.outcome for row in rows)
    words = [f"{len(rows)} case{'s' * (len(rows) != 1)}"]
    words += [f"{count} {outcome}" for outcome, count in outcomes.most_common()]
    rates = [
        (row.flops / row.median, row.series.case.label)
        for row in rows
        if row.flops and row.median and may_rank(row.outcome, row.flags)
    ]
    if rates:
        rate, label = max(rates)
        shown = f"{rate / 1e12:,.1f} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:,.1f} GFLOP/s"
        words.append(f"best {shown} ({label})")
    torch = document.stack.components.get("torch", "?")
    return f"{document.kind} torch={torch} {document.target.arch}: {', '.join(words)}"
