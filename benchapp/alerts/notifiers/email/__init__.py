"""E-mail by SMTP. An alert's messages answer its first one, so that mail programs show one thread."""

from benchapp.alerts.notifiers.base import Notifier
from benchapp.alerts.notifiers.email.form import EmailSettings
from benchapp.alerts.notifiers.email.send import send, where

NOTIFIER = Notifier(
    kind="email",
    settings=EmailSettings,
    send=send,
    where=where,
    tells_updates=lambda config: True,
)
