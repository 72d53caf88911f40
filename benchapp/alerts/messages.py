"""What is told of an alert, in words and for programs."""

from __future__ import annotations

import math
from typing import Any

from django.conf import settings

from benchapp.alerts import words
from benchapp.alerts.models import Alert, Channel, Delivery
from benchapp.alerts.notifiers.base import Message
from benchapp.alerts.notifiers.words import one_line
from benchapp.catalog.models import Stack

INBOX = "/alerts/"
#: Versions, and alerts of a digest, that a message names.
MAX_NAMED = 8
_MAX_SENTENCE = 2000

Told = dict[str, Any]


def page_of(alert: Alert) -> str:
    return f"{INBOX}{alert.pk}/"


def about(alert: Alert) -> Told:
    """What a person needs to hear of anew when it differs from what was told last."""
    return {"certain": alert.certain, "verdict": str(alert.verdict), "worse": alert.worse}


def compose(alert: Alert, purpose: str) -> Told:
    """Title, words, facts and address of a message about `alert` as it stands now."""
    if purpose == Delivery.Purpose.OPENED:
        sentence = alert.sentence
    else:
        newest = alert.entries.order_by("-pk").first()
        sentence = newest.sentence if newest else alert.sentence
        if purpose == Delivery.Purpose.CLOSED and "closed" not in sentence.lower():
            sentence = f"Closed as {alert.get_state_display()}: {sentence}"
    return {
        "title": one_line(alert.title),
        "sentence": sentence[:_MAX_SENTENCE],
        "facts": [list(fact) for fact in _facts(alert)],
        "path": page_of(alert),
        "alert": _for_programs(alert),
        "about": about(alert),
    }


def _facts(alert: Alert) -> list[tuple[str, str]]:
    facts = [("Kind", alert.get_kind_display())]
    where = [str(each) for each in (alert.target, alert.host) if each is not None]
    if where:
        facts.append(("Where", " on ".join(where)))
    changes = alert.changes.filter(gone_at=None).select_related("series__case", "series__target")
    if listed := sorted(changes[:500], key=words.strength, reverse=True):
        strongest = listed[0]
        series = strongest.series
        before, after = words.change_levels(strongest)
        sure = words.interval(strongest.low, strongest.high)
        facts.append(("Strongest", f"{series}, {words.metric_name(series.metric)}"))
        facts.append(
            (
                "Before → after",
                f"{before} → {after}, {words.ratio(strongest.ratio)}{f' (95 %: {sure})' if sure else ''}",
            )
        )
        if len(listed) > 1:
            facts.append(("Series that moved", f"{len(listed):,}"))
    elif alert.ratio is not None:
        facts.append(("After / before", words.ratio(alert.ratio)))
    if differing := [str(each) for each in words.differing(alert)]:
        more = len(differing) - MAX_NAMED
        facts.append(
            ("Versions", ", ".join(differing[:MAX_NAMED]) + (f" and {more} more" if more > 0 else ""))
        )
    for component, before, after, share, why in words.suspects(alert.suspects)[:1]:
        moved = f" {before} → {after}" if before and after else ""
        facts.append(
            (
                "Likeliest cause",
                f"{component}{moved}{f', {share}' if share else ''}{f': {why}' if why else ''}",
            )
        )
    facts.append(("How sure", _sure(alert)))
    return facts


def _sure(alert: Alert) -> str:
    if not alert.verdict:
        return "certain by what was seen" if alert.certain else "uncertain"
    comparison = max(alert.comparisons.filter(verdict=alert.verdict), key=words.strength, default=None)
    told = f"A/B says {alert.verdict}"
    if comparison is None or comparison.ratio is None:
        return told
    sure = words.interval(comparison.low, comparison.high)
    pairs = f", {comparison.pairs:,} pairs" if comparison.pairs else ""
    return f"{told}: {words.ratio(comparison.ratio)}{f' (95 %: {sure})' if sure else ''}{pairs}"


def _for_programs(alert: Alert) -> Told:
    def components(stack: Stack | None) -> dict[str, str] | None:
        return stack.components if stack else None

    return {
        "id": alert.pk,
        "kind": str(alert.kind),
        "state": str(alert.state),
        "worse": alert.worse,
        "certain": alert.certain,
        "verdict": str(alert.verdict) or None,
        "ratio": _number(alert.ratio),
        "cost": _number(alert.cost),
        "host": str(alert.host) if alert.host else None,
        "target": alert.target.key if alert.target else None,
        "stack_before": components(alert.stack_before),
        "stack_after": components(alert.stack_after),
        "suspects": alert.suspects[:MAX_NAMED],
        "assignee": alert.assignee.get_username() if alert.assignee else None,
        "upstream_url": alert.upstream_url or None,
        "opened_at": alert.opened_at.isoformat(),
    }


def _number(value: float | None) -> float | None:
    """JSON has neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def compose_digest(alerts: list[Alert]) -> Told:
    """One message in place of many; `alerts` is not empty, the dearest first."""
    n = len(alerts)
    more = f" and {n - MAX_NAMED:,} more" if n > MAX_NAMED else ""
    return {
        "title": f"{n:,} more alert{'s' if n > 1 else ''}: see the inbox",
        "sentence": f"So many alerts opened within an hour that {n:,} were not told one by one.",
        "facts": [["Alert", one_line(alert.title)] for alert in alerts[:MAX_NAMED]]
        + ([["", f"…{more}"]] if more else []),
        "path": INBOX,
        "alert": {},
    }


def compose_test(channel: Channel, by: str) -> Told:
    return {
        "title": f"Test of {channel.name}",
        "sentence": f"{by} asked for this message, to see that it arrives. No alert is behind it.",
        "facts": [],
        "path": INBOX,
        "alert": {},
    }


def message_of(delivery: Delivery) -> Message:
    """What a notifier sends, of a delivery whose message was composed."""
    told = delivery.message
    return Message(
        key=f"{delivery.thread}.{delivery.pk}",
        thread=delivery.thread,
        purpose=str(delivery.purpose),
        title=told["title"],
        sentence=told["sentence"],
        facts=tuple((name, value) for name, value in told["facts"]),
        path=told["path"],
        link=f"{settings.PUBLIC_URL}{told['path']}" if settings.PUBLIC_URL else "",
        alert=told["alert"],
    )
