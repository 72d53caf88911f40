"""What the pages of channels show."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.db.models import Count, Max, Q, QuerySet

from benchapp.alerts.models import Channel, Delivery, Route
from benchapp.alerts.notifiers.registry import notifier
from benchapp.alerts.routing import words_of

#: Messages that a channel's page lists of each sort.
MAX_ROWS = 50

_State, _Purpose = Delivery.State, Delivery.Purpose


def dead_letters(channel: Channel, delivery_id: int | None = None) -> QuerySet[Delivery]:
    """Messages of a channel that were given up, or one of these; no tests, and none that a digest told."""
    dead = Delivery.objects.filter(
        channel=channel, state=_State.DEAD, message__held__isnull=True, message__forgotten__isnull=True
    ).exclude(purpose=_Purpose.TEST)
    return dead if delivery_id is None else dead.filter(pk=delivery_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A channel as the list shows it."""

    channel: Channel
    where: str
    routes: list[str]
    sent_at: dt.datetime | None
    waiting: int
    dead: int
    error: str

    @property
    def failing(self) -> bool:
        return self.channel.failures > 0


def rows() -> list[Row]:
    waiting = Q(deliveries__state=_State.QUEUED)
    channels = (
        Channel.objects.annotate(
            sent_at=Max("deliveries__sent_at"), waiting=Count("deliveries", filter=waiting)
        )
        .select_related("added_by")
        .prefetch_related("routes__owner")
    )
    return [_row(channel) for channel in channels]


def _row(channel: Channel) -> Row:
    newest = channel.deliveries.exclude(error="").exclude(state=_State.SENT).order_by("-pk").first()
    return Row(
        channel=channel,
        where=notifier(channel.kind).where(channel.config),
        routes=[words_of(route) for route in channel.routes.all()],
        sent_at=channel.sent_at,  # type: ignore[attr-defined]
        waiting=channel.waiting,  # type: ignore[attr-defined]
        dead=dead_letters(channel).count(),
        error=newest.error if newest is not None else "",
    )


def routes_of(channel: Channel) -> list[tuple[Route, str]]:
    return [(route, words_of(route)) for route in channel.routes.select_related("owner").order_by("pk")]


def newest_test(channel: Channel) -> Delivery | None:
    return channel.deliveries.filter(purpose=_Purpose.TEST).order_by("-pk").first()


def dead_of(channel: Channel) -> tuple[list[Delivery], int]:
    """(the newest of them, how many there are)."""
    dead = dead_letters(channel).select_related("alert").order_by("-pk")
    return list(dead[:MAX_ROWS]), dead.count()


def recent(channel: Channel) -> list[Delivery]:
    """Messages that wait or were sent, the newest first."""
    live = channel.deliveries.exclude(state=_State.DEAD).exclude(purpose=_Purpose.TEST)
    return list(live.select_related("alert").order_by("-pk")[:MAX_ROWS])
