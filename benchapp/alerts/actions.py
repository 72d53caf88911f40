from __future__ import annotations

from typing import Any

from benchapp.alerts.models import Event


def raise_event(
    kind: str,
    severity: Event.Severity,
    *,
    subject: str,
    sentence: str,
    dedupe_key: str,
    payload: dict[str, Any] | None = None,
) -> bool:
    """Append an event, once a dedupe_key. True if it is new."""
    _, created = Event.objects.get_or_create(
        dedupe_key=dedupe_key[:200],
        defaults={
            "kind": kind,
            "severity": severity,
            "subject": subject[:200],
            "sentence": sentence,
            "payload": payload or {},
        },
    )
    return created
