"""What people do with alerts. Each act is one transaction with a row lock, and leaves a row of the alert's
history and one of the audit; whoever comes too late is told who was faster."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.alerts import watching
from benchapp.alerts.life import CLOSED, may_move
from benchapp.alerts.models import Alert, Change, Entry, Watch
from benchapp.alerts.signals import alert_closed, alert_updated
from benchapp.catalog.locks import lock
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.web.templatetags.units import age_words

State = Alert.State

#: What was closed says so in an entry of one of these.
MOVED = ("state", "closed")


class Meanwhile(Exception):
    """Somebody else was faster: nothing was changed. Its text is a sentence for whoever asked."""


class NoAlert(Exception):
    """There is none of that number."""


def acknowledge(alert_id: int, user: User | None) -> Alert:
    return _move(alert_id, user, State.ACKNOWLEDGED)


def investigate(alert_id: int, user: User | None) -> Alert:
    return _move(alert_id, user, State.INVESTIGATING)


def close(alert_id: int, user: User | None, state: Alert.State, reason: str) -> Alert:
    """Close it as `state`, one of `life.CLOSED`. A closed one no longer sleeps."""
    if state not in CLOSED:
        raise ValueError(f"{state} is no state of a closed alert")
    return _move(alert_id, user, state, reason)


def reopen(alert_id: int, user: User | None, reason: str = "") -> Alert:
    """Open it again, as new. Not while another alert about the same thing is open."""
    return _move(alert_id, user, State.NEW, reason)


@transaction.atomic
def _move(alert_id: int, user: User | None, to: Alert.State, reason: str = "") -> Alert:
    key = Alert.objects.filter(pk=alert_id).values_list("key", flat=True).first()
    lock(f"alert:{key}")  # as whoever opens one or joins it does: nothing new gets lost in a closed one
    if to == State.NEW:
        _nothing_else_open(alert_id, key)
    alert = _locked(alert_id)
    if not may_move(alert.state, to):
        raise Meanwhile(_how_it_stands(alert))
    origin, alert.state = alert.state, to
    alert.closed_at = timezone.now() if to in CLOSED else None
    if to in CLOSED:
        alert.snoozed_until, alert.snoozed_component, alert.snoozed_version = None, "", ""
    alert.save(update_fields=["state", "closed_at", "snoozed_until", "snoozed_component", "snoozed_version"])
    verb = "opened again" if to == State.NEW else f"closed as {to.label}" if to in CLOSED else to.label
    sentence = f"{verb[0].upper()}{verb[1:]}{f': {reason}' if reason else ''}"
    _tell(alert, user, "state", sentence, origin=origin, to=str(to), reason=reason)
    if to in CLOSED:
        alert_closed.send(sender=Alert, alert=alert)
    else:
        alert_updated.send(sender=Alert, alert=alert, what=sentence)
    return alert


@transaction.atomic
def assign(alert_id: int, user: User, assignee: User | None) -> Alert:
    """Make it somebody's, or nobody's. Raises ValueError where the person may no longer log in."""
    if assignee is not None and not assignee.is_active:
        raise ValueError(f"{assignee.get_username()} is no longer active here.")
    alert = _locked(alert_id)
    if alert.assignee_id == (assignee.pk if assignee else None):
        return alert
    alert.assignee = assignee
    alert.save(update_fields=["assignee"])
    name = assignee.get_username() if assignee else ""
    sentence = f"Assigned to {name}" if name else "Assigned to nobody"
    _tell(alert, user, "assigned", sentence, assignee=name)
    alert_updated.send(sender=Alert, alert=alert, what=sentence)
    return alert


@transaction.atomic
def note(alert_id: int, user: User, text: str) -> Alert:
    """Something to know, kept whatever has become of the alert meanwhile."""
    alert = _locked(alert_id)
    _tell(alert, user, "note", text)
    alert_updated.send(sender=Alert, alert=alert, what=text)
    return alert


@transaction.atomic
def link(alert_id: int, user: User, url: str) -> Alert:
    """Where it is followed upstream; "" for nowhere. The form has seen to it that this is http or https."""
    alert = _locked(alert_id)
    if alert.upstream_url == url:
        return alert
    alert.upstream_url = url
    alert.save(update_fields=["upstream_url"])
    sentence = f"Upstream: {url}" if url else "Upstream link removed"
    _tell(alert, user, "link", sentence, url=url)
    alert_updated.send(sender=Alert, alert=alert, what=sentence)
    return alert


@transaction.atomic
def snooze(
    alert_id: int,
    user: User,
    *,
    until: dt.datetime | None = None,
    component: str = "",
    version: str = "",
) -> Alert:
    """Quiet until a time, or until this version of the component was measured; without either it wakes."""
    alert = _locked(alert_id)
    asleep = until is not None or version != ""
    if alert.state in CLOSED:
        raise Meanwhile(_how_it_stands(alert))
    alert.snoozed_until, alert.snoozed_component, alert.snoozed_version = until, component, version
    alert.save(update_fields=["snoozed_until", "snoozed_component", "snoozed_version"])
    if version:
        sentence = f"Snoozed until {component} {version} was measured"
    else:
        sentence = f"Snoozed until {until:%Y-%m-%d %H:%M} UTC" if until else "Awake again"
    said = {"until": until.isoformat() if until else None, "component": component, "version": version}
    _tell(alert, user, "snoozed" if asleep else "woken", sentence, **said)
    alert_updated.send(sender=Alert, alert=alert, what=sentence)
    return alert


def known_from_here(alert_id: int, user: User, reason: str) -> Alert:
    """A new baseline: its series are compared with nothing older than the change, and it is closed.

    An open alert is closed as "won't fix", for the new level is the one to live with from here on.
    """
    with transaction.atomic():
        # watches before the alert, as detection locks them
        starts = dict(
            Change.objects.filter(alert=alert_id, gone_at=None)
            .order_by("series_id")
            .values_list("series_id")
            .annotate(Max("at"))
        )
        for series_id, at in sorted(starts.items()):
            Watch.objects.update_or_create(series_id=series_id, defaults={"known_from": at})
        watching.mark(list(starts))
        number = len(starts)
        said = f"known from here on ({number} series have a new baseline)" if number else "known from here on"
        return close(alert_id, user, State.WONT_FIX, f"{said}{f': {reason}' if reason else ''}")


#: Fields of a Watch that people set.
SET = ("least_effect", "set_spread", "minimum_history", "muted")


@transaction.atomic
def set_watch(series_id: int, user: User, fields: dict[str, Any], alert_id: int | None = None) -> Watch:
    """What a person sets of the detection in one series: `SET`. It is looked at again."""
    watch, _ = Watch.objects.get_or_create(series_id=series_id)
    watch = Watch.objects.select_for_update().get(pk=watch.pk)
    changed = {name: fields[name] for name in SET if getattr(watch, name) != fields[name]}
    if not changed:
        return watch
    for name, value in changed.items():
        setattr(watch, name, value)
    watch.save(update_fields=list(changed))
    watching.mark([series_id])
    audit.record(user, "watch_set", f"series {series_id}", **changed)
    if alert_id is not None:
        said = ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in changed.items())
        Entry.objects.create(
            alert_id=alert_id,
            user=user,
            actor=user.get_username(),
            action="watch",
            sentence=f"Detection in series {series_id}: {said}",
        )
    return watch


def _word(value: object) -> str:
    return {None: "as usual", True: "yes", False: "no"}.get(value, str(value))  # type: ignore[call-overload,no-any-return]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one alert of a bulk action; `fault` is empty where it was done."""

    alert_id: int
    fault: str


def each(alert_ids: Sequence[int], act: Callable[[int], Alert]) -> list[Outcome]:
    """Do something to each, in transactions of their own: one that cannot be done holds up no other."""
    outcomes = []
    for alert_id in sorted(set(alert_ids)):
        try:
            act(alert_id)
        except (Meanwhile, NoAlert, ValueError) as error:
            outcomes.append(Outcome(alert_id, str(error)))
        else:
            outcomes.append(Outcome(alert_id, ""))
    return outcomes


def _locked(alert_id: int) -> Alert:
    alert = Alert.objects.select_for_update().filter(pk=alert_id).first()
    if alert is None:
        raise NoAlert(f"There is no alert {alert_id}.")
    return alert


def _nothing_else_open(alert_id: int, key: str | None) -> None:
    other = Alert.objects.filter(key=key, closed_at=None).exclude(pk=alert_id).first()
    if other is not None:
        raise Meanwhile(f"Alert {other.pk} about the same thing is open: nothing was changed.")


def _how_it_stands(alert: Alert) -> str:
    """Who brought it where it stands, and when."""
    last = alert.entries.filter(action__in=MOVED).last()
    stands = f"Alert {alert.pk} is {alert.get_state_display()}"
    if last is not None:
        stands += f" since {last.actor} said so {age_words(last.at, timezone.now())}"
    return f"{stands}: nothing was changed."


def _tell(alert: Alert, user: User | None, action: str, sentence: str, **detail: Any) -> None:
    actor = user.get_username() if user else audit.SYSTEM
    Entry.objects.create(alert=alert, user=user, actor=actor, action=action, sentence=sentence)
    audit.record(user, f"alert_{action}", f"alert {alert.pk}", **detail)
