"""Opens alerts, or joins what is new to the open one. However many tasks see a thing at once, one alert is
opened for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from benchapp.alerts.cost import cost
from benchapp.alerts.models import Alert, Entry, Event
from benchapp.alerts.signals import alert_opened, alert_updated
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Host, Stack, Target
from benchapp.people.audit import SYSTEM


@dataclasses.dataclass(frozen=True, slots=True)
class Proposal:
    """What an alert is to say. `key` says which thing it is about."""

    key: str
    kind: Alert.Kind
    title: str
    sentence: str
    worse: bool = True
    certain: bool = True
    ratio: float | None = None
    importance: float = 1.0
    confidence: float = 1.0
    recorded: bool = False
    host: Host | None = None
    target: Target | None = None
    stack_before: Stack | None = None
    stack_after: Stack | None = None
    suspects: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)
    event: Event | None = None


#: Verdicts of an A/B that moved. They outweigh the series: such an alert is certain whatever comes next.
CONFIRMED = (Alert.Verdict.SLOW, Alert.Verdict.FAST)
CONFIRMED_CONFIDENCE = 0.99
#: What a proposal says anew of an open alert.
_SAID = (
    "title", "sentence", "worse", "certain", "ratio", "importance", "confidence", "recorded",
    "suspects", "evidence",
)  # fmt: skip
#: Of these, what is more than a figure: its history tells so, and channels may.
_TOLD = frozenset({"sentence", "certain", "worse"})


@transaction.atomic
def open_or_join(proposal: Proposal) -> tuple[Alert, bool]:
    """The open alert of the proposal's key, and whether it was opened now.

    An open one says from now on what the proposal says; where that differs in more than figures its history
    tells so. A closed one stays closed, and the next proposal of its key opens another; so whoever proposes
    does it for what is new (a change remembers its alert, an event is raised once).
    """
    lock(f"alert:{proposal.key}")
    alert = Alert.objects.filter(key=proposal.key, closed_at=None).first()
    fields = {name: getattr(proposal, name) for name in _SAID}
    fields["title"] = proposal.title[:200]
    if alert is not None and alert.verdict in CONFIRMED:
        fields |= {"certain": True, "confidence": CONFIRMED_CONFIDENCE}
    if alert is not None:
        fields["suspects"] = measured_first(alert.suspects, proposal.suspects)
    fields["cost"] = cost(proposal.ratio, proposal.importance, fields["confidence"], worse=proposal.worse)
    if alert is None:
        alert = Alert.objects.create(
            key=proposal.key[:200],
            kind=proposal.kind,
            host=proposal.host,
            target=proposal.target,
            stack_before=proposal.stack_before,
            stack_after=proposal.stack_after,
            event=proposal.event,
            **fields,
        )
        note(alert, "opened", proposal.sentence)
        alert_opened.send(sender=Alert, alert=alert)
        return alert, True
    moved = {name for name, value in fields.items() if getattr(alert, name) != value}
    if not moved:
        return alert, False
    for name, value in fields.items():
        setattr(alert, name, value)
    alert.save(update_fields=list(fields))
    Alert.objects.filter(pk=alert.pk).update(updated_at=Now())
    if not moved.isdisjoint(_TOLD):
        note(alert, "joined", proposal.sentence)
        alert_updated.send(sender=Alert, alert=alert, what=proposal.sentence)
    return alert, False


def measured_first(known: list[dict[str, Any]], said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Suspects as they are said, after the one that a bisect found (it is marked `found`)."""
    found = [each for each in known if each.get("found")]
    named = {each["component"] for each in found}
    return [*found, *(each for each in said if each.get("component") not in named)]


def note(alert: Alert, action: str, sentence: str) -> Entry:
    """A row of the alert's history, of what nobody in particular did. People's acts are in `triage`."""
    return Entry.objects.create(alert=alert, actor=SYSTEM, action=action, sentence=sentence)
