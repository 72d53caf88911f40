"""Which messages an alert gives rise to, and their rows. `sending` sends them.

A channel is told once that an alert opened; later messages are of what a person needs: a verdict, another
certainty, that it was closed or opened again. A channel that was told of many openings within an hour gets
one digest of the others.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid

from django.db import transaction
from django.utils import timezone

from benchapp.alerts.messages import about, compose_test
from benchapp.alerts.models import Alert, Channel, Delivery, Entry
from benchapp.alerts.narrowing import HOLD
from benchapp.alerts.notifiers.registry import notifier
from benchapp.alerts.routing import channels_of, is_told
from benchapp.catalog.locks import lock
from benchapp.runs.broker import ask_control

logger = logging.getLogger(__name__)

#: Sends what is due, and by beat: decides for what was missed, then sends.
TASK, BEAT_TASK = "alerts.deliver", "alerts.tell"
#: Openings told to one channel within an hour; those beyond are in a digest, so long after the first of them.
STORM = 20
DIGEST_AFTER = dt.timedelta(minutes=10)
#: Alerts that something happened to so lately are looked at again: a process may have died before it could.
CATCH_UP = dt.timedelta(minutes=10)

_Purpose, _State = Delivery.Purpose, Delivery.State


@transaction.atomic
def decide(alert_id: int) -> None:
    """Make the rows of messages that an alert as it stands now calls for. Doing it twice makes none twice."""
    lock(f"tell:{alert_id}")
    alert = Alert.objects.filter(pk=alert_id).first()
    if alert is None:
        return
    if alert.closed_at is not None:
        made = _tell_closed(alert)
    elif is_told(alert):
        made = _tell_open(alert)
    else:
        return
    if made:
        ask_control(TASK)


def _tell_open(alert: Alert) -> bool:
    made = False
    for channel in channels_of(alert):
        rows = list(channel.deliveries.filter(alert=alert).order_by("pk"))
        if not any(row.purpose == _Purpose.OPENED for row in rows):
            _open(alert, channel)
        elif not _update(alert, channel, rows):
            continue
        made = True
    return made


def _open(alert: Alert, channel: Channel) -> None:
    """One more message, or one more alert of a digest."""
    hour = timezone.now() - dt.timedelta(hours=1)
    told = channel.deliveries.filter(purpose=_Purpose.OPENED, made_at__gte=hour, message__held__isnull=True)
    held = told.count() >= STORM
    Delivery.objects.bulk_create(
        [
            Delivery(
                channel=channel,
                alert=alert,
                purpose=_Purpose.OPENED,
                thread=_thread(),
                **({"next_at": None, "message": {"held": True}} if held else {}),
            )
        ],
        ignore_conflicts=True,
    )
    if held and not channel.deliveries.filter(purpose=_Purpose.DIGEST, state=_State.QUEUED, attempts=0):
        Delivery.objects.create(
            channel=channel,
            purpose=_Purpose.DIGEST,
            thread=_thread(),
            next_at=timezone.now() + DIGEST_AFTER,
        )


def _update(alert: Alert, channel: Channel, rows: list[Delivery]) -> bool:
    """Whether a message is to follow the last one. What waits untried is composed when it is sent, so it
    tells the newest anyway."""
    last = rows[-1]
    if last.attempts == 0 and last.state == _State.QUEUED:
        return False
    again = last.purpose == _Purpose.CLOSED
    known = last.message.get("about")
    news = known is not None and known != about(alert)
    if not again and not (news and notifier(channel.kind).tells_updates(channel.config)):
        return False
    _follow(alert, channel, _Purpose.UPDATED, rows)
    return True


def _tell_closed(alert: Alert) -> bool:
    """Who was told that it opened is told that it is closed. What nobody was told yet, nobody is told."""
    made = False
    for channel in Channel.objects.filter(enabled=True, deliveries__alert=alert).distinct():
        untried = channel.deliveries.filter(alert=alert, state=_State.QUEUED, attempts=0)
        untried.exclude(purpose=_Purpose.CLOSED).delete()
        rows = list(channel.deliveries.filter(alert=alert).order_by("pk"))
        held = not rows or rows[0].message.get("held")
        if held or rows[-1].purpose == _Purpose.CLOSED or rows[0].state == _State.DEAD:
            continue
        _follow(alert, channel, _Purpose.CLOSED, rows)
        made = True
    return made


def _follow(alert: Alert, channel: Channel, purpose: str, rows: list[Delivery]) -> None:
    Delivery.objects.create(channel=channel, alert=alert, purpose=purpose, thread=rows[0].thread)


def _thread() -> str:
    return f"tilewatch.{uuid.uuid4().hex}"


def catch_up() -> None:
    """Decide again for alerts that something happened to lately, and for those that have waited long enough.
    One that stumbles keeps none from theirs."""
    since = timezone.now() - CATCH_UP
    happened = Entry.objects.filter(at__gte=since).values_list("alert_id", flat=True)
    waited = Alert.objects.filter(opened_at__range=(since - HOLD, timezone.now() - HOLD), closed_at=None)
    for alert_id in {*happened, *waited.values_list("pk", flat=True)}:
        try:
            decide(alert_id)
        except Exception:
            logger.exception("alert %s is not told", alert_id)


def test_message(channel: Channel, by: str) -> Delivery:
    """A message that says it is a test, sent at once by the same way as others, and tried once."""
    delivery = Delivery.objects.create(
        channel=channel, purpose=_Purpose.TEST, thread=_thread(), message=compose_test(channel, by)
    )
    ask_control(TASK)
    return delivery
