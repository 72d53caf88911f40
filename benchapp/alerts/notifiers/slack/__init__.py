"""A Slack-compatible incoming webhook: Slack, Mattermost, Rocket.Chat, Zulip and others take it."""

from benchapp.alerts.notifiers.base import Notifier
from benchapp.alerts.notifiers.slack.form import SlackSettings
from benchapp.alerts.notifiers.slack.send import send, where

NOTIFIER = Notifier(
    kind="slack",
    settings=SlackSettings,
    send=send,
    where=where,
    # incoming webhooks tell no thread to answer in
    tells_updates=lambda config: bool(config.get("updates")),
)
