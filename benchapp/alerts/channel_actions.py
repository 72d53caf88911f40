"""What people do with channels, routes and messages that were given up: each one transaction with an audit
row. Settings name variables, never secrets, so they can stand in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.alerts.channel_queries import dead_letters
from benchapp.alerts.deliveries import TASK, test_message
from benchapp.alerts.models import Channel, Delivery, Route
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs.broker import ask_control

DROPPED = "Not sent: the channel was disabled."


@transaction.atomic
def add(kind: str, name: str, config: Mapping[str, Any], user: User) -> Channel:
    """A channel, with a route for all that is worse. Raises ValidationError where the name is taken."""
    try:
        with transaction.atomic():
            channel = Channel.objects.create(kind=kind, name=name, config=dict(config), added_by=user)
    except IntegrityError:
        raise _taken(name) from None
    Route.objects.create(channel=channel)
    audit.record(user, "add_channel", name, kind=kind, settings=dict(config))
    return channel


@transaction.atomic
def edit(channel: Channel, name: str, config: Mapping[str, Any], user: User) -> bool:
    """False where nothing changes. What it rested for is forgotten: it may be mended now."""
    channel = Channel.objects.select_for_update().get(pk=channel.pk)
    if (channel.name, channel.config) == (name, dict(config)):
        return False
    before, channel.name, channel.config = channel.name, name, dict(config)
    channel.wait_until, channel.failures = None, 0
    try:
        with transaction.atomic():
            channel.save(update_fields=["name", "config", "wait_until", "failures"])
    except IntegrityError:
        raise _taken(name) from None
    renamed = {"was": before} if before != name else {}
    audit.record(user, "edit_channel", name, **renamed, settings=dict(config))
    return True


def _taken(name: str) -> ValidationError:
    return ValidationError({"name": f"There is a channel called {name} already."})


@transaction.atomic
def switch(channel: Channel, user: User, *, enabled: bool) -> bool:
    """Send through it, or no longer: what waits is dropped then. False where it stands so already."""
    rest = {"wait_until": None, "failures": 0}
    if not Channel.objects.filter(pk=channel.pk).exclude(enabled=enabled).update(enabled=enabled, **rest):
        return False
    if not enabled:
        channel.deliveries.filter(state=Delivery.State.QUEUED).update(
            state=Delivery.State.DEAD, next_at=None, error=DROPPED
        )
    audit.record(user, "enable_channel" if enabled else "disable_channel", channel.name)
    return True


@transaction.atomic
def delete(channel: Channel, user: User) -> None:
    audit.record(user, "delete_channel", channel.name, kind=str(channel.kind))
    channel.delete()


@transaction.atomic
def set_route(channel: Channel, route: Route | None, fields: Mapping[str, Any], user: User) -> Route:
    """Another route, or what `route` lets through from now on."""
    action = "edit_route" if route else "add_route"
    route = route or Route(channel=channel)
    for name, value in fields.items():
        setattr(route, name, value)
    route.save()
    audit.record(user, action, channel.name, **_told(route))
    return route


@transaction.atomic
def delete_route(route: Route, user: User) -> None:
    audit.record(user, "delete_route", route.channel.name, **_told(route))
    route.delete()


def _told(route: Route) -> dict[str, Any]:
    return {
        "kinds": route.kinds,
        "gpu_models": route.gpu_models,
        "moe_models": route.moe_models,
        "owner": route.owner.get_username() if route.owner else None,
        "least_cost": route.least_cost,
        "improvements": route.improvements,
    }


@transaction.atomic
def test(channel: Channel, user: User) -> Delivery:
    audit.record(user, "test_channel", channel.name)
    return test_message(channel, user.get_username())


@transaction.atomic
def try_again(channel: Channel, user: User, delivery_id: int | None = None) -> int:
    """Queue one message that was given up again, or all of a channel: how many."""
    count = dead_letters(channel, delivery_id).update(
        state=Delivery.State.QUEUED, attempts=0, next_at=timezone.now(), error=""
    )
    if count:
        Channel.objects.filter(pk=channel.pk).update(wait_until=None, failures=0)
        audit.record(user, "retry_delivery", channel.name, messages=count)
        ask_control(TASK)
    return count


@transaction.atomic
def forget(channel: Channel, user: User, delivery_id: int | None = None) -> int:
    """Take messages that were given up off the page. Their rows stay, so that nothing is told anew."""
    rows = list(dead_letters(channel, delivery_id).select_for_update(of=("self",)))
    for row in rows:
        row.message = {**row.message, "forgotten": True}
    Delivery.objects.bulk_update(rows, ["message"], batch_size=500)
    if rows:
        audit.record(user, "forget_delivery", channel.name, messages=len(rows))
    return len(rows)
