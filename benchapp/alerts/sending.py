"""Sends what is due: claimed in one transaction, sent outside of any, its outcome stored in another.

So it is sent *at least* once: what a control worker had sent when it died, before it could store so, is sent
again when the claim runs out, with the same key, by which a receiver knows it. One task sends at a time, all
channels at once and each under a deadline, so a server that hangs costs one slot of the control worker a few
seconds, and more and more seldom: its channel rests after each failure.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from benchapp.alerts.deliveries import TASK
from benchapp.alerts.messages import compose, compose_digest, message_of
from benchapp.alerts.models import Alert, Channel, Delivery
from benchapp.alerts.notifiers.base import Config, Failure, Message
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.registry import notifier

logger = logging.getLogger(__name__)

#: One attempt, whatever the server does; and how long after it a thread is given up that goes on even so: in
#: the look-up of a name, which nothing ends.
ATTEMPT_S, GRACE_S = 10.0, 2.0
#: No attempt is begun so long after a task began.
BUDGET_S = 15.0
#: Channels sent to at once.
ABREAST = 8
#: A claim whose worker died is free again after this.
CLAIM_S = 60
#: Seconds to the second try, to the third …; after the last a message is given up.
BACK_OFF_S = (60, 300, 900, 3600, 14_400, 43_200)
#: How long a channel rests after its first failure in a row, the second …
REST_S = (60, 120, 240, 480, 900)
#: The longest that a server's Retry-After is heeded.
MAX_RETRY_AFTER_S = 14_400.0
_JITTER = 0.2

_Purpose, _State = Delivery.Purpose, Delivery.State


def deliver() -> int:
    """Send all that is due, within the budget: how many were tried. Nothing where another task is at it."""
    tried = 0
    end = time.monotonic() + BUDGET_S
    with _alone() as alone:
        while alone and time.monotonic() < end:
            claimed = claim()
            if not claimed:
                break
            tried += len(claimed)
            _send(claimed)
    return tried


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether this task is the only one that sends; the lock goes with the connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [TASK])
        alone = bool(cursor.fetchone()[0])
    try:
        yield alone
    finally:
        if alone:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", [TASK])


@transaction.atomic
def claim() -> list[Delivery]:
    """The oldest due message of each channel that does not rest, composed and marked as tried once more.

    No later message of an alert overtakes an earlier one. SKIP LOCKED: what another claims is passed over.
    """
    now = timezone.now()
    earlier = Delivery.objects.filter(
        channel=OuterRef("channel"), alert=OuterRef("alert"), state=_State.QUEUED, pk__lt=OuterRef("pk")
    )
    due = (
        Delivery.objects.filter(state=_State.QUEUED, next_at__lte=now, channel__enabled=True)
        .filter(Q(channel__wait_until=None) | Q(channel__wait_until__lte=now) | Q(purpose=_Purpose.TEST))
        .exclude(Exists(earlier))
        .order_by("channel_id", "pk")
    )
    first = due.distinct("channel_id").values("pk")[:ABREAST]
    rows = Delivery.objects.select_for_update(of=("self",), skip_locked=True).filter(
        pk__in=list(first.values_list("pk", flat=True)), state=_State.QUEUED, next_at__lte=now
    )
    claimed = []
    for row in rows.select_related("channel", "alert"):
        row.attempts += 1
        row.next_at = now + dt.timedelta(seconds=CLAIM_S)
        try:
            with transaction.atomic():
                told = _composed(row)
                if told:
                    row.save(update_fields=["attempts", "next_at", "message"])
        except Exception as error:  # one alert that cannot be worded holds up no other
            logger.exception("delivery %s", row.pk)
            row.state, row.next_at = _State.DEAD, None
            row.error = f"Tilewatch found no words for it: {type(error).__name__}."
            row.save(update_fields=["attempts", "next_at", "state", "error"])
            continue
        if told:
            claimed.append(row)
        else:
            row.delete()
    return claimed


def _composed(row: Delivery) -> bool:
    """Say in the row what it tells, once: each try sends the same. False where there is nothing to tell."""
    if row.message:
        return True
    if row.purpose == _Purpose.DIGEST:
        alerts = list(Alert.objects.filter(deliveries__in=_held(row)).order_by("-cost", "-pk"))
        if alerts:
            newest = max(_held(row).values_list("pk", flat=True))
            row.message = {**compose_digest(alerts), "upto": newest}
        return bool(alerts)
    assert row.alert is not None
    row.message = compose(row.alert, row.purpose)
    return True


def _held(digest: Delivery) -> QuerySet[Delivery]:
    """Openings that the digest stands for; once it is composed, those that it counted."""
    held = Delivery.objects.filter(
        channel=digest.channel_id, purpose=_Purpose.OPENED, state=_State.QUEUED, next_at=None
    )
    return held.filter(pk__lte=digest.message["upto"]) if digest.message else held


def _send(claimed: list[Delivery]) -> None:
    """Each in a thread of its own, none of which touches the database."""
    pool = ThreadPoolExecutor(max_workers=ABREAST, thread_name_prefix="notify")
    sending = {
        pool.submit(_attempt, row.channel.kind, row.channel.config, message_of(row)): row for row in claimed
    }
    wait_for(sending, timeout=ATTEMPT_S + GRACE_S)
    pool.shutdown(wait=False, cancel_futures=True)
    for future, row in sending.items():
        _store(row, future)


def _attempt(kind: str, config: Config, message: Message) -> str:
    return notifier(kind).send(config, message, Deadline(ATTEMPT_S))


def _store(row: Delivery, future: Future[str]) -> None:
    if not future.done():
        failed(row, Failure(f"No answer within {ATTEMPT_S:g} s: not even its name could be looked up."))
        return
    error = future.exception()
    if error is None:
        succeeded(row, future.result())
    elif isinstance(error, Failure):
        failed(row, error)
    else:
        # what is no Failure may hold a secret in its words
        logger.error("delivery %s: %s", row.pk, type(error).__name__)
        failed(row, Failure(f"Tilewatch itself stumbled: {type(error).__name__}."))


@transaction.atomic
def succeeded(row: Delivery, remark: str) -> None:
    now = timezone.now()
    Delivery.objects.filter(pk=row.pk).update(state=_State.SENT, sent_at=now, next_at=None, error=remark)
    Channel.objects.filter(pk=row.channel_id).update(wait_until=None, failures=0)
    if row.purpose == _Purpose.DIGEST:
        _held(row).update(state=_State.SENT, sent_at=now)


@transaction.atomic
def failed(row: Delivery, failure: Failure) -> None:
    """Try again later, or give up. A server that refused one message for good is no reason to rest."""
    now = timezone.now()
    tests = row.purpose == _Purpose.TEST
    over = failure.permanent or tests or row.attempts > len(BACK_OFF_S)
    later = None if over else now + dt.timedelta(seconds=back_off(row.attempts, failure.retry_after_s))
    Delivery.objects.filter(pk=row.pk, state=_State.QUEUED).update(
        state=_State.DEAD if over else _State.QUEUED, next_at=later, error=failure.sentence
    )
    if failure.permanent or tests:
        return
    channel = Channel.objects.select_for_update().filter(pk=row.channel_id).first()
    if channel is not None:
        rest = max(REST_S[min(channel.failures, len(REST_S) - 1)], _heeded(failure.retry_after_s))
        channel.failures = min(channel.failures + 1, 1000)
        channel.wait_until = now + dt.timedelta(seconds=rest)
        channel.save(update_fields=["failures", "wait_until"])


def _heeded(retry_after_s: float | None) -> float:
    return min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)


def back_off(attempts: int, retry_after_s: float | None = None) -> float:
    """Seconds until the next try after `attempts` of them, a fifth more or less: not all at one moment."""
    usual = BACK_OFF_S[attempts - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)
    return max(usual, _heeded(retry_after_s))
