"""A benchmark in one line."""

from __future__ import annotations

from django.db.models import Count, QuerySet

from benchapp.runs import steps
from benchapp.runs.models import Document, Measurement, Run
from benchapp.runs.queries import fastest, rate
from benchapp.runs.ranking import ranked
from benchapp.runs.step_words import rate_words


def benchmark_line(document: Document) -> str:
    """E.g. "gemm torch=2.13.0 x86_64: 12 cases, 12 ok, best 180.1 GFLOP/s (gemm bf16 256 × 1024 × 1024)"."""
    assert document.stack is not None and document.target is not None  # accepted documents have both
    rows = Measurement.objects.filter(document=document)
    outcomes = rows.values_list("outcome").annotate(cases=Count("*")).order_by("-cases", "outcome")
    total = sum(cases for _, cases in outcomes)
    words = [f"{total:,} case{'s' * (total != 1)}", *(f"{cases:,} {outcome}" for outcome, cases in outcomes)]
    if document.kind in (Run.Kind.MOE, Run.Kind.SERVING):
        words += _best_tokens(rows)
    elif (best := fastest(document)) is not None and (speed := rate(best)) is not None:
        shown = f"{speed / 1e12:,.1f} TFLOP/s" if speed >= 1e12 else f"{speed / 1e9:,.1f} GFLOP/s"
        words.append(f"best {shown} ({best.series.case.label})")
    versions = document.stack.components
    told = {"torch": versions["torch"]} if "torch" in versions else versions
    stack = " ".join(f"{name}={version}" for name, version in sorted(told.items()))
    return f"{document.kind} {stack} {document.target.arch}: {', '.join(words)}"


def _best_tokens(rows: QuerySet[Measurement]) -> list[str]:
    """The highest tok/s of a document's cases, of whole models before projected ones, with its window."""
    found = []
    for row in rows.filter(ranked(), facts__isnull=False).select_related("series__case"):
        kind, label = row.series.case.kind, row.series.case.label
        if (step := steps.step_of(row.facts)) is not None:
            words = f"{rate_words(step)}: {steps.window_words(kind, step)} ({label})"
            found.append((not steps.is_slice(step), steps.rate(step), words))
        elif (serving := steps.serving_of(row.facts)) is not None and serving.completed:
            speed = steps.output_rate(serving)
            words = f"{speed:,.0f} tok/s out: {steps.serving_words(serving)} ({label})"
            found.append((True, speed, words))
    return [f"best {max(found)[2]}"] if found else []
