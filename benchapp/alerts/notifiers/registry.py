"""The notifiers there are. Adding one: docs/notifiers.md."""

from __future__ import annotations

from benchapp.alerts.notifiers import email, slack, webhook
from benchapp.alerts.notifiers.base import Notifier

NOTIFIERS: dict[str, Notifier] = {
    each.kind: each for each in (email.NOTIFIER, slack.NOTIFIER, webhook.NOTIFIER)
}


def notifier(kind: str) -> Notifier:
    return NOTIFIERS[kind]
