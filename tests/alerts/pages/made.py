"""Alerts of every kind for tests of their pages: series stored as documents, changes and alerts as rows."""

from __future__ import annotations

import dataclasses
import datetime as dt

from benchapp.alerts.models import Alert, Change, Comparison
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.alerts.suspects import differences
from benchapp.catalog.models import Host, Series, Stack
from benchapp.people.models import Role, User
from benchapp.runs.models import Document
from tests.trends.gemms import H200, gemm, store

OLD, NEW = "2.10.0", "2.11.0"
#: When the first value of the new level was measured.
AT = dt.datetime(2026, 11, 21, 10, 0, tzinfo=dt.UTC)


def person(name="ann", role=Role.OPERATOR, **fields):
    return User.objects.create_user(name, password="correct horse battery", role=role, **fields)


def moved(m=16, before=10e-6, after=12e-6, *, runs=6, target=H200, new=NEW, **options):
    """A series of `runs` values on either side of AT, and its change; `new` is the later torch."""
    jitter = (0.998, 1.001, 1.0, 0.999, 1.002, 1.0)
    for day, level, torch in ((20, before, OLD), (21, after, new)):
        stamps = [f"2026-11-{day}T10:{minute:02}:00Z" for minute in range(runs)]
        values = [gemm(m, level * jitter[i % 6], at=at, **options) for i, at in enumerate(stamps)]
        document = store(*values, target=target, torch=torch, day=day)
    case = {"m": m, "n": options.get("n", 4096), "k": options.get("k", 7168)}
    series = Series.objects.get(
        case__params__contains=case, case__dtype=options.get("dtype", "bf16"), metric="time",
        target__uuid=target.uuid,
    )  # fmt: skip
    return change(series, before, after, runs=runs, new=document.stack)


def change(series, before=10e-6, after=12e-6, *, runs=6, new=None, **fields):
    stacks = list(Stack.objects.order_by("pk")[:2])
    ratio = after / before
    told = {
        "at": AT, "before_at": AT - dt.timedelta(days=1), "stack_before": stacks[0],
        "stack_after": new or stacks[-1], "before": before, "after": after, "ratio": ratio,
        "low": ratio * 0.99, "high": ratio * 1.01, "confidence": 0.99, "certain": True, "worse": ratio > 1,
        "n_before": runs, "n_after": runs,
    }  # fmt: skip
    return Change.objects.create(series=series, **told | fields)


def alert(*changes, key=None, kind=Alert.Kind.STACK, **fields):
    """An open alert that holds these changes, the strongest first."""
    first = changes[0] if changes else None
    told = {
        "key": key or f"{kind}:{Alert.objects.count()}", "kind": kind, "title": f"A {kind} alert",
        "sentence": f"Something of the kind {kind} happened.", "ratio": first and first.ratio,
        "worse": first is None or first.ratio > 1,
    }  # fmt: skip
    if first is not None and kind == Alert.Kind.STACK:
        before, after = first.stack_before, first.stack_after
        told |= {"stack_before": before, "stack_after": after, "target": first.series.target}
        told["suspects"] = [
            dataclasses.asdict(each) | {"share": 0.9, "why": "it changed nowhere else that was measured"}
            for each in differences(before.components, after.components)
        ]
    made, _ = open_or_join(Proposal(**told | fields))
    Change.objects.filter(pk__in=[each.pk for each in changes]).update(alert=made)
    return made


def compared(made, change, verdict="SLOW", **fields):
    """An A/B of a change's case, as the ingest of a confirm document stores it."""
    told = {
        "document": Document.objects.first(), "alert": made, "target": change.series.target,
        "case": change.series.case, "backend": change.series.backend, "metric": "time",
        "old_stack": change.stack_before, "new_stack": change.stack_after, "verdict": verdict,
        "ratio": 1.18, "low": 1.16, "high": 1.2, "pairs": 8,
    }  # fmt: skip
    return Comparison.objects.create(**told | fields)


def host(name="box"):
    return Host.objects.get_or_create(name=name)[0]
