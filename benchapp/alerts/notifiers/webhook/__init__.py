"""A signed webhook, for programs: the alert as JSON, with a signature that they can check."""

from benchapp.alerts.notifiers.base import Notifier
from benchapp.alerts.notifiers.webhook.form import WebhookSettings
from benchapp.alerts.notifiers.webhook.send import send, where

NOTIFIER = Notifier(
    kind="webhook",
    settings=WebhookSettings,
    send=send,
    where=where,
    tells_updates=lambda config: True,
)
