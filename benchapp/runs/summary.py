"""A benchmark in one line."""

from __future__ import annotations

from django.db.models import Count

from benchapp.runs.models import Document, Measurement
from benchapp.runs.queries import fastest, rate


def benchmark_line(document: Document) -> str:
    """E.g. "gemm torch=2.13.0 x86_64: 12 cases, 12 ok, best 180.1 GFLOP/s (gemm bf16 256 × 1024 × 1024)"."""
    assert document.stack is not None and document.target is not None  # accepted documents have both
    rows = Measurement.objects.filter(document=document)
    outcomes = rows.values_list("outcome").annotate(cases=Count("*")).order_by("-cases", "outcome")
    total = sum(cases for _, cases in outcomes)
    words = [f"{total:,} case{'s' * (total != 1)}", *(f"{cases:,} {outcome}" for outcome, cases in outcomes)]
    best = fastest(document)
    if best is not None and (speed := rate(best)) is not None:
        shown = f"{speed / 1e12:,.1f} TFLOP/s" if speed >= 1e12 else f"{speed / 1e9:,.1f} GFLOP/s"
        words.append(f"best {shown} ({best.series.case.label})")
    versions = document.stack.components
    told = {"torch": versions["torch"]} if "torch" in versions else versions
    stack = " ".join(f"{name}={version}" for name, version in sorted(told.items()))
    return f"{document.kind} {stack} {document.target.arch}: {', '.join(words)}"
